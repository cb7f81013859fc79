package ring

import (
	"encoding/binary"
	"fmt"
	"sync/atomic"
	"unsafe"

	"ustack/tracefs/format"
)

// Layout describes the sub-buffers of a ring buffer, as far as reading them
// needs it.
type Layout struct {
	format.Page
	BigEndian bool
}

// Order returns the byte order of the traced machine.
func (l *Layout) Order() binary.ByteOrder {
	if l.BigEndian {
		return binary.BigEndian
	}
	return binary.LittleEndian
}

// commit returns the lower half of the commit word; the upper one may have all
// bits of a negative int.
func (l *Layout) commit(data []byte) uint32 {
	at := l.Commit
	if l.BigEndian && l.LongSize == 8 {
		at += 4
	}
	return l.Order().Uint32(data[at:])
}

// committed returns the lower half of the commit word of a sub-buffer that may
// still be written to: the bytes that it counts are complete.
func (l *Layout) committed(data []byte) uint32 {
	word := unsafe.Pointer(&data[l.Commit])
	if l.LongSize != 8 || uintptr(word)%8 != 0 {
		return l.commit(data)
	}
	var b [8]byte
	binary.NativeEndian.PutUint64(b[:], atomic.LoadUint64((*uint64)(word)))
	return uint32(l.Order().Uint64(b[:]))
}

// Committed returns how many bytes of records a sub-buffer says it has; head is
// at least what stands before its data.
func (l *Layout) Committed(head []byte) int { return int(l.commit(head) & commitMask) }

// Written returns how many bytes of records a sub-buffer has that may still be written to.
func (l *Layout) Written(data []byte) int { return int(l.committed(data) & commitMask) }

// Copy copies what has been written of a sub-buffer that may still be written to, with all
// that a Page reads of it, and returns how many bytes that is. There must be room for the
// whole sub-buffer, and the sub-buffer must have its head.
func (l *Layout) Copy(to, from []byte) int {
	word := l.committed(from)
	n := min(l.Data+int(word&commitMask), len(from))
	if word&missedStored != 0 {
		n = min(n+l.LongSize, len(from))
	}
	copy(to, from[:n])
	at := l.Commit
	if l.BigEndian && l.LongSize == 8 {
		at += 4
	}
	l.Order().PutUint32(to[at:], word)
	return n
}

// Flags of the commit word and its size (RB_MISSED_* in ring_buffer.c).
const (
	missedEvents = 1 << 31
	missedStored = 1 << 30
	commitMask   = missedStored - 1
)

// Codes of type_len (enum ring_buffer_type).
const (
	typeLong       = 0
	typeDataMax    = 28
	typePadding    = 29
	typeTimeExtend = 30
	typeTimeStamp  = 31
)

const (
	deltaBits = 27
	stampBits = 59 // an absolute stamp has these, the rest is the last time's
	stampMask = 1<<stampBits - 1
)

// Error is about bytes of a sub-buffer that cannot be what a kernel wrote.
type Error struct {
	// Byte is the offset in the sub-buffer.
	Byte int
	What string
}

func (e *Error) Error() string { return fmt.Sprintf("byte %d: %s", e.Byte, e.What) }

// Page walks the records of one sub-buffer:
//
//	if err := p.Reset(layout, data); err != nil { … }
//	for p.Next() { p.Time, p.Record }
//	p.Err()
//
// It keeps a reference to the data and allocates nothing but errors.
type Page struct {
	// Time is the time stamp of the record, in units of the trace clock.
	Time uint64
	// Record is the payload, padded to four bytes: common_type and all that
	// follows. It is a part of the data given to Reset.
	Record []byte
	// Missed says that records were lost before the first one of this
	// sub-buffer, Lost how many, 0 if the kernel did not say.
	Missed bool
	Lost   uint64

	whole []byte // the sub-buffer
	data  []byte // up to the end of its records
	start int
	pos   int
	at    int // of the record last found
	big   bool
	err   error
}

// Reset begins to walk a sub-buffer, of which data is all there is. An error
// says that its end is missing, or that it is none. The records that are there
// can be walked all the same.
func (p *Page) Reset(l *Layout, data []byte) error {
	*p = Page{whole: data, big: l.BigEndian, start: l.Data, pos: l.Data, at: l.Data}
	if len(data) < l.Data {
		p.err = &Error{len(data), fmt.Sprintf("a sub-buffer of %d bytes", len(data))}
		return p.err
	}
	order := l.Order()
	p.Time = order.Uint64(data[l.Timestamp:])
	commit := l.committed(data)
	size := int(commit & commitMask)
	if left := len(data) - l.Data; size > left {
		p.err = &Error{l.Commit, fmt.Sprintf("%d bytes of records with %d left", size, left)}
		if len(data) < l.Size && size <= l.Size-l.Data {
			p.data = data // cut off, not corrupt
		}
		return p.err
	}
	p.data = data[:l.Data+size]
	p.Missed = commit&missedEvents != 0
	// The count stands after the records, if it fits there.
	if rest := data[len(p.data):]; p.Missed && commit&missedStored != 0 && len(rest) >= l.LongSize {
		if l.LongSize == 4 {
			p.Lost = uint64(order.Uint32(rest))
		} else {
			p.Lost = order.Uint64(rest)
		}
	}
	return nil
}

