// Package perfdatatest makes files as perf record does, for tests: as a file, as it goes
// through a pipe, and compressed, in both byte orders.
package perfdatatest

import (
	"bytes"
	"encoding/binary"
	"math/bits"

	"github.com/klauspost/compress/zstd"
)

// Types of records that perf itself writes (enum perf_user_event_type).
const (
	HeaderAttr  = 64
	TracingData = 66
	Round       = 68
	Feature     = 80
	Compressed  = 81
	Compressed2 = 83
)

// FeatureTracingData is the feature that has the formats of events; the other ones are
// numbered as in tools/perf/util/header.h.
const FeatureTracingData = 1

// File is a file to be.
type File struct {
	Big      bool
	Attrs    []Attr
	Records  [][]byte // whole ones
	Features map[int][]byte

	broken bool // a value could not be written
}

// Attr is an event of the file.
type Attr struct {
	// Raw is its struct perf_event_attr, made of the other fields if nil.
	Raw                          []byte
	Type                         uint32
	Config, SampleType, Flags    uint64
	ReadFormat, Regs, BranchType uint64
	StackBytes                   uint32
	ClockID                      int32
	IDs                          []uint64
}

// byteOrder is both ways to use an order.
type byteOrder interface {
	binary.ByteOrder
	binary.AppendByteOrder
}

func (f *File) order() byteOrder {
	if f.Big {
		return binary.BigEndian
	}
	return binary.LittleEndian
}

// Bytes puts values one after the other: numbers of fixed sizes, slices of them, and strings.
// After any other value Write and Pipe return nothing.
func (f *File) Bytes(values ...any) []byte {
	var b []byte
	for _, v := range values {
		if text, ok := v.(string); ok {
			v = []byte(text)
		}
		var err error
		if b, err = binary.Append(b, f.order(), v); err != nil {
			f.broken = true
		}
	}
	return b
}

// Record returns a record; its body is padded to whole words.
func (f *File) Record(typ uint32, misc uint16, values ...any) []byte {
	body := pad(f.Bytes(values...))
	return f.Bytes(typ, misc, uint16(8+len(body)), body)
}

// Add adds a record.
func (f *File) Add(typ uint32, misc uint16, values ...any) {
	f.Records = append(f.Records, f.Record(typ, misc, values...))
}

// Name returns a string with its NUL, in whole words.
func Name(s string) []byte { return pad(append([]byte(s), 0)) }

func pad(b []byte) []byte {
	for len(b)%8 != 0 {
		b = append(b, 0)
	}
	return b
}

// attr returns an attribute as the file has it.
func (f *File) attr(a *Attr) []byte {
	if a.Raw != nil {
		return a.Raw
	}
	flags := a.Flags
	if f.Big {
		flags = bits.Reverse64(flags)
	}
	const size = 112
	return f.Bytes(a.Type, uint32(size), a.Config, uint64(1), a.SampleType, a.ReadFormat, flags, uint32(0), uint32(0),
		uint64(0), uint64(0), a.BranchType, a.Regs, a.StackBytes, a.ClockID, uint64(0), uint32(0), uint32(0))
}

// magic is the first word, whose letters turn with the byte order.
const magic = uint64('P') | 'E'<<8 | 'R'<<16 | 'F'<<24 | 'I'<<32 | 'L'<<40 | 'E'<<48 | '2'<<56

const headerSize = 104

// Write returns the file as perf record -o FILE writes it.
func (f *File) Write() []byte {
	var ids, attrs []byte
	size := 112
	if len(f.Attrs) > 0 {
		size = len(f.attr(&f.Attrs[0]))
	}
	for i := range f.Attrs {
		a := &f.Attrs[i]
		attrs = append(attrs, f.attr(a)...)
		attrs = append(attrs, f.Bytes(uint64(headerSize+len(ids)), uint64(8*len(a.IDs)))...)
		ids = append(ids, f.Bytes(a.IDs)...)
	}
	data := bytes.Join(f.Records, nil)
	dataAt := headerSize + len(ids) + len(attrs)
	var bitmap [4]uint64
	list := 0
	for bit := range f.Features {
		bitmap[bit/64] |= 1 << (bit % 64)
		list++
	}
	out := f.Bytes(magic, uint64(headerSize), uint64(size+16), uint64(headerSize+len(ids)), uint64(len(attrs)), uint64(dataAt),
		uint64(len(data)), uint64(0), uint64(0), bitmap[:])
	out = append(append(append(out, ids...), attrs...), data...)
	at := len(out) + 16*list
	var sections []byte
	for bit := range 256 {
		if b, ok := f.Features[bit]; ok {
			out = append(out, f.Bytes(uint64(at+len(sections)), uint64(len(b)))...)
			sections = append(sections, b...)
		}
	}
	return f.whole(append(out, sections...))
}

