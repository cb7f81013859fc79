package futex

import (
	"container/heap"
	"math"
	"slices"

	"ustack/filemap/resolve"
	"ustack/filemap/symbol"
	"ustack/render/tally"
	"ustack/tracefs"
	"ustack/tracefs/syscalls"
)

// FutexID is a futex of a process. Memory and Born distinguish programs that it runs, and
// processes with the same number.
type FutexID struct {
	Addr         uint64
	Memory, Born uint64
	TGID         int32
	Shared       bool // FUTEX_PRIVATE_FLAG is not set
}

// LongWait is a wait that a source of sums has seen by itself, as it was long.
type LongWait struct {
	Futex    FutexID
	From, To tracefs.Time
	TID      int32
	Comm     []byte
	Ret      int64
	Stack    *resolve.Stack // nil if there is none
}

// CallSum is what a source of sums has counted of all calls of a futex.
type CallSum struct {
	// Results are the ended waits, Wakes the calls that wake, Woken the threads that they
	// woke.
	Results      [Open]int64
	Wakes, Woken int64
	// Slept waits slept and ended, in Time. Buckets are how many took a time of n bits.
	Slept   int64
	Time    tracefs.Time
	Buckets []uint64
	// Zero to Other are the waits by value: see traits.
	Zero, Two, Three, Owner, Count int64
	// What some calls had.
	Plain, Bitset, PI, Requeue, Realtime, Endless, Timeout, NoTimeout, Several bool
	Comm                                                                       string // of the process
}

// P99 returns the 99th percentile of the waits that slept, rounded up to a power of two; 0 if they
// are too few.
func (c *CallSum) P99() tracefs.Time {
	const least = 100
	left := int64(0)
	for _, n := range c.Buckets {
		left += int64(n)
	}
	if left < least {
		return 0
	}
	left -= left / least // so many waits are not longer
	for bits, n := range c.Buckets {
		if left -= int64(n); left <= 0 {
			return tracefs.Time(1) << bits
		}
	}
	return 0
}

// OpenWait is a wait that has not ended.
type OpenWait struct {
	Futex FutexID
	TID   int32
	Comm  string
	From  tracefs.Time
	Val   uint32
	Cmd   syscalls.Cmd
	// Timeout: it has one.
	Timeout bool
}

// SummedLoss is what a source of sums could not count.
type SummedLoss struct {
	// Waits are missing: too many threads waited. Records are long waits that are counted
	// and not seen by themselves. Apart calls are of futexes that were too many.
	Waits, Records, Apart int64
	// Before are waits whose beginning was not counted, Missed calls that the kernel did
	// not show.
	Before, Missed int64
	// Children are processes that were not looked at.
	Children int64
	// Gone are futexes of processes that have ended, which made room for others.
	Gone int64
	// Limited are long waits that are counted and not seen by themselves: a report is to be
	// small.
	Limited int64
	// Requeues are calls that moved waiters, of futexes that could not be read.
	Requeues int64
}

// Add adds another loss.
func (l *SummedLoss) Add(o *SummedLoss) {
	l.Waits, l.Records, l.Apart, l.Before = l.Waits+o.Waits, l.Records+o.Records, l.Apart+o.Apart, l.Before+o.Before
	l.Missed, l.Children, l.Gone, l.Limited = l.Missed+o.Missed, l.Children+o.Children, l.Gone+o.Gone, l.Limited+o.Limited
	l.Requeues += o.Requeues
}

// Since returns what a loss is more than an earlier one.
func (l SummedLoss) Since(o *SummedLoss) SummedLoss {
	return SummedLoss{Waits: l.Waits - o.Waits, Records: l.Records - o.Records, Apart: l.Apart - o.Apart, Before: l.Before - o.Before,
		Missed: l.Missed - o.Missed, Children: l.Children - o.Children, Gone: l.Gone - o.Gone, Limited: l.Limited - o.Limited, Requeues: l.Requeues - o.Requeues}
}

