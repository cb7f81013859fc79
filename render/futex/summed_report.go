package futex

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"ustack/filemap"
	"ustack/filemap/symbol"
	"ustack/render/tally"
	"ustack/tracefs"
)

// SummedState is what a source of sums has counted until a time.
type SummedState struct {
	End tracefs.Time
	// Sums are of the futexes, Others of those that were too many to keep apart.
	Sums   map[FutexID]*CallSum
	Others CallSum
	Open   []OpenWait
	Loss   SummedLoss
	// Variable returns the static variable that a futex is in, nil if it is in none or that is
	// not known, and how well; it may be nil.
	Variable func(FutexID) (*symbol.Variable, filemap.Trust)
}

// Report makes the report until now.
func (s *Summed) Report(st *SummedState, v View) *Report {
	r := &Report{By: ByLock, Start: s.Start, End: st.End, SliceTime: 1, Scheduled: false, Verdict: Verdict{Kind: CannotTell, Case: SumsOnly}}
	rows := s.rows(st)
	var lists [2][]*Lock
	for _, l := range rows {
		r.Calls = tally.Plus(r.Calls, tally.Plus(l.Waits-l.Open, l.Wakes))
		if v.wantsRow(l, st) {
			l.wanted = true
			lists[l.section()] = append(lists[l.section()], l)
		}
	}
	s.several(r, st)
	sums := [2]*Sum{&r.Contended, &r.Signalled}
	for i, list := range lists {
		for _, l := range list {
			sums[i].addMost(&l.Sum)
		}
	}
	if o := &st.Others; o.waits() > 0 && len(v.PIDs)+len(v.Comms) == 0 {
		r.OtherSignals = s.row(FutexID{}, o, nil, nil)
		r.OtherSignals.Process = nil
		r.Signalled.addMost(&r.OtherSignals.Sum)
	}
	r.All.addMost(&r.Contended)
	r.All.addMost(&r.Signalled)
	s.threads(r, lists[0])
	s.singles(r, rows, &v)
	s.blocked(r, st, rows)
	r.Locks, r.LockCount = v.list(lists[0]), len(lists[0])
	r.Signals, r.SignalCount = v.list(lists[1]), len(lists[1])
	r.Threads, r.Longest = cut(r.Threads, v.Top), cut(r.Longest, v.Top)
	r.Reach = s.reached()
	s.notes(r, st)
	return r
}

// rows makes a row for each futex.
func (s *Summed) rows(st *SummedState) map[FutexID]*Lock {
	open := make(map[FutexID][]*OpenWait)
	for i := range st.Open {
		o := &st.Open[i]
		open[o.Futex] = append(open[o.Futex], o)
	}
	rows := make(map[FutexID]*Lock, len(st.Sums))
	add := func(id FutexID, c *CallSum) {
		if id.Addr == Several {
			return
		}
		l := s.row(id, c, s.longs[id], open[id])
		if st.Variable != nil {
			l.Variable, l.VariableTrust = st.Variable(id)
		}
		if _, ok := st.Sums[id.otherHalf()]; ok && l.lock.byName == Unknown && (l.Kind == Semaphore || l.Kind == Signal) && l.lock.traits.bitset > 0 {
			l.Kind = Condvar // see lock.signal
		}
		l.wait(open[id], st.End)
		rows[id] = l
	}
	for id, c := range st.Sums {
		add(id, c)
	}
	for id, list := range open {
		if rows[id] == nil { // no call of it has ended
			add(id, &CallSum{Comm: list[0].Comm})
		}
	}
	for i, id := range sortedIDs(rows) {
		l := rows[id]
		l.born, l.Low, l.High = int64(i), tally.Plus(l.Time, l.OpenTime), tally.Plus(l.Time, l.OpenTime)
	}
	return rows
}

// otherHalf returns the other one of the two words of a condition variable.
func (id FutexID) otherHalf() FutexID {
	id.Addr ^= 4
	return id
}

// wait adds the waits that have not ended to a row.
func (l *Lock) wait(open []*OpenWait, end tracefs.Time) {
	for _, o := range open {
		d := max(end-o.From, 0)
		l.Results[Open]++
		l.Waits = tally.Plus(l.Waits, 1)
		l.Sum.Waits = tally.Plus(l.Sum.Waits, 1)
		l.Open++
		l.OpenTime = tally.Plus(l.OpenTime, d)
		l.openMax = max(l.openMax, d)
	}
}

// addMost adds the sums of another row. Numbers stay below 1<<63.
func (s *Sum) addMost(t *Sum) {
	s.Waits, s.Time = tally.Plus(s.Waits, t.Waits), tally.Plus(s.Time, t.Time)
	s.Open, s.OpenTime = s.Open+t.Open, tally.Plus(s.OpenTime, t.OpenTime)
	s.Low, s.High = tally.Plus(s.Low, t.Low), tally.Plus(s.High, tally.Plus(t.Time, t.OpenTime))
}

