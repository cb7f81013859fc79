package jitcode

import (
	"testing"

	"golang.org/x/sys/unix"

	"ustack/filemap/procmem"
	"ustack/filemap/unwind"
	"ustack/filemap/unwind/follow"
	"ustack/tracefs"
)

// memory is code of a process, from codeAt on, and 64 KB long.
type memory struct {
	code  [64 << 10]byte
	reads int
}

const codeAt = 0x10000

// Read implements Memory.
func (m *memory) Read(parts ...procmem.Part) error {
	m.reads++
	for _, p := range parts {
		if p.Addr < codeAt || p.Addr+uint64(len(p.To)) > codeAt+uint64(len(m.code)) {
			return unix.EFAULT
		}
		copy(p.To, m.code[p.Addr-codeAt:])
	}
	return nil
}

// function writes a function to an offset that calls another one, and returns from the frame
// that the frame pointer points to or, if plain, by the stack pointer. It returns its return
// address.
func (m *memory) function(offset int, plain bool) (pc uint64) {
	text := "\x55\x48\x89\xe5\xe8\x00\x01\x00\x00\xc9\xc3"
	if plain {
		text = "\x90\x90\x90\x90\xe8\x00\x01\x00\x00\x5a\xc3"
	}
	copy(m.code[offset:], text)
	return codeAt + uint64(offset) + 9
}

// stack has words from 0x7000 on.
type stack []uint64

const stackAt = 0x7000

// Word implements unwind.Words.
func (s stack) Word(addr uint64) (v uint64, end unwind.End, ok bool) {
	if n := (addr - stackAt) / 8; addr >= stackAt && addr%8 == 0 && n < uint64(len(s)) {
		return s[n], end, true
	}
	return 0, unwind.End{Why: unwind.Short, Addr: addr}, false
}

// clock is a time that goes on with each look at it.
type clock tracefs.Time

func (c *clock) now() tracefs.Time {
	*c++
	return tracefs.Time(*c)
}

type fixture struct {
	memory
	clock
	count Counts
	*Process
}

func newFixture() *fixture {
	f := new(fixture)
	f.Process = New(&f.memory, &f.count, f.clock.now)
	return f
}

// caller asks for the caller of a place, at the time of now.
func (f *fixture) caller(pc, fp uint64, s stack) (unwind.Called, unwind.Registers) {
	var regs unwind.Registers
	regs.Set(unwind.AMD64FP, fp)
	regs.Set(unwind.AMD64SP, stackAt)
	at := f.clock.now()
	c := f.At(at, at).Caller(pc, &regs, s)
	return c, regs
}

func (f *fixture) expect(t *testing.T, what string, frames, fresh, changed, other, unread uint64) {
	t.Helper()
	got := [...]uint64{f.count.Frames.Load(), f.count.Fresh.Load(), f.count.Changed.Load(), f.count.Other.Load(), f.count.Unread.Load()}
	if want := [...]uint64{frames, fresh, changed, other, unread}; got != want {
		t.Errorf("%s: frames, fresh, changed, other, unread %d, want %d", what, got, want)
	}
}

// TestCaller: code counts for stacks after it was read, as long as it is the same.
func TestCaller(t *testing.T) {
	f := newFixture()
	pc := f.function(0x100, false)
	s := stack{0x7010, 0x12345, 0, 0}
	if c, _ := f.caller(pc, stackAt, s); c.Known {
		t.Error("code that was not known before the stack")
	}
	f.expect(t, "first", 0, 1, 0, 0, 0)
	c, regs := f.caller(pc, stackAt, s)
	fp, known := regs.Get(unwind.AMD64FP)
	if _, sp := regs.Get(unwind.AMD64SP); !c.Known || !c.OK || c.To != 0x12345 || c.Base != stackAt+16 || c.How != unwind.Code || !known || fp != 0x7010 || sp {
		t.Errorf("%+v, frame pointer %#x", c, fp)
	}
	f.expect(t, "again", 1, 1, 0, 0, 0)
	f.code[0x10a] = 0x90 // in place of ret
	if c, _ := f.caller(pc, stackAt, s); c.Known {
		t.Error("code that has changed")
	}
	f.expect(t, "changed", 1, 1, 1, 0, 0)
	f.function(0x100, false)
	for range 2 {
		f.caller(pc, stackAt, s)
	}
	f.expect(t, "changed back, and known", 2, 1, 2, 0, 0)
	f.code[0x10b] ^= 0xff // outside of the function, within the bytes of an instruction
	f.caller(pc, stackAt, s)
	f.expect(t, "bytes after it", 2, 1, 3, 0, 0)
	if c, _ := f.caller(0x500000, stackAt, s); c.Known {
		t.Error("code that is not there")
	}
	f.expect(t, "not there", 2, 1, 3, 0, 1)
}

