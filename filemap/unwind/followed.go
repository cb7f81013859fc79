package unwind

import (
	"bytes"

	"ustack/filemap/callsite"
	"ustack/filemap/unwind/follow"
	"ustack/filemap/unwind/frames"
	"ustack/filemap/unwind/table"
)

// Bounds on following code, in instructions: what a file, and all files together, may cost at
// once, what each stack adds to that, and what one stack may cost.
const (
	fileBurst, fileEach = 1 << 20, 2000
	allBurst, allEach   = 4 << 20, 4000
	stackMost           = 1 << 17

	maxArrivals        = 1 << 14 // that are kept of a file
	longestInstruction = 15
)

// credit is how many instructions may be followed, which grows with each stack.
type credit struct {
	left int
	tick uint64 // the stack up to which it has grown
}

// grow adds what the stacks until now add.
func (c *credit) grow(tick uint64, each, burst int) {
	c.left = min(c.left+int(min(tick-c.tick, uint64(burst)))*each, burst)
	c.tick = tick
}

// following is what a file knows of code that no table describes.
type following struct {
	starts   *follow.Starts
	credit   credit
	arrivals map[arrivalKey]arrival
}

// arrivalKey is an instruction, and the beginning of the function that was called.
type arrivalKey struct {
	start, addr uint64
	after       bool
}

// arrival is what follow.From has found, without the rules of registers.
type arrival struct {
	base, pointer table.Rule // of no Kind if unknown
	reached, open bool
}

// canFollow reports whether code of the file without a table is followed.
func (f *File) canFollow() bool { return frames.Followed(f.image) }

// At implements follow.Code.
func (f *File) At(addr uint64) []byte {
	off, ok := f.image.Offset(addr)
	if !ok {
		return nil
	}
	return f.code(off, longestInstruction)
}

// Begins implements follow.Code.
func (f *File) Begins(addr uint64) bool { return f.following.starts.Begins(addr) }

// Complete implements follow.Code.
func (f *File) Complete() bool { return f.following.starts.Complete() }

// Described implements follow.Code.
func (f *File) Described(addr uint64) *table.Rules {
	r, _ := f.find(addr)
	return r
}

// prepare makes what following needs.
func (f *File) prepare() {
	w := &f.following
	if w.starts != nil {
		return
	}
	w.starts = follow.NewStarts(f.image, frames.HardlyCovered(f.image, f.tables))
	w.credit = credit{fileBurst, f.u.tick}
	w.arrivals = make(map[arrivalKey]arrival)
}

// afford returns how many instructions may be followed now, false if too many have been.
func (f *File) afford() (most int, ok bool) {
	f.prepare()
	f.following.credit.grow(f.u.tick, fileEach, fileBurst)
	f.u.credit.grow(f.u.tick, allEach, allBurst)
	most = min(f.following.credit.left, f.u.credit.left, f.u.forStack)
	return most, most >= follow.MaxInstructions
}

// spend notes how many instructions were followed.
func (f *File) spend(n int) {
	f.following.credit.left -= n
	f.u.credit.left -= n
	f.u.forStack -= n
}

// follow finds the way to the caller by the code itself.
func (f *File) follow(s *step, pc uint64, exact bool) {
	most, ok := f.afford()
	if !ok {
		s.end, s.passing = f.nothing("no table, and too much code has been followed for now"), true
		return
	}
	a, spent := follow.Caller(f, f.following.starts, pc, !exact, most)
	f.spend(spent)
	switch {
	case a.Root:
		s.end = End{Why: Root, File: f}
	case a.Rules == nil:
		s.end = f.nothing(a.Why)
	default:
		s.kind, s.how, s.followed, s.rules, s.also, s.doubt = byRules, Code, true, a.Rules, a.Also, a.Doubt
	}
}

// arrival returns how the function that begins at start comes to an instruction.
func (f *File) arrival(key arrivalKey) (a arrival, ok bool) {
	most, ok := f.afford()
	if !ok {
		return a, false
	}
	w := &f.following
	if a, ok := w.arrivals[key]; ok {
		return a, true
	}
	got, spent := follow.From(f, key.start, key.addr, key.after, most)
	f.spend(spent)
	a = arrival{reached: got.Reached, open: got.Open}
	if got.Rules != nil {
		a.base, a.pointer = got.Rules.Base, got.Pointer
	}
	if len(w.arrivals) >= maxArrivals {
		clear(w.arrivals)
	}
	w.arrivals[key] = a
	return a, true
}

// byCode is byRules by rules that the code itself gave.
func (w *walker) byCode(s *step) (to uint64, ok bool) {
	was := w.regs
	if to, ok = w.byRules(s); !ok {
		return 0, false
	}
	return to, w.confirm(s, &was, w.floor, to)
}

// confirm checks a caller that was found by following code: if a call of a known function
// is before the return address, that function must come to where the thread is, and have
// its frame there. was are the registers in the frame at hand, base is where it ends.
func (w *walker) confirm(s *step, was *Registers, base, to uint64) bool {
	if s.also.Kind == table.IsRegister {
		if v, ok := was.Get(s.also.Reg); ok && v+uint64(s.also.N) != base {
			w.end = End{Why: NoInformation, Detail: "no table, and the paths of its code disagree"}
			return false
		}
	}
	w.end = End{Why: NoInformation, Detail: "no table, and a call there may never return"}
	p, ok := w.find(to)
	if !ok || p.file == nil || p.file.image == nil || !p.file.canFollow() {
		return !s.doubt
	}
	start, ok := p.file.onlyTarget(p.offset)
	if !ok {
		return !s.doubt
	}
	key := arrivalKey{start: start}
	if p.file == w.place.file {
		key.addr, _ = p.file.image.Address(w.place.offset)
		key.after = !w.exact
	}
	a, ok := p.file.arrival(key)
	rule := a.base
	if a.pointer.Reg == s.rules.Base.Reg && a.pointer.Kind == table.IsRegister {
		rule = a.pointer
	}
	known := rule.Kind == table.IsRegister
	v, has := was.Get(rule.Reg)
	switch {
	case !ok:
		w.end = End{Why: NoInformation, Detail: "no table, and too much code has been followed for now"}
		return false
	case known && has && v+uint64(rule.N) == base:
		return true
	case known && !has, a.reached && !known, !a.reached && a.open:
		return !s.doubt
	}
	w.end = End{Why: NoInformation, Detail: "no table, and the call before the return address is one of another function"}
	return false
}

// onlyTarget returns the address that the call before an offset leads to; ok is false if
// the code there can be another call.
func (f *File) onlyTarget(offset uint64) (addr uint64, ok bool) {
	to, ok := f.target(offset)
	if !ok || offset < callsite.Longest {
		return 0, false
	}
	before := bytes.Clone(f.code(offset-callsite.Longest, callsite.Longest))
	if len(before) < callsite.Longest {
		return 0, false
	}
	before[callsite.Longest-5] = 0x90
	if callsite.Ends(f.image.Machine, before) {
		return 0, false
	}
	return f.image.Address(to)
}
