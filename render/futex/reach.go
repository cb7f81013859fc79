package futex

import (
	"ustack/filemap"
	"ustack/filemap/resolve"
	"ustack/tracefs"
)

// waitStacks are the stacks of waits, or of releases, with how many of these have each.
type waitStacks map[int32]int64

// add adds a call, if it has a stack.
func (w *waitStacks) add(stack int32) {
	if stack < 0 {
		return
	}
	if *w == nil {
		*w = make(waitStacks)
	}
	(*w)[stack]++
}

// reached returns how far stacks of calls go, nil if unknown.
func (rp *reporter) reached(stacks waitStacks) *resolve.Reach {
	var r resolve.Reaches
	for id, n := range stacks {
		r.Add(rp.stacks.get(id).far(), n)
	}
	return r.Sum()
}

// far returns how far a stack goes.
func (s *Stack) far() resolve.Far {
	return resolve.Far{Unwound: s.Frames[0].How != tracefs.ByKernel, Application: s.application(), Root: s.End == tracefs.AtRoot,
		Last: s.Frames[len(s.Frames)-1].File}
}

// application reports whether a stack has code of a program.
func (s *Stack) application() bool {
	for i := range s.Frames {
		f := &s.Frames[i]
		if f.File != nil && !f.InLibc() || f.Memory != nil && f.Reason != filemap.VDSO {
			return true
		}
	}
	return false
}