// sortedIDs returns the futexes in an order that is always the same.
func sortedIDs(rows map[FutexID]*Lock) []FutexID {
	ids := make([]FutexID, 0, len(rows))
	for id := range rows {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(a, b FutexID) int {
		return cmp.Or(cmp.Compare(a.TGID, b.TGID), cmp.Compare(a.Born, b.Born), cmp.Compare(a.Addr, b.Addr), cmp.Compare(a.Memory, b.Memory), compareBool(a.Shared, b.Shared))
	})
	return ids
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

func (c *CallSum) waits() (n int64) {
	for _, x := range c.Results {
		n = tally.Plus(n, x)
	}
	return n
}

// row makes the row of a futex, of the waits that have ended. long may be nil.
func (s *Summed) row(id FutexID, c *CallSum, long *longWaits, open []*OpenWait) *Lock {
	waits := c.waits()
	begun := *c
	for _, o := range open {
		begun.begin(o)
	}
	var none longWaits
	if long == nil {
		long = &none
	}
	l := &lock{key: lockKey{id.Addr, id.Shared}, traits: begun.traitsOf(waits + int64(len(open))), time: c.Time, flows: long.lock.flows, waiters: long.lock.waiters}
	copy(l.results[:], c.Results[:])
	l.byName, l.foreign = (&locks{stacks: &s.stacks}).kindByName(l, nil)
	c.spread(&l.durations, &long.durations)
	d := &l.durations
	out := &Lock{
		Address: id.Addr, Shared: id.Shared, Kind: l.kind(), Results: l.results, Waits: waits, Futexes: 1, Slept: c.Slept, Max: d.Max, lock: l,
		Sum: Sum{Waits: waits, Time: c.Time}, Wakes: c.Wakes, Woken: c.Woken,
		Process: &Process{TGID: id.TGID, How: ByKernel, Comm: c.Comm, TIDs: []int32{}},
	}
	if c.Slept > 0 {
		out.Mean = c.Time / tracefs.Time(c.Slept)
	}
	out.P50, out.P99, out.Histogram = d.Quantile(0.5), d.Quantile(0.99), d.Histogram()
	s.parts(out, c, long)
	return out
}

// parts adds the stacks and threads of the long waits. The short ones have none.
func (s *Summed) parts(out *Lock, c *CallSum, long *longWaits) {
	short := Tally{Count: c.Slept - long.durations.Count, Time: c.Time - long.durations.Sum}
	rp := reporter{stacks: &s.stacks}
	waits := make(map[int32]*Tally)
	for i := range long.lock.flows.list {
		x := &long.lock.flows.list[i]
		waits[x.key.wait] = &x.Tally
	}
	out.WaitStacks = rp.shares(waits)
	for _, x := range long.lock.waiters.list {
		out.Waiters = append(out.Waiters, ThreadTime{x.key, s.comms[x.key], x.Count, x.Time})
		out.Process.TIDs = append(out.Process.TIDs, x.key)
	}
	sortThreads(out.Waiters)
	slices.Sort(out.Process.TIDs)
	out.Process.Threads = len(out.Process.TIDs)
	out.Rest = Rest{Flows: long.lock.flows.rest, Waiters: long.lock.waiters.rest}
	if short.Count > 0 {
		short.Time = max(short.Time, 0)
		out.WaitStacks = append(out.WaitStacks, StackShare{None: s.shorter(), Count: short.Count, Time: short.Time})
		out.Rest.Waiters.Add(short)
	}
	if long.max != nil {
		one := *long.max
		one.Lock, one.Stack = out, s.stacks.Get(one.stack)
		out.Longest = &one
	}
}

// shorter is why a wait has no stack.
func (s *Summed) shorter() string {
	return fmt.Sprintf("under %v, or not sent: no stack", time.Duration(s.MinWait))
}

// spread makes durations of the classes of a sum: the long waits are known exactly, the others
// take the longest time of their class.
func (c *CallSum) spread(d, long *tally.Durations) {
	rest := slices.Clone(c.Buckets)
	for _, b := range long.Histogram() {
		n := 0
		for t := b.From; t > 0; t >>= 1 {
			n++
		}
		if n < len(rest) {
			rest[n] -= min(rest[n], uint64(b.Count))
		}
	}
	d.Merge(long)
	for n, count := range rest {
		d.AddMany(tracefs.Time(1)<<n-1, int64(count))
	}
	d.Sum = c.Time
}

// wantsRow reports whether a View selects a row.
func (v *View) wantsRow(l *Lock, st *SummedState) bool {
	pid, comm := len(v.PIDs) == 0, len(v.Comms) == 0
	p := l.Process
	pid = pid || slices.Contains(v.PIDs, p.TGID)
	comm = comm || slices.Contains(v.Comms, p.Comm)
	for i := range l.Waiters {
		w := &l.Waiters[i]
		pid, comm = pid || slices.Contains(v.PIDs, w.TID), comm || slices.Contains(v.Comms, w.Comm)
	}
	for i := range st.Open {
		if o := &st.Open[i]; !pid || !comm {
			if o.Futex.Addr == l.Address && o.Futex.TGID == p.TGID {
				pid, comm = pid || slices.Contains(v.PIDs, o.TID), comm || slices.Contains(v.Comms, o.Comm)
			}
		}
	}
	return pid && comm
}

// several adds the waits for one of several futexes.
func (s *Summed) several(r *Report, st *SummedState) {
	for id, c := range st.Sums {
		if id.Addr != Several {
			continue
		}
		r.Waitv.Waits = tally.Plus(r.Waitv.Waits, c.waits())
		r.Waitv.Time = tally.Plus(r.Waitv.Time, c.Time)
		for i, n := range c.Results {
			r.Waitv.Results[i] = tally.Plus(r.Waitv.Results[i], n)
		}
		r.Calls = tally.Plus(r.Calls, c.waits())
	}
}

// threads adds up what threads lost at locks, in long waits.
func (s *Summed) threads(r *Report, locks []*Lock) {
	sums := make(map[int32]*Tally)
	for _, l := range locks {
		for _, w := range l.Waiters {
			if sums[w.TID] == nil {
				sums[w.TID] = new(Tally)
			}
			sums[w.TID].Add(Tally{Count: w.Count, Time: w.Time})
		}
	}
	for tid, t := range sums {
		r.Threads = append(r.Threads, ThreadTime{tid, s.comms[tid], t.Count, t.Time})
	}
	sortThreads(r.Threads)
	r.ThreadCount = len(r.Threads)
}

// singles lists the longest waits for locks.
func (s *Summed) singles(r *Report, rows map[FutexID]*Lock, v *View) {
	of := make(map[*lock]*Lock)
	for id, l := range s.longs {
		if row := rows[id]; row != nil {
			of[&l.lock] = row
		}
	}
	for _, w := range s.longest {
		one := *w
		one.Lock, one.Stack = of[w.lock], s.stacks.Get(w.stack)
		if one.Lock != nil && one.Lock.wanted && one.Lock.Contends() && one.Time >= v.MinWait {
			r.Longest = append(r.Longest, &one)
		}
	}
	slices.SortFunc(r.Longest, longer)
}

// blocked lists the waits that have not ended.
func (s *Summed) blocked(r *Report, st *SummedState, rows map[FutexID]*Lock) {
	for i := range st.Open {
		o := &st.Open[i]
		l := rows[o.Futex]
		if o.Futex.Addr != Several && (l == nil || !l.wanted) {
			continue
		}
		r.Blocked = append(r.Blocked, &Blocked{TID: o.TID, Comm: o.Comm, Lock: l, Since: o.From, Time: max(st.End-o.From, 0), Val: o.Val,
			Missing: "this source takes it when a wait ends"})
	}
	slices.SortFunc(r.Blocked, func(x, y *Blocked) int {
		return cmp.Or(cmp.Compare(y.Time, x.Time), cmp.Compare(x.TID, y.TID))
	})
}

// notes says what the source cannot say, and what it lost.
func (s *Summed) notes(r *Report, st *SummedState) {
	note := func(format string, args ...any) { r.Notes = append(r.Notes, fmt.Sprintf(format, args...)) }
	if r.Calls == 0 && len(st.Open) == 0 {
		note("there were no futex calls")
	}
	l := &st.Loss
	for _, x := range [...]struct {
		n    int64
		text string
	}{
		{l.Waits, "%d waits are missing: too many threads had waited"},
		{l.Missed, "%d entries or returns of calls are missing: the kernel did not run the program"},
		{l.Records, "%d waits are counted and have no stack: the ring buffer was full"},
		{l.Limited, "%d waits are counted and have no stack: a report is to take few bytes a minute"},
		{l.Apart, "%d calls are of futexes that were too many to keep apart, and are in one sum"},
		{l.Gone, "%d futexes of processes that have ended made room for others, and are in that sum without stacks"},
		{l.Before, "%d waits began before the programs were there, or their beginning is one of what is missing: they are not counted"},
		{l.Requeues, "%d calls of futex_requeue are missing: their futexes could not be read"},
		{l.Children, "%d processes were too many to be looked at"},
	} {
		if x.n > 0 {
			note(x.text, x.n)
		}
	}
	note("by --source=bpf: counts and times are of all calls; single waits, threads and stacks are of waits of at least %v; quantiles of shorter ones are upper bounds, of a factor of 2 at most; owners, who released whom, chains and lock-ups are not known", time.Duration(s.MinWait))
}
