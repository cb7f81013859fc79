package sideband

import (
	"bytes"
	"fmt"
	"math"
	"strconv"

	"ustack/filemap"
	"ustack/filemap/elfid"
	"ustack/filemap/procmap"
	"ustack/tracefs"
	"ustack/tracefs/escape"
)

// fields reads the fields of a line of a log, one after the other. bad is the
// error of the first malformed one.
type fields struct {
	rest []byte
	bad  error
}

func (f *fields) fail(what string) {
	if f.bad == nil {
		f.bad = fmt.Errorf("no %s at %q", what, short(f.rest))
	}
}

// word returns what comes before the next blank.
func (f *fields) word() []byte {
	word, rest, _ := bytes.Cut(f.rest, []byte(" "))
	f.rest = rest
	return word
}

// end returns the error, also if there is more.
func (f *fields) end() error {
	if len(f.rest) > 0 {
		f.fail("end of the line")
	}
	return f.bad
}

func (f *fields) number(word []byte, base, bits int, what string) uint64 {
	v, err := strconv.ParseUint(string(word), base, bits)
	if err != nil {
		f.fail(what)
	}
	return v
}

func (f *fields) decimal(bits int) uint64 { return f.number(f.word(), 10, bits, "number") }
func (f *fields) pid() int                { return int(f.decimal(31)) }

// time reads seconds with nine decimals.
func (f *fields) time() tracefs.Time {
	const decimals, second = 9, uint64(1e9)
	sec, part, _ := bytes.Cut(f.word(), []byte("."))
	s, ns := f.number(sec, 10, 64, "time"), f.number(part, 10, 64, "time")
	if len(part) != decimals || s > math.MaxInt64/second-1 {
		f.fail("time")
	}
	return tracefs.Time(s*second + ns)
}

// name returns the rest of the line.
func (f *fields) name(names *filemap.Names) string {
	name := names.Intern(escape.Undo(f.rest))
	f.rest = nil
	return name
}

// mapping reads what logWriter.mapping writes.
func (f *fields) mapping(names *filemap.Names) procmap.Mapping {
	const hex = 16
	var m procmap.Mapping
	start, end, _ := bytes.Cut(f.word(), []byte("-"))
	m.Start, m.End = f.number(start, hex, 64, "address"), f.number(end, hex, 64, "address")
	m.Perms = f.perms()
	m.Offset = f.number(f.word(), hex, 64, "offset")
	major, minor, _ := bytes.Cut(f.word(), []byte(":"))
	m.Dev.Major, m.Dev.Minor = uint32(f.number(major, hex, 32, "device")), uint32(f.number(minor, hex, 32, "device"))
	m.Inode, m.Generation = f.decimal(64), uint32(f.decimal(32))
	kind, ok := procmap.ParseKind(string(f.word()))
	if !ok {
		f.fail("kind of memory")
	}
	m.Kind = kind
	if id := f.word(); string(id) != "-" {
		if m.BuildID, ok = elfid.Parse(id); !ok {
			f.fail("build ID")
		}
	}
	m.Name = f.name(names)
	if m.End <= m.Start {
		f.fail("range of addresses")
	}
	return m
}

// perms reads four letters.
func (f *fields) perms() procmap.Perms {
	word := f.word()
	var text [4]byte
	for p := range procmap.Shared << 1 {
		if bytes.Equal(word, p.Append(text[:0])) {
			return p
		}
	}
	f.fail("permissions")
	return 0
}
