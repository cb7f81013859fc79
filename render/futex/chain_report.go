package futex

import (
	"cmp"
	"slices"

	"ustack/tracefs"
	"ustack/tracefs/sorting"
)

// Chain is a lock that was waited for while its owner waited for another one itself, whose
// owner may have waited, too, and so on.
type Chain struct {
	Lock *Lock
	// On is what the owner of Lock waited for, then what the owner of that did.
	On []BlockedOn
	// Time is how much of the waits for Lock that was, Waits of how many.
	Time  tracefs.Time
	Waits int64
	// Roots are the owners at the end, which did not wait for a lock, the longest first.
	// They have no Chained.
	Roots []Root
}

// Step is a part of a wait in which the same threads were waited for.
type Step struct {
	From, To tracefs.Time
	// Owners are the owner of the lock; if it waited for another one itself, the owner of
	// that, and so on. The last one did not wait for a lock.
	Owners []Owner
	// Did, On and Stack are what the last one did, and where, as in a Root.
	Did   string
	On    BlockedOn
	Stack *Stack
}

// Owner is a thread of a Step. On is what it waits for, not of the last one.
type Owner struct {
	TID  int32
	Comm string
	On   BlockedOn
}

// root returns a root.
func (u *underway) root(tid, cause, stack int32, named func(int32, tracefs.Time) BlockedOn) Root {
	r := Root{TID: tid, Comm: u.rp.tasks.commOfTID(tid), Did: "blocked", Stack: u.rp.stacks.Get(stack)}
	switch cause {
	case causeRuns:
		r.Did = "ran"
	case causeRunnable:
		r.Did = "runnable"
	default:
		r.On = named(cause, 0)
	}
	return r
}

// chains adds the chains of a row's waits to the report.
func (u *underway) chains(r *Report, l *Lock, s *spent, named func(int32, tracefs.Time) BlockedOn) {
	byLocks := make(map[int32]*Chain)
	for i := range s.chains.list {
		p := &s.chains.list[i]
		c := byLocks[p.key.locks]
		if c == nil {
			c = &Chain{Lock: l}
			u.rp.activity.links.each(p.key.locks, func(x link) { c.On = append(c.On, named(x.cause, 0)) })
			byLocks[p.key.locks] = c
			r.Chains = append(r.Chains, c)
		}
		one := u.root(p.key.tid, p.key.cause, p.key.stack, named)
		one.Time = p.Time
		c.Roots = append(c.Roots, one)
		c.Time += p.Time
		c.Waits += p.Count
	}
	for _, c := range byLocks {
		sortRoots(c.Roots)
	}
}

// compareOn orders what threads were blocked on.
func compareOn(x, y *BlockedOn) int {
	return cmp.Or(cmp.Compare(x.What, y.What), cmp.Compare(x.Address, y.Address), cmp.Compare(x.Call, y.Call), cmp.Compare(x.place, y.place))
}

func sortRoots(list []Root) {
	sorting.StableFunc(list, func(x, y Root) int {
		return cmp.Or(cmp.Compare(y.Time, x.Time), cmp.Compare(x.TID, y.TID), cmp.Compare(x.Did, y.Did), compareOn(&x.On, &y.On))
	})
}

// rootTotals adds up the roots of all rows, and sorts the chains.
func (r *Report) rootTotals(locks []*Lock) {
	type where struct {
		tid     int32
		did     string
		what    BlockedKind
		address uint64
		call    string
		stack   *Stack
	}
	at := make(map[where]int)
	for _, l := range locks {
		if l.Split == nil {
			continue
		}
		r.NoRoot += l.Split.NoRoot
		for _, x := range l.Split.Roots {
			k := where{x.TID, x.Did, x.On.What, x.On.Address, x.On.Call, x.Stack}
			i, ok := at[k]
			if !ok {
				i = len(r.Roots)
				at[k] = i
				y := x
				y.Time, y.Chained = 0, 0
				r.Roots = append(r.Roots, y)
			}
			r.Roots[i].Time += x.Time
			r.Roots[i].Chained += x.Chained
		}
	}
	sortRoots(r.Roots)
	slices.SortFunc(r.Chains, func(x, y *Chain) int {
		return cmp.Or(cmp.Compare(y.Time, x.Time), cmp.Compare(x.Lock.born, y.Lock.born), len(x.On)-len(y.On),
			slices.CompareFunc(x.On, y.On, func(a, b BlockedOn) int { return compareOn(&a, &b) }))
	})
}

// chained returns the roots of a wait that has just been split, if they are certain as of now,
// nil if they are not.
func (sp *splits) chained(l *lock, v *division) []rootSpan {
	if v == nil || !v.proven(l) {
		return nil
	}
	if _, _, lost := sp.losses.Gaps.Within(min(v.rootProof, v.from), v.to); lost {
		return nil
	}
	deep := func(s rootSpan) bool { return s.path > 0 }
	if !slices.ContainsFunc(sp.spans, deep) || slices.ContainsFunc(sp.spans, func(s rootSpan) bool {
		return deep(s) && !(s.call.sureOwner(sp.activity) && s.via.hold(sp.activity))
	}) {
		return nil
	}
	return sp.spans
}

// Bounds of the steps that are kept of a wait, of the longest ones of all and of those that
// are only the longest of their lock.
const (
	maxSteps = 1 << 8
	fewSteps = 1 << 4
)

// someSteps keeps the first of some steps.
func someSteps(list []rootSpan, n int) []rootSpan { return slices.Clone(list[:min(len(list), n)]) }
