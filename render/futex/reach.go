package futex

import (
	"ustack/filemap/resolve"
)

// waitStacks is how many waits, or releases, have each stack, by its number: no map, as each
// call adds to it.
type waitStacks []int64

// add adds a call, if it has a stack.
func (w *waitStacks) add(stack int32) {
	if stack < 0 {
		return
	}
	for int(stack) >= len(*w) {
		*w = append(*w, 0)
	}
	(*w)[stack]++
}

// reached returns how far stacks of calls go, nil if unknown.
func (rp *reporter) reached(stacks waitStacks) *resolve.Reach {
	var r resolve.Reaches
	for id, n := range stacks {
		if n > 0 {
			r.Add(rp.stacks.Get(int32(id)).Far(), n)
		}
	}
	return r.Sum()
}

// reached returns how far the stacks of long waits go, nil if unknown.
func (s *Summed) reached() *resolve.Reach {
	var r resolve.Reaches
	for _, l := range s.longs {
		for i := range l.lock.flows.list {
			if x := &l.lock.flows.list[i]; x.key.wait >= 0 {
				r.Add(s.stacks.Get(x.key.wait).Far(), x.Count)
			}
		}
	}
	return r.Sum()
}
