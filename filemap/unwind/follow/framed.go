package follow

import "ustack/filemap/unwind/table"

// Framed reports whether a function, from an instruction on after a call, returns from the
// frame that the frame pointer points to: leave, or mov %rbp,%rsp and pop %rbp, before
// the return (psABI of x86-64, 3.2.2). The calls that it makes keep the frame pointer. They
// may take arguments off the stack, as code of JIT compilers does, so what the stack
// pointer is after them is unknown, and a function that returns by it is not framed.
//
// Not all calls return: the last code of a function often is calls that do not, and what is
// after them is another function or no code. So ways with fewer calls come first, and the
// ones with the fewest that return are what counts. spent is how many instructions were
// followed.
func Framed(c Code, addr uint64, most int) (ok bool, spent int) {
	w := walk{code: c, left: min(most, MaxInstructions), framed: true}
	found, differ := false, false
	var f finds
	w.returned = func(s *state, at uint64, taken int64) {
		r, end := f.returns(c, s, at, taken)
		switch {
		case end || r == nil:
			w.open++
		case r.Base == (table.Rule{Kind: table.IsRegister, Reg: dwarf[rbp], N: frameRecord}) && savesPointer(r):
			found = true
		default:
			differ = true
		}
	}
	p := point{addr: addr, state: begin(true), fell: true}
	p.framed = true
	w.run(p)
	for !found && !differ && !w.disagree && len(w.later) > 0 {
		w.pending, w.later = w.later, w.pending[:0]
		w.all()
	}
	return found && !differ && !w.disagree, w.instructions
}

// frameRecord is the size of the caller's frame pointer and the return address.
const frameRecord = 16

// savesPointer reports whether the caller's frame pointer is where the frame pointer
// points to.
func savesPointer(r *table.Rules) bool {
	rule := ruleOf(r, dwarf[rbp])
	return len(rule) == 1 && rule[0].Kind == table.At && rule[0].N == -frameRecord
}
