package follow

import "ustack/filemap/unwind/table"

// Caller finds the caller of an instruction: by the ways to the ends of its function, and by
// the way from where that begins, if it is known. after: a call before the instruction has
// returned. most bounds the instructions that are followed each time, spent is how many
// that were.
func Caller(c Code, s *Starts, pc uint64, after bool, most int) (a Answer, spent int) {
	a, spent = Forward(c, pc, after, most)
	in := pc
	if after {
		in-- // the call can be the last instruction
	}
	ends := a.Root
	if a.Root = false; ends {
		a.Why = neverReturns
	}
	start, ok := s.Before(in)
	if !ok {
		return a, spent
	}
	b, more := From(c, start, pc, after, most)
	if ends && b.Outermost {
		return Answer{Root: true}, spent + more
	}
	a.join(&b)
	return a, spent + more
}

// join adds what the way from the beginning of the function has shown.
func (a *Answer) join(b *Arrival) {
	switch {
	case b.Rules == nil:
	case a.Rules == nil:
		a.Rules, a.Why, a.Doubt = b.Rules, "", false
		if p := b.Pointer; p.Kind == table.IsRegister && p != b.Rules.Base {
			a.Also = p // calls can have taken arguments off the stack
		}
	case a.Rules.Base == b.Rules.Base || a.Rules.Base == b.Pointer:
		a.Doubt = false
	case a.Rules.Base.Kind == table.IsRegister && (a.Rules.Base.Reg == b.Rules.Base.Reg || b.Pointer.Kind == table.IsRegister && a.Rules.Base.Reg == b.Pointer.Reg):
		*a = Answer{Why: disagreement}
	default:
		a.Doubt = false
		if a.Also.Kind == table.Unsaid {
			a.Also = b.Rules.Base // the registers show it
		}
	}
}
