package jitcode

import (
	"bytes"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"ustack/filemap/procmem"
	"ustack/filemap/unwind"
	"ustack/filemap/unwind/follow"
	"ustack/tracefs"
)

// Counts is what became of return addresses into such code. It may be read at any time.
type Counts struct {
	Frames  atomic.Uint64 // that are proven
	Fresh   atomic.Uint64 // whose code was not known before: their stacks end
	Changed atomic.Uint64 // whose code was other code before: their stacks end
	Other   atomic.Uint64 // whose code keeps no frame pointer, or cannot be followed: their stacks end
	Unread  atomic.Uint64 // whose code cannot be read, or not now: their stacks end
}

// Process is the code of a process, as far as stacks have led through it.
//
// Invariant: what a place is was read by first, and was the same until last.
type Process struct {
	mem   *budget
	now   func() tracefs.Time
	count *Counts

	mu     sync.Mutex
	places map[uint64]*place
	size   int // of their code, in bytes
}

// place is a return address.
type place struct {
	framed      bool
	code        []procmem.Part // that shows it
	first, last tracefs.Time
}

// Bounds on what is kept of a process.
const (
	maxPlaces = 1 << 12
	maxSize   = 4 << 20
)

// New returns what is known of a process so far, which is nothing. now is the time by the
// clock of the stacks.
func New(mem Memory, count *Counts, now func() tracefs.Time) *Process {
	return &Process{mem: newBudget(mem, now), now: now, count: count, places: make(map[uint64]*place)}
}

// At returns the code for a stack that was taken between two times.
func (p *Process) At(from, to tracefs.Time) unwind.Runtime { return &view{p, from, to} }

// view is the code at the time of a stack.
type view struct {
	p        *Process
	from, to tracefs.Time
}

// Caller implements unwind.Runtime.
func (v *view) Caller(pc uint64, regs *unwind.Registers, stack unwind.Words) (c unwind.Called) {
	p := v.p
	p.mu.Lock()
	defer p.mu.Unlock()
	pl, count := p.prove(pc, v.from, v.to)
	if count == &p.count.Frames && !pl.framed {
		count = &p.count.Other
	}
	count.Add(1)
	if count != &p.count.Frames {
		p.lookAhead(pc, *regs, stack)
		return c
	}
	return caller(regs, stack)
}

// lookAhead reads the places of the callers of a place that is not proven yet, as far as
// frame pointers lead to: each counts only for stacks of later.
func (p *Process) lookAhead(pc uint64, regs unwind.Registers, stack unwind.Words) {
	const most = 16
	for range most {
		if pl := p.places[pc]; pl == nil || !pl.framed {
			return
		}
		c := caller(&regs, stack)
		if !c.OK || p.places[c.To] == nil && !p.read(c.To) {
			return
		}
		pc = c.To
	}
}

// caller finds the caller of code that has a frame: by the record that the frame pointer
// points to. Of the caller's registers, only the frame pointer is known: code of JIT
// compilers keeps no other one, and takes arguments off the stack.
func caller(regs *unwind.Registers, stack unwind.Words) (c unwind.Called) {
	const record = 16
	c.Known, c.How = true, unwind.Code
	fp, ok := regs.Get(unwind.AMD64FP)
	if !ok {
		c.End = unwind.End{Why: unwind.UnknownRegister, Register: unwind.AMD64FP}
		return c
	}
	if fp%8 != 0 || fp > ^uint64(0)-record {
		c.End = unwind.End{Why: unwind.Contradiction, Addr: fp, Detail: "the frame pointer does not point to the stack"}
		return c
	}
	above, end, ok := stack.Word(fp)
	if ok {
		c.To, end, ok = stack.Word(fp + record/2)
	}
	if !ok {
		c.End = end
		return c
	}
	*regs = unwind.Registers{}
	regs.Set(unwind.AMD64FP, above)
	c.OK, c.Base = true, fp+record
	return c
}

