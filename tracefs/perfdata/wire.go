package perfdata

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// order is the byte order of a file.
type order struct{ big bool }

func (o order) u16(b []byte) uint16 {
	if o.big {
		return binary.BigEndian.Uint16(b)
	}
	return binary.LittleEndian.Uint16(b)
}

func (o order) u32(b []byte) uint32 {
	if o.big {
		return binary.BigEndian.Uint32(b)
	}
	return binary.LittleEndian.Uint32(b)
}

func (o order) u64(b []byte) uint64 {
	if o.big {
		return binary.BigEndian.Uint64(b)
	}
	return binary.LittleEndian.Uint64(b)
}

// word returns a number as it stands in the file.
func (o order) word(v uint64) []byte {
	if o.big {
		return binary.BigEndian.AppendUint64(nil, v)
	}
	return binary.LittleEndian.AppendUint64(nil, v)
}

// header is struct perf_event_header.
type header struct {
	typ  uint32
	misc uint16
	size int
}

const headerSize = 8

func (o order) header(b []byte) header {
	return header{typ: o.u32(b), misc: o.u16(b[4:]), size: int(o.u16(b[6:]))}
}

// ErrFormat: the bytes are no perf.data, or none that is known.
var ErrFormat = errors.New("malformed perf.data")

func malformed(at int64, what string, args ...any) error {
	return fmt.Errorf("%w: byte %d: %s", ErrFormat, at, fmt.Sprintf(what, args...))
}

// fields takes values from the front of a part of a file. After the first one that is
// not there all are zero.
type fields struct {
	order
	rest []byte
	bad  bool
}

// take takes n bytes, nil if there are not as many.
func (f *fields) take(n uint64) []byte {
	if f.bad || n > uint64(len(f.rest)) {
		f.bad, f.rest = true, nil
		return nil
	}
	b := f.rest[:n:n]
	f.rest = f.rest[n:]
	return b
}

func (f *fields) word32() uint32 {
	if b := f.take(4); b != nil {
		return f.u32(b)
	}
	return 0
}

func (f *fields) word64() uint64 {
	if b := f.take(8); b != nil {
		return f.u64(b)
	}
	return 0
}

// words takes n words of 8 bytes.
func (f *fields) words(n uint64) []byte {
	if n > uint64(len(f.rest))/8 {
		f.bad, f.rest = true, nil
		return nil
	}
	return f.take(8 * n)
}

// text takes a string of a feature section: its size, with padding, and its bytes
// (do_write_string in tools/perf/util/header.c).
func (f *fields) text() string { return string(upToNUL(f.take(uint64(f.word32())))) }

func upToNUL(b []byte) []byte {
	for i, c := range b {
		if c == 0 {
			return b[:i]
		}
	}
	return b
}
