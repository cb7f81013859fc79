package unwind

import (
	"bytes"

	"ustack/filemap/callsite"
	"ustack/filemap/unwind/table"
)

// kind is how to get from code to its caller.
type kind uint8

const (
	byNothing kind = iota
	byRules
	bySignal
	byFramePointer
	byGo
	byRuntime
)

// step is how to unwind a place in code.
type step struct {
	kind       kind
	how        How
	rules      *table.Rules
	goPlace    table.GoPlace
	end        End // why the stack ends here, if it does
	trampoline bool
	// called: a call stands before the place. returned: a function returns there
	// although nothing there has called it. root: goroutines return there in the
	// end.
	called, returned, root bool
	// leaving: the end of a function follows.
	leaving bool
	// followed: the code itself gave the rules. also, if it has a Kind, must lead to the
	// same place. passing: it is not to be kept.
	// doubt: the caller must be proven by a call.
	followed, passing, doubt bool
	also                     table.Rule
}

// jitStep is the step of code without a file.
var jitStep = step{kind: byFramePointer, how: FramePointer}

// maxSteps bounds the places that are kept of a file.
const maxSteps = 1 << 15

// step returns how to unwind the code at a file offset. exact: it is the next
// to run; else a call before it has not returned.
func (f *File) step(offset uint64, exact bool) *step {
	key := offset << 1
	if exact {
		key |= 1
	}
	if s := f.steps[key]; s != nil {
		return s
	}
	isNew := !f.loaded
	if isNew {
		f.load()
	}
	f.u.trim(f, isNew)
	if !f.loaded { // too large to be kept with others
		f.load()
	}
	s := f.look(offset, exact)
	if len(f.steps) >= maxSteps {
		clear(f.steps)
	}
	if !s.passing {
		f.steps[key] = s
	}
	return s
}

// look examines a place.
func (f *File) look(offset uint64, exact bool) *step {
	if f.image == nil {
		return &step{end: f.nothing(f.err.Error())}
	}
	at := offset
	if !exact && at > 0 {
		at--
	}
	addr, ok := f.image.Address(at)
	if !ok {
		return &step{end: f.nothing("no segment of code has this offset")}
	}
	s := new(step)
	if !exact && !f.arrive(s, offset) {
		return s
	}
	if exact && f.sigreturn(offset) {
		s.kind, s.trampoline = bySignal, true
		return s
	}
	f.rules(s, addr, exact)
	s.leaving = exact && s.kind == byRules && f.leaves(offset, addr)
	return s
}

func (f *File) nothing(detail string) End {
	return End{Why: NoInformation, File: f, Detail: detail}
}

// arrive finds out why a return address is one.
func (f *File) arrive(s *step, offset uint64) bool {
	if offset < callsite.Longest {
		return false
	}
	if before := f.code(offset-callsite.Longest, callsite.Longest); len(before) == callsite.Longest && callsite.Ends(f.image.Machine, before) {
		s.called = true
		return true
	}
	switch {
	case f.sigreturn(offset):
		s.returned = true
	case f.goexit(offset):
		s.root, s.end = true, End{Why: Root, File: f}
	case f.begins(offset):
		s.returned = true
	}
	return false
}

// sigreturn reports whether signal handlers return to an offset.
func (f *File) sigreturn(offset uint64) bool {
	return callsite.Sigreturn(f.image.Machine, f.code(offset, callsite.SigreturnSize))
}

// goexit reports whether an offset is where goroutines return to: after the first
// instruction of runtime.goexit, which does nothing (asm_amd64.s, asm_arm64.s of
// Go's runtime).
func (f *File) goexit(offset uint64) bool {
	if !f.image.IsGo() {
		return false
	}
	if f.image.Machine == arm64 {
		code := f.code(offset-4, 8)
		return offset >= 4 && bytes.HasPrefix(code, []byte("\xe0\x03\x00\xaa")) && len(code) == 8 && code[7]>>2 == 0x25
	}
	code := f.code(offset-1, 7)
	return offset >= 1 && len(code) == 7 && code[0] == 0x90 && code[1] == 0xe8 && code[6] == 0x90
}

// begins reports whether an offset is the beginning of code that nothing has
// called, as a context of makecontext returns to.
func (f *File) begins(offset uint64) bool {
	addr, ok := f.image.Address(offset)
	if !ok {
		return false
	}
	r, t := f.find(addr)
	if r == nil || r.Return.Kind != table.Undefined {
		return false
	}
	span, ok := t.Span(addr)
	return ok && addr-span.Start < callsite.SigreturnSize
}

// find finds the rules of an address in the tables.
func (f *File) find(addr uint64) (*table.Rules, *table.Table) {
	for i := 0; ; i++ {
		if i == len(f.tables) && !f.seek() {
			return nil, nil
		}
		r, err := f.tables[i].Find(addr)
		if r != nil {
			return r, f.tables[i]
		}
		if err != nil && f.err == nil {
			f.err = err
		}
	}
}

// rules finds the way to the caller.
func (f *File) rules(s *step, addr uint64, exact bool) {
	if f.goTable != nil {
		if p, has, ok := f.goTable.Find(addr); ok {
			s.kind, s.how, s.goPlace = byGo, GoTable, p
			return
		} else if has {
			s.end = f.nothing("Go's table leaves out this code")
			return
		}
	}
	if r, t := f.find(addr); r != nil {
		s.kind, s.rules, s.how, s.trampoline = byRules, r, CFI, r.Signal
		if t.Form == table.SFrame {
			s.how = SFrame
			if span, ok := t.Span(addr); ok && span.Start == f.entry { // version 1 cannot say that there is no caller
				*s = step{end: End{Why: Root, File: f}, called: s.called}
			}
		}
		return
	}
	switch {
	case f.begin(addr):
		s.end = End{Why: Root, File: f}
	case f.canFollow():
		pc := addr
		if !exact {
			pc++
		}
		f.follow(s, pc, exact)
	case f.isPlain():
		s.kind, s.how = byFramePointer, FramePointer
	case f.err != nil:
		s.end = f.nothing(f.err.Error())
	case len(f.tables) > 0:
		s.end = f.nothing("the tables leave out this code")
	default:
		s.end = f.nothing("")
	}
}

// begin reports whether an address without a table is in _start, which has no
// caller.
func (f *File) begin(addr uint64) bool {
	const size = 64
	return f.entry != 0 && addr >= f.entry && addr-f.entry < size
}
