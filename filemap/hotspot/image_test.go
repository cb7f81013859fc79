package hotspot

import (
	"bytes"
	"encoding/gob"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/klauspost/compress/zstd"

	"ustack/filemap/procmem"
	"ustack/filemap/unwind"
	"ustack/tracefs"
)

// image is memory of a process that ran testdata/live/Waits.java of cmd/ustack, as far as
// the package has read it, and the threads that were in Java code (see TestRecordImage).
type image struct {
	Symbols Symbols
	Pages   map[uint64][]byte // by number
	Threads []imageThread
}

// imageThread is a thread that has called the virtual machine from Java code: the frame of
// that code, and the methods of all frames up to the entry into Java, innermost first, inlined
// ones with a "<" after them, "" for a frame without a name.
type imageThread struct {
	PC, SP, FP uint64
	Methods    []string
}

var errNoPage = errors.New("no such page")

// Read implements Memory.
func (m *image) Read(parts ...procmem.Part) error {
	for _, p := range parts {
		for b, at := p.To, p.Addr; len(b) > 0; {
			page := m.Pages[at/pageSize]
			if page == nil {
				return errNoPage
			}
			n := copy(b, page[at%pageSize:])
			b, at = b[n:], at+uint64(n)
		}
	}
	return nil
}

// Word implements unwind.Words: the stacks are in the image, too.
func (m *image) Word(addr uint64) (v uint64, end unwind.End, ok bool) {
	v, err := word(m, addr)
	return v, unwind.End{Why: unwind.Elsewhere, Addr: addr}, err == nil
}

// put changes memory.
func (m *image) put(addr uint64, b ...byte) {
	for i, c := range b {
		at := addr + uint64(i)
		if page := m.Pages[at/pageSize]; page != nil {
			page = bytes.Clone(page)
			page[at%pageSize] = c
			m.Pages[at/pageSize] = page
		}
	}
}

func (m *image) clone() *image {
	out := *m
	out.Pages = maps.Clone(m.Pages)
	return &out
}

const imageFile = "image.gob.zst"

// openImage reads the image in testdata.
func openImage(t testing.TB) *image {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", imageFile))
	if err != nil {
		t.Fatal(err)
	}
	z, err := zstd.NewReader(bytes.NewReader(b), zstd.WithDecoderConcurrency(1))
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	m := new(image)
	if err := gob.NewDecoder(z).Decode(m); err != nil {
		t.Fatal(err)
	}
	return m
}

// clock is a time that each look makes later.
type clock struct{ t tracefs.Time }

func (c *clock) now() tracefs.Time {
	c.t++
	return c.t
}

// walk returns the methods of a thread at a time, as imageThread has them, and how its Java
// frames end: the address in native code, 0 if they do not end there.
func walk(x *Machine, m unwind.Words, th *imageThread, at tracefs.Time) (list []string, native uint64, last unwind.Called) {
	v := x.At(at, at)
	var regs unwind.Registers
	regs.Set(rsp, th.SP)
	regs.Set(rbp, th.FP)
	const most = 500
	for pc := th.PC; len(list) < most; {
		last = v.Caller(pc, &regs, m)
		if !last.Known {
			return list, 0, last
		}
		name := ""
		if c := last.Code; c != nil {
			for _, in := range c.Inlined {
				list = append(list, in+" <")
			}
			name = c.Function
		}
		list = append(list, name)
		if !last.OK {
			return list, 0, last
		}
		if pc == x.callStub {
			return list, last.To, last
		}
		pc = last.To
	}
	return list, 0, last
}