// TestPast: code that was read counts for no stack of before, and what was the same at a time
// not for later.
func TestPast(t *testing.T) {
	f := newFixture()
	pc := f.function(0x100, false)
	before := f.clock.now()
	s := stack{0x7010, 0x12345}
	var regs unwind.Registers
	regs.Set(unwind.AMD64FP, stackAt)
	for range 3 {
		if c := f.At(before, before).Caller(pc, &regs, s); c.Known {
			t.Fatal("a stack of before the first reading")
		}
	}
	at, reads := f.clock.now(), f.reads
	for range 3 {
		r := regs
		if c := f.At(at, at).Caller(pc, &r, s); !c.Known {
			t.Fatal("a stack of after it")
		}
	}
	if f.reads != reads+1 {
		t.Errorf("the code was compared %d times for stacks of one time", f.reads-reads)
	}
	if c := f.At(at, at+1e9).Caller(pc, &regs, s); c.Known {
		t.Error("a stack that was taken until later than now")
	}
}

// TestNotFramed: what is no frame.
func TestNotFramed(t *testing.T) {
	for what, c := range map[string]struct {
		plain bool
		at    uint64 // of the return address, after what is one
		fp    uint64
		known bool
		why   unwind.Why
	}{
		"by the stack pointer":    {plain: true, fp: stackAt},
		"no call before":          {at: 1, fp: stackAt},
		"frame pointer is odd":    {fp: stackAt + 1, known: true, why: unwind.Contradiction},
		"frame pointer too large": {fp: ^uint64(7), known: true, why: unwind.Contradiction},
		"not in the copy":         {fp: 0x9000, known: true, why: unwind.Short},
	} {
		f := newFixture()
		pc := f.function(0x100, c.plain) + c.at
		f.caller(pc, c.fp, stack{0, 0})
		if got, _ := f.caller(pc, c.fp, stack{0, 0}); got.Known != c.known || got.OK || got.Known && got.End.Why != c.why {
			t.Errorf("%s: %+v", what, got)
		}
	}
}

// TestChain: all callers that are such code are known after the first stack.
func TestChain(t *testing.T) {
	f := newFixture()
	first, second, third := f.function(0x100, false), f.function(0x800, false), f.function(0x2000, false)
	s := stack{0x7010, second, 0x7020, third, 0, 0x12345}
	f.caller(first, stackAt, s)
	for i, pc := range []uint64{first, second, third} {
		if c, _ := f.caller(pc, stackAt+16*uint64(i), s); !c.OK {
			t.Errorf("function %d is not known", i)
		}
	}
	f.expect(t, "three", 3, 1, 0, 0, 0)
}

// TestBudget: a process whose stacks lead anywhere costs no more than is allowed.
func TestBudget(t *testing.T) {
	f := newFixture()
	for i := range f.code {
		f.code[i] = "\xff\xd0"[i%2] // calls
	}
	f.mem.steps = 3 * follow.MaxInstructions
	for i := range 1000 {
		f.caller(codeAt+8+2*uint64(i), stackAt, stack{0, 0})
	}
	if n := f.count.Unread.Load(); n < 990 || f.mem.steps < 0 {
		t.Errorf("%d places were not read, %d instructions are left", n, f.mem.steps)
	}
	pc := f.function(0x100, false)
	f.mem.steps, f.mem.reads = 2*stepsEach, 20
	for range 1000 {
		f.caller(pc, stackAt, stack{0x7010, 0x12345})
	}
	if f.mem.reads > 0 || f.count.Frames.Load() > 20 {
		t.Errorf("%d readings are left, %d frames", f.mem.reads, f.count.Frames.Load())
	}
	if n := len(f.places); n > maxPlaces || f.size > maxSize {
		t.Errorf("%d places of %d bytes", n, f.size)
	}
}