// Add adds the calls of another futex. What some calls had is that of both; the process is that
// of c. Numbers stay below 1<<63: a trace can have any.
func (c *CallSum) Add(o *CallSum) {
	for i, n := range o.Results {
		c.Results[i] = tally.Plus(c.Results[i], n)
	}
	others := o.counts()
	for i, n := range c.counts() {
		*n = tally.Plus(*n, *others[i])
	}
	c.Time = tally.Plus(c.Time, o.Time)
	for len(c.Buckets) < len(o.Buckets) {
		c.Buckets = append(c.Buckets, 0)
	}
	for i, n := range o.Buckets {
		c.Buckets[i] = uint64(tally.Plus(int64(c.Buckets[i]), int64(n)))
	}
	marks := o.marks()
	for i, set := range c.marks() {
		*set = *set || *marks[i]
	}
}

// Equal reports whether two sums are the same in all.
func (c *CallSum) Equal(o *CallSum) bool {
	others, marks := o.counts(), o.marks()
	for i, n := range c.counts() {
		if *n != *others[i] {
			return false
		}
	}
	for i, set := range c.marks() {
		if *set != *marks[i] {
			return false
		}
	}
	return c.Results == o.Results && c.Time == o.Time && c.Comm == o.Comm && slices.Equal(filled(c.Buckets), filled(o.Buckets))
}

// filled returns classes without the empty ones at the end.
func filled(buckets []uint64) []uint64 {
	for n := len(buckets); n > 0; n-- {
		if buckets[n-1] > 0 {
			return buckets[:n]
		}
	}
	return nil
}

// counts are the numbers of calls, without those by how they ended.
func (c *CallSum) counts() [8]*int64 {
	return [...]*int64{&c.Wakes, &c.Woken, &c.Slept, &c.Zero, &c.Two, &c.Three, &c.Owner, &c.Count}
}

// Since returns what a sum is more than an earlier one of the same futex, and how many calls it
// is. What some calls had is that of all.
func (c *CallSum) Since(o *CallSum) (d CallSum, calls int64) {
	d = *c
	for i, n := range o.Results {
		d.Results[i] -= n
	}
	d.Wakes, d.Woken, d.Slept, d.Time = d.Wakes-o.Wakes, d.Woken-o.Woken, d.Slept-o.Slept, d.Time-o.Time
	d.Zero, d.Two, d.Three, d.Owner, d.Count = d.Zero-o.Zero, d.Two-o.Two, d.Three-o.Three, d.Owner-o.Owner, d.Count-o.Count
	d.Buckets = slices.Clone(c.Buckets)
	for i := range min(len(d.Buckets), len(o.Buckets)) {
		d.Buckets[i] -= o.Buckets[i]
	}
	return d, d.Calls()
}

// Calls returns how many calls a sum is of.
func (c *CallSum) Calls() int64 { return tally.Plus(c.waits(), c.Wakes) }

// Summed makes a Report of sums by futex, and of the long waits among them: of a source that
// does not show each call.
//
// Invariants: futexes and their long waits are no more than bound says, and a stack is kept
// once. The sums have all waits, the long ones included.
type Summed struct {
	Start   tracefs.Time
	MinWait tracefs.Time

	stacks  stacks
	longs   map[FutexID]*longWaits
	comms   map[int32]string
	longest longest
	seen    int64
	time    tracefs.Time // of all long waits; it stays below 1<<63, so sums of some of them do
}

// longWaits are the long waits of a futex.
type longWaits struct {
	lock      lock // its flows and waiters
	durations tally.Durations
	max       *Wait
}

// Several is in the place of an address for futex_waitv, which waits for one of several futexes.
const Several = math.MaxUint64

// NewSummed returns an empty Summed.
func NewSummed(start, minWait tracefs.Time) *Summed {
	s := &Summed{Start: start, MinWait: minWait, longs: make(map[FutexID]*longWaits), comms: make(map[int32]string)}
	s.stacks.Init(defaultStacks)
	return s
}

// Seen returns how many long waits there were.
func (s *Summed) Seen() int64 { return s.seen }

// Name names the functions of all stacks that have no names yet.
func (s *Summed) Name(names symbol.Namer) { s.stacks.Name(names) }

// Forget drops the long waits of a futex whose sum has gone into the others.
func (s *Summed) Forget(id FutexID) {
	l := s.longs[id]
	if l == nil {
		return
	}
	delete(s.longs, id)
	s.longest = slices.DeleteFunc(s.longest, func(w *Wait) bool { return w.lock == &l.lock })
	heap.Init(&s.longest)
}

