package futex

import (
	"cmp"
	"container/heap"
	"slices"

	"ustack/tracefs"
	"ustack/tracefs/sorting"
)

// Wait is a single wait, of the longest ones.
type Wait struct {
	TID        int32
	Comm       string
	Lock       *Lock // set when the report is made
	From, Time tracefs.Time
	Result     Result
	Stack      *Stack
	Missing    string // why there is no stack
	Waker      int32  // 0 if unknown
	WakerComm  string
	WakerStack *Stack
	WakerSure  bool
	Holder     Holder
	Segments   []Segment
	// Split is nil if the futex is not one that one thread holds at a time.
	Split *Split
	// Steps are who was waited for meanwhile, in order, as far as that is known.
	Steps        []Step
	division     *division
	lock         *lock
	stack, waker int32
}

// longest are the longest waits, the shortest of them first.
type longest []*Wait

func (l longest) Len() int           { return len(l) }
func (l longest) Less(i, k int) bool { return longer(l[k], l[i]) < 0 }
func (l longest) Swap(i, k int)      { l[i], l[k] = l[k], l[i] }

// Push implements heap.Interface.
func (l *longest) Push(x any) { *l = append(*l, x.(*Wait)) }

// Pop implements heap.Interface.
func (l *longest) Pop() any {
	n := len(*l) - 1
	x := (*l)[n]
	*l = (*l)[:n]
	return x
}

// longer orders waits, the longest first.
func longer(a, b *Wait) int {
	return cmp.Or(cmp.Compare(b.Time, a.Time), cmp.Compare(a.From, b.From), cmp.Compare(a.TID, b.TID))
}

// maxLongest is how many single waits are kept.
const maxLongest = 100

// count adds a wait of some time to its lock's numbers.
func (c *calls) count(w *wait, l *lock, r Result, end tracefs.Time) {
	d := w.acc + max(end-w.since, 0)
	one := l.begin()
	l.durations.Add(d)
	l.course.add(end-c.losses.Start, d)
	t := Tally{Count: 1, Time: d}
	l.flows.add(flow{w.stack, w.waker.stackID()}, t)
	l.waiters.add(w.th.tid, t)
	if w.waker.tid != 0 {
		l.wakers.add(w.waker.tid, t)
	}
	if r == Woken && !l.traits.exclusive(w) {
		l.got(w.th.tid)
	}
	var h Holder
	var segs []Segment
	var v *division
	if l.traits.exclusive(w) {
		h, segs = c.holders.holder(w, l, end)
		if h.TID != 0 {
			l.holders.add(h.TID, t)
		}
		v = c.splits.split(w, l, d, end)
	} else {
		h.Why = "not known to be a mutex"
	}
	l.charge(w, d, segs, c.holders.let, c.splits.chained(l, v))
	s := l.kind().section()
	if len(c.longest[s]) >= maxLongest && d <= c.longest[s][0].Time && l.max != nil && d <= l.max.Time {
		return
	}
	if one == nil {
		one = new(Wait)
	}
	*one = Wait{
		TID: w.th.tid, Comm: w.th.comm, From: w.from, Time: d, Result: r, lock: l, stack: w.stack, Missing: w.missing.String(),
		Waker: w.waker.tid, WakerComm: w.waker.comm, WakerSure: w.waker.sure, waker: w.waker.stack, Holder: h, Segments: someSegments(segs), division: v,
	}
	long := len(c.longest[s]) < maxLongest || d > c.longest[s][0].Time
	if v != nil {
		n := fewSteps
		if long {
			n = maxSteps
		}
		v.kept, v.steps = true, someSteps(c.splits.spans, n)
	}
	if l.max == nil || d > l.max.Time {
		l.max = one
	}
	if len(c.longest[s]) < maxLongest {
		heap.Push(&c.longest[s], one)
	} else if d > c.longest[s][0].Time {
		c.longest[s][0] = one
		heap.Fix(&c.longest[s], 0)
	}
}

// charge charges the time of a wait to the stacks of the calls that ended it: each owner's
// part of it to the call by which that owner released the lock, if owners are known, and
// what was left of it to the last one, which gave the lock to the waiter. While an owner
// waited for another lock itself, the part is the root's, by deep.
func (l *lock) charge(w *wait, d tracefs.Time, segs []Segment, let []int32, deep []rootSpan) {
	last := w.waker.stackID()
	left := d
	for i, s := range segs {
		t := min(max(s.To-s.From, 0), left)
		left -= t
		for k := range deep {
			x := &deep[k]
			part := min(min(x.to, s.To)-max(x.from, s.From), t)
			if x.path > 0 && x.let != nil && part > 0 {
				l.blamed.add(x.let.stack, Tally{Time: part})
				t -= part
			}
		}
		l.blamed.add(let[i], Tally{Time: t})
		last = let[i]
	}
	l.blamed.add(last, Tally{Count: 1, Time: left})
}

// firsts is room for the parts of the first wait at a lock, in one piece of
// memory: many locks of hostile traces have no other.
type firsts struct {
	flow  [1]part[flow]
	tid   [1]part[int32]
	exact [1]tracefs.Time
	slice [1]Slice
	max   Wait
}

// begin makes room for the first wait at a lock. It returns nil if there was one.
func (l *lock) begin() *Wait {
	if l.max != nil || l.flows.list != nil || l.waiters.list != nil || l.durations.Count > 0 {
		return nil
	}
	f := l.room
	if f == nil {
		f = new(firsts)
	}
	l.room = nil
	l.flows.list, l.waiters.list, l.course.list = f.flow[:0], f.tid[:0], f.slice[:0]
	l.durations.Room(f.exact[:])
	return &f.max
}

// maxSegments bounds the owners of a lock that are kept for one wait.
const maxSegments = 8

func someSegments(segs []Segment) []Segment {
	longest := slices.Clone(segs)
	if len(segs) <= maxSegments {
		return longest
	}
	sorting.StableFunc(longest, func(x, y Segment) int { return cmp.Compare(y.To-y.From, x.To-x.From) })
	longest = longest[:maxSegments]
	sorting.Func(longest, func(x, y Segment) int { return cmp.Compare(x.From, y.From) })
	return longest
}

// heldUntil returns when a wait's lock was released: the waiter needs some time
// to run after that.
func (w *wait) heldUntil(end tracefs.Time) tracefs.Time {
	if w.waker.sure && w.waker.at > w.began && w.waker.at < end {
		return w.waker.at
	}
	return end
}

// stackID returns the stack of the thread that ended a wait.
func (k *waker) stackID() int32 {
	if k.tid == 0 {
		return noWaker
	}
	if k.wake != nil {
		return k.wake.stack
	}
	return k.stack
}

// noWaker stands for a missing waker: a timeout, or a thread's exit.
const noWaker = -3
