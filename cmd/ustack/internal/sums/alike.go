package sums

import (
	"encoding/binary"
	"hash/maphash"
	"runtime"
	"slices"

	"ustack/filemap/resolve"
	"ustack/filemap/unwind"
	"ustack/tracefs"
	"ustack/tracefs/bpffutex"
)

// alike are stacks that have been unwound, by where their threads were: a thread waits at few places,
// and most of what unwinding takes is the same each time.
//
// A stack is that of another wait if the registers and the words of the stack that led to its frames
// have the same values, in the same program with the same mappings. Only stacks to the root are kept
// that tables alone led through: with these registers and words, and all others unknown, unwinding
// must have given the very same frames. So nothing else has a part in it.
//
// The kernel recognizes them, too: such a wait comes without a copy, with the number of the stack and
// the first of the kernel's frames.
//
// Invariants: words are those of all stacks, no more than maxWords. What the kernel recognizes is in
// known, by its number, with what it has recognized until lately.
type alike struct {
	kernel recognizer
	seed   maphash.Seed
	stacks map[uint64]*alikeStack
	known  map[uint64]*alikeStack
	missed *missed
	seen   map[uint64]uint8 // how many stacks at a place had to be unwound, since one of it was kept
	last   uint64           // number of a stack
	words  int
}

// recognizer recognizes stacks: bpffutex.Source.
type recognizer interface {
	// Know has a stack be recognized. ok is false if that cannot be had.
	Know(at bpffutex.Place, id uint64, what *bpffutex.Known) (ok bool, err error)
	Unknow(at bpffutex.Place) error
}

// alikeStack is a stack and what led to it.
type alikeStack struct {
	of      *program
	version uint64 // of the program
	at      mapped
	pc, sp  uint64
	regs    []bpffutex.Register // but pc and sp
	words   []bpffutex.Word
	id      uint64         // 0 if the kernel has not recognized it
	before  int            // how many others were at its place
	first   bpffutex.Frame // that the kernel found: the others go by a frame pointer, which can be anything
	stack   *resolve.Stack
}

// mapped is what a program had mapped when a stack was unwound by that: as much code, by so many
// changes, read between two times.
type mapped struct {
	code, changes uint64
	from, to      tracefs.Time
}

// is reports whether that was mapped when a wait ended.
func (m *mapped) is(w *bpffutex.Wait, missed *missed) bool {
	return m.code == w.Code && m.changes == w.Changes && w.Changes != bpffutex.Unsettled && missed.none(min(m.from, w.To), max(m.to, w.To))
}

const (
	maxWords = 1 << 17
	maxKnown = 1 << 13
	maxSeen  = 1 << 13
	// keepAfter is how many stacks at a place have to be unwound before one is kept: to find what
	// led to it takes as long as to unwind some, and many places are not seen again.
	keepAfter = 4
	// mostAtPlace is how many stacks at one place take the place of another, in a program whose
	// mappings do not change: it takes as long as to unwind some.
	mostAtPlace = 8
)

func newAlike(kernel recognizer, missed *missed) alike {
	return alike{kernel: kernel, missed: missed, seed: maphash.MakeSeed(), stacks: make(map[uint64]*alikeStack), known: make(map[uint64]*alikeStack), seen: make(map[uint64]uint8)}
}

// clear forgets all stacks.
func (a *alike) clear() {
	for _, s := range a.stacks {
		a.unknow(s)
	}
	clear(a.stacks)
	clear(a.known)
	clear(a.seen)
	a.words = 0
}

// unknow has the kernel no longer recognize a stack. Waits that it has sent before come yet.
func (a *alike) unknow(s *alikeStack) {
	if s.id != 0 && a.stacks[a.key(s.place())] == s { // else another one has its place there, too
		_ = a.kernel.Unknow(s.place()) // at worst the number of another stack comes, which is refused
	}
}

func (s *alikeStack) place() bpffutex.Place {
	return bpffutex.Place{PC: s.pc, SP: s.sp, Memory: s.of.memory, Born: s.of.born}
}

