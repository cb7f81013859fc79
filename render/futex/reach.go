package futex

import (
	"ustack/filemap/resolve"
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
		r.Add(rp.stacks.Get(id).Far(), n)
	}
	return r.Sum()
}