// Add takes a long wait.
func (s *Summed) Add(w *LongWait) {
	s.seen++
	l := s.longs[w.Futex]
	if l == nil {
		if len(s.longs) >= defaultLocks {
			return // it is in the sums
		}
		l = new(longWaits)
		s.longs[w.Futex] = l
	}
	stack := int32(noStack)
	if w.Stack != nil {
		stack = s.stacks.Of(&resolve.Attached{Stack: w.Stack})
	}
	d := min(max(w.To-w.From, 0), math.MaxInt64-s.time) // a trace can have any
	s.time += d
	t := Tally{Count: 1, Time: d}
	l.durations.Add(d)
	l.lock.flows.add(flow{stack, noWaker}, t)
	l.lock.waiters.add(w.TID, t)
	if len(s.comms) < defaultThreads || s.comms[w.TID] != "" {
		if string(w.Comm) != s.comms[w.TID] {
			s.comms[w.TID] = string(w.Comm)
		}
	}
	s.keep(w, l, stack, d)
}

// keep keeps a wait if it is one of the longest.
func (s *Summed) keep(w *LongWait, l *longWaits, stack int32, d tracefs.Time) {
	long := len(s.longest) < maxLongest || d > s.longest[0].Time
	if l.max != nil && d <= l.max.Time && !long {
		return
	}
	one := &Wait{TID: w.TID, Comm: string(w.Comm), From: w.From, Time: d, Result: sleptResult(w.Ret), lock: &l.lock, stack: stack, waker: noWaker}
	one.Holder.Why = "this source does not show owners"
	if l.max == nil || d > l.max.Time {
		l.max = one
	}
	switch {
	case len(s.longest) < maxLongest:
		heap.Push(&s.longest, one)
	case long:
		s.longest[0] = one
		heap.Fix(&s.longest, 0)
	}
}

// sleptResult returns how a wait ended that slept, by what the call returned.
func sleptResult(ret int64) Result {
	switch ret {
	case syscalls.ETIMEDOUT:
		return TimedOut
	case syscalls.EINTR, syscalls.ERESTARTSYS, syscalls.ERESTARTNOINTR, syscalls.ERESTARTNOHAND, syscalls.ERESTARTRESTARTBLOCK:
		return Interrupted
	}
	return Woken
}

// begin counts what shows in the beginning of a wait.
func (c *CallSum) begin(o *OpenWait) {
	switch v := o.Val; {
	case v == 0:
		c.Zero++
	case v == 2:
		c.Two++
	case v == 3:
		c.Three++
	case v&futexWaiters != 0 && v != math.MaxUint32:
		c.Owner++
	case v != math.MaxUint32 && (v < 8 || v&7 != rwlockReaders):
		c.Count++
	}
	switch {
	case o.Cmd == syscalls.WaitRequeuePI:
		c.Requeue = true
	case o.Cmd.PI():
		c.PI = true
	case o.Cmd == syscalls.WaitBitset:
		c.Bitset = true
	default:
		c.Plain = true
	}
	if o.Timeout {
		c.Timeout = true
	} else {
		c.NoTimeout = true
	}
}

// traitsOf returns the traits that sums show. A trait that some of the waits have, of which it
// is not known how many, is of one of them.
func (c *CallSum) traitsOf(waits int64) traits {
	t := traits{waits: waits, zero: c.Zero, two: c.Two, three: c.Three, owner: c.Owner, count: c.Count, wakes: c.Wakes}
	some := func(is, others bool) int64 {
		switch {
		case !is:
			return 0
		case others:
			return 1
		}
		return waits
	}
	t.plain, t.bitset = some(c.Plain, c.Bitset || c.PI || c.Requeue), some(c.Bitset, c.Plain || c.PI || c.Requeue)
	t.pi, t.requeues = some(c.PI, true), some(c.Requeue, true)
	t.realtime, t.endless, t.timeouts = some(c.Realtime, true), some(c.Endless, true), some(c.Timeout, c.NoTimeout)
	t.broadcasts = some(c.Several, true)
	if c.Wakes == 0 {
		t.unexplained = c.Results[Woken]
	}
	return t
}