// begins reports whether the kernel has found a wait where the stack begins.
func (s *alikeStack) begins(w *bpffutex.Wait) bool { return len(w.Stack) > 0 && w.Stack[0] == s.first }

// recognized returns the stack of a wait that the kernel has recognized, nil if it does not count:
// what was mapped when the wait ended must be what the stack was unwound by. That is not what is known
// of the program any more if it has been read since.
func (a *alike) recognized(p *program, w *bpffutex.Wait) *resolve.Stack {
	s := a.known[w.Known]
	if s == nil {
		return nil
	}
	if s.of != p || !s.begins(w) || !s.at.is(w, a.missed) {
		a.unknow(s)
		delete(a.known, w.Known)
		return nil
	}
	return s.stack
}

func (a *alike) key(at bpffutex.Place) uint64 {
	return maphash.Comparable(a.seed, [4]uint64{at.Memory, at.Born, at.PC, at.SP})
}

// placeOf is where a thread of a program was.
func placeOf(p *program, c *bpffutex.Copy) bpffutex.Place {
	return bpffutex.Place{PC: c.PC, SP: c.SP, Memory: p.memory, Born: p.born}
}

// get returns the stack of a wait, nil if it is not known.
func (a *alike) get(p *program, w *bpffutex.Wait, regs *unwind.Registers) *resolve.Stack {
	c := w.Copy
	s := a.stacks[a.key(placeOf(p, c))]
	if s == nil || s.of != p || s.version != p.version || s.pc != c.PC || s.sp != c.SP || !s.begins(w) {
		return nil
	}
	for _, r := range s.regs {
		if v, ok := regs.Get(r.Number); !ok || v != r.Value {
			return nil
		}
	}
	for _, x := range s.words {
		if int(x.At)+8 > len(c.Stack) || binary.LittleEndian.Uint64(c.Stack[x.At:]) != x.Value {
			return nil
		}
	}
	return s.stack
}

// put keeps the stack of a wait whose frames were found, if it is one to keep. in is what it was unwound from.
func (a *alike) put(p *program, w *bpffutex.Wait, u *unwind.Unwinder, in *unwind.Input, frames []unwind.Frame, end *unwind.End, stack *resolve.Stack) {
	if end.Why != unwind.Root || stack.ResultID == 0 || slices.ContainsFunc(frames, func(f unwind.Frame) bool {
		return f.How != unwind.Given && f.How != unwind.CFI && f.How != unwind.SFrame && f.How != unwind.GoTable
	}) {
		return
	}
	key, before := a.key(placeOf(p, w.Copy)), 0
	old := a.stacks[key]
	if old != nil && old.of == p && old.version == p.version {
		if before = old.before + 1; before > mostAtPlace {
			return
		}
	}
	if len(a.seen) >= maxSeen {
		clear(a.seen)
	}
	if a.seen[key]++; a.seen[key] < keepAfter {
		return
	}
	delete(a.seen, key)
	t := trial{unwinder: u, in: in, frames: frames, c: w.Copy}
	regs, words, ok := t.least()
	if !ok {
		return
	}
	if old != nil {
		a.words -= len(old.words)
		a.unknow(old)
		delete(a.stacks, key)
	}
	if a.words+len(words) > maxWords || len(a.known) > maxKnown {
		a.clear()
	}
	s := &alikeStack{of: p, version: p.version, at: mapped{p.pages, p.changes, p.from, p.to}, pc: w.Copy.PC, sp: w.Copy.SP, regs: regs, words: words, first: w.Stack[0], stack: stack, before: before}
	a.stacks[key] = s
	a.words += len(words)
	what := &bpffutex.Known{Code: w.Code, Changes: w.Changes, Registers: regs, Words: words}
	if ok, err := a.kernel.Know(s.place(), a.last+1, what); ok && err == nil {
		a.last++
		s.id = a.last
		a.known[s.id] = s
	}
}

// trial unwinds a stack from a part of what is known.
type trial struct {
	unwinder *unwind.Unwinder
	in       *unwind.Input
	frames   []unwind.Frame // that were found from all
	c        *bpffutex.Copy

	list []unwind.Frame
	read []bpffutex.Word
}