// prove returns the place of a return address, and as what it counts for a stack that was
// taken between two times.
func (p *Process) prove(pc uint64, from, to tracefs.Time) (*place, *atomic.Uint64) {
	pl := p.places[pc]
	if pl == nil {
		if p.read(pc) {
			return nil, &p.count.Fresh
		}
		return nil, &p.count.Unread
	}
	if pl.last < to {
		began := p.now()
		switch same, err := p.same(pl); {
		case err != nil && isBusy(err):
			return nil, &p.count.Unread
		case err != nil:
			p.forget(pc)
			return nil, &p.count.Unread
		case !same:
			p.forget(pc)
			p.read(pc)
			return nil, &p.count.Changed
		}
		pl.last = began
	}
	switch {
	case from < pl.first:
		return nil, &p.count.Fresh
	case to > pl.last:
		return nil, &p.count.Unread
	}
	return pl, &p.count.Frames
}

// same reports whether the code of a place is what it was.
func (p *Process) same(pl *place) (bool, error) {
	now := make([]procmem.Part, len(pl.code))
	for i, c := range pl.code {
		now[i] = procmem.Part{Addr: c.Addr, To: make([]byte, len(c.To))}
	}
	if len(now) > 0 {
		if err := p.mem.Read(now...); err != nil {
			return false, err
		}
	}
	for i := range now {
		if !bytes.Equal(now[i].To, pl.code[i].To) {
			return false, nil
		}
	}
	return true, nil
}

// read finds out what a return address is. It is false if that cannot be read now.
func (p *Process) read(pc uint64) bool {
	most := p.mem.instructions()
	if most < follow.MaxInstructions {
		return false
	}
	pl := new(place)
	var spent int
	var err error
	pl.framed, pl.code, spent, err = examine(p.mem, pc, most)
	p.mem.spend(spent)
	if err != nil || len(pl.code) == 0 {
		return false
	}
	pl.first = p.now()
	size := pl.bytes()
	if len(p.places) >= maxPlaces || p.size+size > maxSize {
		clear(p.places)
		p.size = 0
	}
	p.places[pc] = pl
	p.size += size
	return true
}

// bytes is about how much memory a place needs.
func (pl *place) bytes() (n int) {
	const each = 48
	for i := range pl.code {
		n += each + len(pl.code[i].To)
	}
	return n
}

// forget forgets a place.
func (p *Process) forget(pc uint64) {
	p.size -= p.places[pc].bytes()
	delete(p.places, pc)
}

// errBusy: so much was read of a process that it has to wait.
var errBusy = errors.New("too much code to read of a process")

func isBusy(err error) bool { return errors.Is(err, errBusy) }

// budget bounds how much of a process is read and followed: its stacks can lead anywhere.
type budget struct {
	mem    Memory
	now    func() tracefs.Time
	reads  int
	steps  int
	filled tracefs.Time
}

// readsEach is how many readings a second may have, of some 3 us each, and stepsEach how many
// instructions, of some 200 ns each; two seconds' may be left over.
const readsEach, stepsEach = 20_000, 200_000

func newBudget(mem Memory, now func() tracefs.Time) *budget {
	return &budget{mem: mem, now: now, reads: 2 * readsEach, steps: 2 * stepsEach, filled: now()}
}

func (b *budget) fill() {
	const second, step = tracefs.Time(time.Second), tracefs.Time(time.Millisecond)
	now := b.now()
	passed := min(now-b.filled, second)
	if passed < step {
		return
	}
	b.filled = now
	b.reads = min(b.reads+int(passed*readsEach/second), 2*readsEach)
	b.steps = min(b.steps+int(passed*stepsEach/second), 2*stepsEach)
}

// Read implements Memory.
func (b *budget) Read(parts ...procmem.Part) error {
	b.fill()
	if b.reads <= 0 {
		return errBusy
	}
	b.reads -= 1 + len(parts)/8
	return b.mem.Read(parts...)
}

// instructions returns how many instructions may be followed now.
func (b *budget) instructions() int {
	b.fill()
	return b.steps
}

// spend notes how many were.
func (b *budget) spend(n int) { b.steps -= n + 1 }