// Pipe returns it as perf record -o - writes it: attributes and features are records.
func (f *File) Pipe() []byte {
	out := f.Bytes(magic, uint64(16))
	for i := range f.Attrs {
		a := &f.Attrs[i]
		out = append(out, f.Record(HeaderAttr, 0, f.attr(a), a.IDs)...)
	}
	for bit := range 256 {
		b, ok := f.Features[bit]
		switch {
		case !ok:
		case bit == FeatureTracingData:
			out = append(out, f.Bytes(uint32(TracingData), uint16(0), uint16(12), uint32(len(b)))...)
			out = append(out, pad(bytes.Clone(b))...)
		default:
			out = append(out, f.Record(Feature, 0, uint64(bit), b)...)
		}
	}
	return f.whole(append(out, bytes.Join(f.Records, nil)...))
}

// whole returns a file, nothing if a value is missing in it.
func (f *File) whole(b []byte) []byte {
	if f.broken {
		return nil
	}
	return b
}

// Compress returns the file with its records in compressed ones, of about so many bytes of
// input each: the zstd stream goes on from one to the next, and is flushed at the end of
// each. Ends of rounds stay outside, as perf does it.
func (f *File) Compress(typ uint32, each int) (*File, error) {
	out := *f
	out.Records = nil
	var packed bytes.Buffer
	w, err := zstd.NewWriter(&packed, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(1<<16))
	if err != nil {
		return nil, err
	}
	put := func(b []byte) error {
		for len(b) > 0 {
			n := min(len(b), each)
			if _, err := w.Write(b[:n]); err != nil {
				return err
			}
			if err := w.Flush(); err != nil {
				return err
			}
			body := bytes.Clone(packed.Bytes())
			packed.Reset()
			if typ == Compressed2 {
				out.Add(typ, 0, uint64(len(body)), body)
			} else { // of any size
				out.Records = append(out.Records, f.Bytes(typ, uint16(0), uint16(8+len(body)), body))
			}
			b = b[n:]
		}
		return nil
	}
	var pending []byte
	for _, r := range f.Records {
		if f.order().Uint32(r) != Round {
			pending = append(pending, r...)
			continue
		}
		if err := put(pending); err != nil {
			return nil, err
		}
		pending = nil
		out.Records = append(out.Records, r)
	}
	return &out, put(pending)
}

// Formats returns what perf copies of tracefs: the formats of events, by system.
func (f *File) Formats(formats map[string][]string) []byte {
	const page = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n" +
		"\tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n" +
		"\tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n" +
		"\tfield: char data;\toffset:16;\tsize:4080;\tsigned:1;\n"
	const event = "# compressed entry header\n\ttype_len    :    5 bits\n\ttime_delta  :   27 bits\n\tarray       :   32 bits\n\n" +
		"\tpadding     : type == 29\n\ttime_extend : type == 30\n\tdata max type_len  == 28\n"
	endian := "\x00"
	if f.Big {
		endian = "\x01"
	}
	b := f.Bytes("\x17\x08\x44tracing0.6\x00", endian, "\x08", uint32(4096),
		"header_page\x00", uint64(len(page)), page, "header_event\x00", uint64(len(event)), event, uint32(0), uint32(len(formats)))
	for system, list := range formats {
		b = append(b, f.Bytes(system, "\x00", uint32(len(list)))...)
		for _, text := range list {
			b = append(b, f.Bytes(uint64(len(text)), text)...)
		}
	}
	return append(b, f.Bytes(uint32(0), uint32(0), uint64(0))...)
}