// least returns few registers, besides the stack pointer and the program counter, and words that give
// the same frames. ok is false if all that functions keep do not.
func (t *trial) least() (regs []bpffutex.Register, words []bpffutex.Word, ok bool) {
	pcs := make(map[uint64]bool)
	for i := range t.frames {
		pcs[t.frames[i].PC] = true
	}
	const near = 1 << 20
	returns := func(x bpffutex.Word) bool { return pcs[x.Value] }
	frames := func(x bpffutex.Word) bool { return pcs[x.Value] || x.Value-t.c.SP < near }
	any := func(bpffutex.Word) bool { return true }
	frame, all := frameRegisters[runtime.GOARCH], keeps[runtime.GOARCH]
	for _, try := range [...]struct {
		has   uint64
		wants func(bpffutex.Word) bool
	}{{0, returns}, {0, frames}, {frame, returns}, {frame, frames}, {all, frames}, {all, any}} {
		if !t.same(try.has, try.wants) {
			continue
		}
		has := try.has
		if has == all {
			has = t.fewer(has, try.wants)
		}
		t.c.Registers(func(n uint8, v uint64) {
			if has>>n&1 == 1 {
				regs = append(regs, bpffutex.Register{Number: n, Value: v})
			}
		})
		return regs, slices.Clone(t.read), true
	}
	return nil, nil, false
}

// fewer returns those of the registers that has selects which cannot be left out; t.read are the words
// that are read with these.
func (t *trial) fewer(has uint64, wants func(bpffutex.Word) bool) uint64 {
	for n := range 64 {
		if bit := uint64(1) << n; has&bit != 0 && t.same(has&^bit, wants) {
			has &^= bit
		}
	}
	t.same(has, wants)
	return has
}

// pointers are the numbers of the stack pointer and of the program counter, by GOARCH.
var pointers = map[string][]uint8{"amd64": {unwind.AMD64SP, unwind.AMD64PC}, "arm64": {unwind.ARM64SP, unwind.ARM64PC}}

// keeps are the registers that functions keep, as bits (psABI of x86-64, 3.2.1; AAPCS64, 6.1.1), and
// the link register: what others have at the return of a call leads nowhere.
var keeps = map[string]uint64{"amd64": 1<<3 | 1<<6 | 0xf<<12, "arm64": 0xfff << 19}

// frameRegisters are those that most stacks need if they need any: the frame pointer, and the link
// register.
var frameRegisters = map[string]uint64{"amd64": 1 << unwind.AMD64FP, "arm64": 1<<unwind.ARM64FP | 1<<unwind.ARM64LR}

// same reports whether the frames are the same from the words that wants selects and, besides the
// stack pointer and the program counter, the registers whose bits has: t.read are those words.
func (t *trial) same(has uint64, wants func(bpffutex.Word) bool) bool {
	in := *t.in
	in.Regs = unwind.Registers{}
	t.c.Registers(func(n uint8, v uint64) {
		if has>>n&1 == 1 || slices.Contains(pointers[runtime.GOARCH], n) {
			in.Regs.Set(n, v)
		}
	})
	t.read = t.read[:0]
	in.Stack.Bytes, in.Stack.Read = nil, func(addr uint64, b []byte) bool {
		at := addr - t.c.SP
		if at > uint64(len(t.c.Stack)) || uint64(len(t.c.Stack))-at < 8 || len(b) != 8 {
			return false
		}
		x := bpffutex.Word{At: uint32(at), Value: binary.LittleEndian.Uint64(t.c.Stack[at:])}
		if !wants(x) {
			return false
		}
		copy(b, t.c.Stack[at:])
		t.read = append(t.read, x)
		return true
	}
	var end unwind.End
	t.list, end = t.unwinder.Unwind(&in, t.list[:0])
	return end.Why == unwind.Root && slices.EqualFunc(t.list, t.frames, func(x, y unwind.Frame) bool {
		return x.PC == y.PC && x.Exact == y.Exact && x.How == y.How && x.SP == y.SP && x.File == y.File
	})
}