// Grow looks again how much has been written of a sub-buffer that is mapped, and
// reports whether Next can go on.
func (p *Page) Grow(l *Layout) bool {
	if len(p.whole) < l.Data || p.err != nil {
		return false
	}
	end := l.Data + int(l.committed(p.whole)&commitMask)
	if end <= len(p.data) || end > len(p.whole) {
		return false
	}
	p.data = p.whole[:end]
	return true
}

// Move has the walk go on in a copy of the sub-buffer. Its memory may be used for something
// else from then on. The copy has at least what Grow has found; else that is an error of the
// sub-buffer, and nothing of it is left.
func (p *Page) Move(copied []byte) {
	if p.whole == nil {
		return
	}
	if len(copied) < len(p.data) {
		err := &Error{len(copied), fmt.Sprintf("%d bytes of a sub-buffer that had %d", len(copied), len(p.data))}
		*p = Page{Time: p.Time, err: err}
		return
	}
	if p.Record != nil {
		at := cap(p.whole) - cap(p.Record)
		p.Record = copied[at:][:len(p.Record)]
	}
	p.whole, p.data = copied, copied[:len(p.data)]
}

// Next finds the next record. It reports false at the end, and at the first byte
// that makes no sense; then Err is set.
func (p *Page) Next() bool {
	for {
		data, at := p.data, p.pos
		if at+4 > len(data) {
			return false // a rest of less than a header is padding
		}
		var typ, delta uint32
		if p.big {
			w := binary.BigEndian.Uint32(data[at:])
			typ, delta = w>>deltaBits, w&(1<<deltaBits-1)
		} else {
			w := binary.LittleEndian.Uint32(data[at:])
			typ, delta = w&31, w>>5
		}
		p.at = at
		if typ-1 < typeDataMax {
			end := at + 4 + 4*int(typ)
			if end > len(data) {
				return p.fail(at, "a record of %d bytes with %d left", 4*int(typ), len(data)-at-4)
			}
			p.Time += uint64(delta)
			p.Record, p.pos = data[at+4:end], end
			return true
		}
		if typ == typePadding && delta == 0 {
			p.pos = len(data) // the rest of the sub-buffer
			return false
		}
		if at+8 > len(data) {
			return p.fail(at, "a record of type %d with %d bytes left", typ, len(data)-at)
		}
		if done, ok := p.long(typ, delta); done {
			return ok
		}
	}
}

// long takes a record whose first word does not say all. done means that Next must
// return.
func (p *Page) long(typ, delta uint32) (done, ok bool) {
	at := p.at
	word := binary.LittleEndian.Uint32(p.data[at+4:])
	if p.big {
		word = binary.BigEndian.Uint32(p.data[at+4:])
	}
	switch typ {
	case typeTimeExtend:
		p.Time += uint64(delta) + uint64(word)<<deltaBits
		p.pos = at + 8
		return false, false
	case typeTimeStamp:
		p.Time = absolute(uint64(delta)+uint64(word)<<deltaBits, p.Time)
		p.pos = at + 8
		return false, false
	}
	// A long record, or one discarded: the word is its length, itself included.
	length := (int64(word) + 3) &^ 3
	if word < 4 || length > int64(len(p.data)-at-4) {
		return true, p.fail(at+4, "a record of %d bytes with %d left", word, len(p.data)-at-4)
	}
	p.pos = at + 4 + int(length)
	// The time of a discarded record counts, as for libtraceevent: the
	// kernel's writer has gone on from it.
	p.Time += uint64(delta)
	if typ == typePadding {
		return false, false
	}
	p.Record = p.data[at+8 : p.pos]
	return true, true
}

// absolute puts the missing upper bits to an absolute stamp
// (rb_fix_abs_ts): the last time's, or one more if the 59 bits have begun anew
// since.
func absolute(stamp, last uint64) uint64 {
	stamp = stamp&stampMask | last&^stampMask
	if stamp < last && last-stamp > 1<<(stampBits-1) {
		stamp += 1 << stampBits
	}
	return stamp
}

func (p *Page) fail(at int, format string, args ...any) bool {
	if p.err == nil {
		p.err = &Error{at, fmt.Sprintf(format, args...)}
	}
	p.pos = len(p.data)
	return false
}

// Err is what ended the walk, nil if it was the end of the records.
func (p *Page) Err() error { return p.err }

// At returns the offset of the last record in the sub-buffer.
func (p *Page) At() int { return p.at }
