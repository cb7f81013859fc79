package futex

import (
	"cmp"
	"slices"

	"ustack/tracefs/sorting"
)

// flowsOf lists the stacks of a lock's waits and wakes.
func (rp *reporter) flowsOf(out *Lock, l *lock) {
	waits, wakes := make(map[int32]*Tally), make(map[int32]*Tally)
	sum := func(m map[int32]*Tally, id int32, t *Tally) {
		if m[id] == nil {
			m[id] = new(Tally)
		}
		m[id].Add(*t)
	}
	for i := range l.flows.list {
		f, t := l.flows.list[i].key, &l.flows.list[i].Tally
		sum(waits, f.wait, t)
		sum(wakes, f.wake, t)
	}
	var waitAt, wakeAt map[int32]int32
	out.WaitStacks, waitAt = rp.placedShares(waits)
	out.Wakers, wakeAt = rp.placedShares(wakes)
	out.Flows = make([]Flow, 0, len(l.flows.list)) // no larger: there may be many locks
	for i := range l.flows.list {
		f, t := l.flows.list[i].key, &l.flows.list[i].Tally
		out.Flows = append(out.Flows, Flow{waitAt[f.wait], wakeAt[f.wake], t.Count, t.Time})
	}
	sorting.Func(out.Flows, func(x, y Flow) int {
		return cmp.Or(cmp.Compare(y.Time, x.Time), cmp.Compare(y.Count, x.Count), out.WaitStacks[x.Wait].compare(&out.WaitStacks[y.Wait]), out.Wakers[x.Wake].compare(&out.Wakers[y.Wake]))
	})
}

// shares lists stacks by what they weigh.
func (rp *reporter) shares(m map[int32]*Tally) []StackShare {
	list, _ := rp.placedShares(m)
	return list
}

// placedShares is shares, with where each stack is in the list.
func (rp *reporter) placedShares(m map[int32]*Tally) (list []StackShare, at map[int32]int32) {
	type numbered struct {
		StackShare
		id int32
	}
	all := make([]numbered, 0, len(m))
	for id, t := range m {
		all = append(all, numbered{rp.share(id, t), id})
	}
	sorting.Func(all, func(x, y numbered) int {
		return cmp.Or(cmp.Compare(y.Time, x.Time), cmp.Compare(y.Count, x.Count), x.compare(&y.StackShare), cmp.Compare(x.id, y.id))
	})
	list, at = make([]StackShare, 0, len(all)), make(map[int32]int32, len(all))
	for i := range all {
		at[all[i].id] = int32(i)
		list = append(list, all[i].StackShare)
	}
	return list, at
}

func (rp *reporter) share(id int32, t *Tally) StackShare {
	s := StackShare{Stack: rp.stacks.Get(id), Count: t.Count, Time: t.Time}
	switch id {
	case noStack:
		s.None = "no stack in the trace"
	case otherStacks:
		s.None = "other stacks"
	case noWaker:
		s.None = "no release seen"
	}
	return s
}

// compare orders shares of the same size.
func (s *StackShare) compare(t *StackShare) int {
	if s.Stack == nil || t.Stack == nil {
		return cmp.Compare(s.None, t.None)
	}
	return slices.CompareFunc(s.Stack.Frames, t.Stack.Frames, func(f, g Frame) int {
		return cmp.Or(cmp.Compare(f.Offset, g.Offset), cmp.Compare(f.Address, g.Address))
	})
}
