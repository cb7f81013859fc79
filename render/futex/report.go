package futex

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"ustack/tracefs"
	"ustack/tracefs/sorting"
)

// View selects parts of a report. It changes what is shown, not what is
// counted.
type View struct {
	// Sort is total, count, max, p99 or auto; empty for total. Auto is by the critical path
	// where that shows that another lock than the one that is waited for most costs run time,
	// else total. It needs Options.Order, or Impact.
	Sort    string
	By      By  // empty for ByObject
	Top     int // 0 for all
	MinWait tracefs.Time
	PIDs    []int32
	Comms   []string

	path *onPath // nil if unknown, or not wanted
	bare bool    // locks have none of their parts
}

// By is what has a row of its own.
type By string

// What can have a row.
const (
	// ByLock: each futex.
	ByLock By = "lock"
	// ByObject: the futexes that are one thing, such as a condition variable.
	ByObject By = "object"
	// BySite: the futexes that threads wait for at one place of a program, most of the
	// time.
	BySite By = "site"
	// ByKind: the futexes of one kind in a process.
	ByKind By = "kind"
	// ByAuto is ByObject, or BySite if a place with many futexes has most of the waiting.
	ByAuto By = "auto"
)

// Check reports a word that a View does not know.
func (v *View) Check() error {
	if orders := []string{"", "auto", "total", "count", "max", "p99"}; !slices.Contains(orders, v.Sort) {
		return fmt.Errorf("unknown order %q (one of %s)", v.Sort, strings.Join(orders[1:], ", "))
	}
	if rows := []By{"", ByAuto, ByLock, ByObject, BySite, ByKind}; !slices.Contains(rows, v.By) {
		return fmt.Errorf("no row for %q (one of auto, lock, object, site, kind)", v.By)
	}
	return nil
}

// Report finishes the analysis: nothing can be added after it.
func (a *Analysis) Report(v View) *Report {
	a.finish()
	if v.Sort == "auto" && len(v.PIDs)+len(v.Comms) == 0 {
		v.path = a.path()
	}
	a.impact.ahead()
	return a.Interim(v)
}

// Interim returns the report of what has been until now. The analysis goes on. A
// wait that a signal has broken off is not counted before it is known what
// becomes of it.
func (a *Analysis) Interim(v View) *Report {
	return a.placings.report(a.summed.report(a.reporter.report(v), v))
}

// SumsOnly reports whether a trace without calls has sums of them (--source=bpf).
func (a *Analysis) SumsOnly() bool { return a.summed.only() && a.Calls() == 0 }

func (r *Report) note(format string, args ...any) {
	r.Notes = append(r.Notes, fmt.Sprintf(format, args...))
}

func (rp *reporter) report(v View) *Report {
	u := rp.underway()
	r := &Report{Ticks: rp.losses.Ticks, By: v.By, Start: rp.losses.Start, End: u.end, Calls: rp.calls.entries, Before: rp.calls.before, Waitv: rp.calls.waitv, NoReturn: rp.calls.unpaired, NoReturns: rp.calls.noReturns()}
	r.Reach, r.Scheduled = rp.reached(rp.calls.waits), rp.activity.switches
	r.Released = rp.reached(rp.calls.releases)
	shift := shiftOf(u.end - rp.losses.Start)
	r.SliceTime = 1 << shift
	rp.loss(r)
	hidden := u.hiding()
	byLock := make(map[*lock]*Lock)
	var locks [2][]*Lock
	filtered := len(v.PIDs)+len(v.Comms) > 0
	objects, by := rp.objects(u, v.By)
	r.By = by
	for _, o := range objects {
		out := u.object(o, hidden)
		for _, l := range o.parts {
			byLock[l] = out
		}
		if filtered {
			rp.detail(out)
		}
		if out.wanted = v.wants(u, out); out.wanted {
			s := out.section()
			locks[s] = append(locks[s], out)
		}
	}
	u.splitRows(r, byLock)
	r.rootTotals(locks[0])
	sortInversions(r.Inversions)
	sums := [2]*Sum{&r.Contended, &r.Signalled}
	for s := range locks {
		for _, l := range locks[s] {
			sums[s].add(&l.Sum)
		}
	}
	if !filtered { // their users are unknown
		r.OtherLocks, r.OtherSignals = u.folded(0, &r.Contended, hidden), u.folded(1, &r.Signalled, hidden)
	}
	r.All.add(&r.Contended)
	r.All.add(&r.Signalled)
	if r.Loss.Any() {
		for _, s := range []*Sum{&r.Contended, &r.Signalled, &r.All} {
			s.High += hidden.more
		}
	}
	lost := locks[0]
	if r.OtherLocks != nil {
		lost = append(slices.Clip(lost), r.OtherLocks)
	}
	r.Threads, r.ThreadRest = u.threadTimes(lost)
	r.ThreadCount = len(r.Threads)
	blocked := rp.blocked(r, u, byLock)
	u.longest(r, byLock, v.MinWait)
	r.LongHolds = u.longHolds(byLock)
	rp.verdict(r, blocked)
	rp.notes(r, &v, slices.Concat(locks[0], locks[1]), filtered)
	r.Signals, r.SignalCount = v.list(locks[1]), len(locks[1])
	if r.Loudest = v.path.reorders(locks[0]); r.Loudest != nil {
		r.PathTime, v.Sort = v.path.whole, "path"
	}
	r.Locks, r.LockCount = v.list(locks[0]), len(locks[0])
	if !v.bare {
		for _, l := range slices.Concat(r.Locks, r.Signals) {
			rp.detail(l)
			l.Course = l.lock.course.at(shift)
			l.Holds = u.holdsOf(l, byLock)
		}
	}
	r.Threads = cut(r.Threads, v.Top)
	r.Longest = cut(r.Longest, v.Top)
	r.LongHolds = cut(r.LongHolds, v.Top)
	r.Chains, r.Roots, r.Inversions = cut(r.Chains, v.Top), cut(r.Roots, v.Top), cut(r.Inversions, v.Top)
	return r
}

func cut[T any](list []T, n int) []T {
	if n > 0 && len(list) > n {
		return list[:n]
	}
	return list
}

func (s *Sum) add(t *Sum) {
	s.Waits += t.Waits
	s.Time += t.Time
	s.Open += t.Open
	s.OpenTime += t.OpenTime
	s.Low += t.Low
	// The hidden time is added once, not for each lock.
	s.High += t.Time + t.OpenTime
}

// wants reports whether a lock belongs to the requested processes.
func (v *View) wants(u *underway, l *Lock) bool {
	pid := len(v.PIDs) == 0
	comm := len(v.Comms) == 0
	if p := l.Process; p != nil {
		pid = pid || slices.Contains(v.PIDs, p.TGID) || slices.ContainsFunc(p.TIDs, func(t int32) bool { return slices.Contains(v.PIDs, t) })
		comm = comm || slices.Contains(v.Comms, p.Comm)
	}
	for _, w := range l.Waiters {
		pid = pid || slices.Contains(v.PIDs, w.TID)
		comm = comm || slices.Contains(v.Comms, w.Comm)
	}
	for _, w := range u.at(l.lock).waits {
		pid = pid || slices.Contains(v.PIDs, w.th.tid)
		comm = comm || slices.Contains(v.Comms, w.th.comm)
	}
	return pid && comm
}

// list sorts, leaves out waits that are too short, and cuts.
func (v *View) list(locks []*Lock) []*Lock {
	locks = slices.DeleteFunc(locks, func(l *Lock) bool { return max(l.Max, l.openMax) < v.MinWait })
	slices.SortFunc(locks, func(x, y *Lock) int {
		c := 0
		switch v.Sort {
		case "count":
			c = cmp.Compare(y.Slept+y.Open, x.Slept+x.Open)
		case "max":
			c = cmp.Compare(max(y.Max, y.openMax), max(x.Max, x.openMax))
		case "path":
			c = cmp.Compare(y.OnPath, x.OnPath)
		case "p99":
			c = cmp.Compare(y.lock.durations.Quantile(0.99), x.lock.durations.Quantile(0.99))
		}
		return cmp.Or(c, cmp.Compare(y.Time+y.OpenTime, x.Time+x.OpenTime), cmp.Compare(y.Waits, x.Waits), cmp.Compare(x.born, y.born))
	})
	for i, l := range locks {
		l.Rank = i + 1
	}
	return cut(locks, v.Top)
}

// object makes the row of an object.
func (u *underway) object(o *object, hidden *hiding) *Lock {
	out := u.lock(o.sum, hidden)
	out.Kind, out.Futexes, out.parts = o.kind, len(o.parts), o.parts
	out.Group = o.group
	if o.role != nil {
		out.Role, out.Each = o.role.name, o.role.each
	}
	switch o.use {
	case useLock:
		out.Role = "lock"
	case useSignal:
		out.Signals = true
	}
	if out.Each && o.sum.roleFile != nil {
		out.Program = o.sum.roleFile.Path
	}
	return out
}

// lock makes the row of a lock.
func (u *underway) lock(l *lock, hidden *hiding) *Lock {
	open := u.at(l)
	openTime, doubt := open.time, l.doubt+open.doubt
	d := &l.durations
	out := &Lock{
		born: l.born, openMax: open.most, Address: l.key.addr, Shared: l.key.shared, Local: l.local, File: l.path, Offset: l.file.offset, FileLate: l.path != "" && u.rp.opt.SharedLate, Kind: l.kind(), Results: l.results,
		Slept: d.Count, Max: d.Max, Partial: l.partial, Longest: l.max, lock: l,
	}
	if d.Count > 0 {
		out.Mean = d.Sum / tracefs.Time(d.Count)
	}
	out.Results[Open] = int64(len(open.waits))
	for _, n := range out.Results {
		out.Waits += n
	}
	// Doubtful time is part of the hidden time, too.
	out.Sum = Sum{Waits: out.Waits, Time: l.time, Open: out.Results[Open], OpenTime: openTime,
		Low: l.time - doubt + openTime - open.openDoubt, High: l.time - doubt + openTime - open.openDoubt + hidden.from(l)}
	out.High = min(out.High, l.time+openTime+hidden.more)
	if p := l.proc; p != nil {
		p = p.find()
		out.Process = u.process(p, l)
	}
	if out.Variable = l.variable; out.Variable != nil {
		out.VariableTrust = l.trust
	}
	return out
}

// detail adds the parts of a lock that only its output needs.
func (rp *reporter) detail(out *Lock) {
	l := out.lock
	d := &l.durations
	out.P50, out.P99, out.Histogram = d.Quantile(0.5), d.Quantile(0.99), d.Histogram()
	out.Waiters, out.WakerTIDs = rp.times(l.waiters), rp.times(l.wakers)
	out.Rest = Rest{Flows: l.flows.rest, Waiters: l.waiters.rest, Wakers: l.wakers.rest}
	if out.Kind.exclusive() {
		out.Holders, out.Rest.Holders = rp.times(l.holders), l.holders.rest
	}
	out.Owners, out.Readings = rp.readings(l)
	rp.flowsOf(out, l)
	blamed := make(map[int32]*Tally)
	for i := range l.blamed.list {
		blamed[l.blamed.list[i].key] = &l.blamed.list[i].Tally
	}
	out.Blamed = rp.shares(blamed)
}

// process describes a lock's process. One whose PID is unknown is the threads that
// are proven to be of it; of a shared futex, the threads that use it.
func (u *underway) process(p *process, l *lock) *Process {
	out := &Process{TGID: p.tgid, How: p.how, Comm: p.comm, Program: p.program, TIDs: slices.Sorted(slices.Values(p.tids)), Threads: p.count}
	if p.tgid != tracefs.NoTID || !l.key.shared {
		return out
	}
	users := make(map[int32]bool)
	for _, p := range slices.Concat(l.waiters.list, l.wakers.list) {
		users[p.key] = true
	}
	for _, w := range u.at(l).waits {
		users[w.th.tid] = true
	}
	if len(users) > 0 {
		out.TIDs, out.Threads = slices.Sorted(maps.Keys(users)), len(users)
		out.Comm = u.rp.tasks.commOfTID(out.TIDs[0])
	}
	return out
}

// folded makes the row of locks that were too many.
func (u *underway) folded(section int, sum *Sum, hidden *hiding) *Lock {
	l := u.rp.locks.others[section]
	if l.durations.Count == 0 && len(u.at(l).waits) == 0 && l.results == [resultCount]int64{} {
		return nil
	}
	out := u.lock(l, hidden)
	sum.add(&out.Sum)
	return out
}

// times lists threads by time.
func (rp *reporter) times(list parts[int32]) []ThreadTime {
	out := make([]ThreadTime, 0, len(list.list))
	for _, p := range list.list {
		out = append(out, ThreadTime{p.key, rp.tasks.commOfTID(p.key), p.Count, p.Time})
	}
	sortThreads(out)
	return out
}

func sortThreads(list []ThreadTime) {
	sorting.Func(list, func(x, y ThreadTime) int {
		return cmp.Or(cmp.Compare(y.Time, x.Time), cmp.Compare(y.Count, x.Count), cmp.Compare(x.TID, y.TID))
	})
}

// threadTimes adds up what threads lost at locks, up to now. rest is the time of
// threads that were not kept apart.
func (u *underway) threadTimes(locks []*Lock) (out []ThreadTime, rest Tally) {
	sums := make(map[int32]*Tally)
	sum := func(tid int32, t Tally) {
		if sums[tid] == nil {
			sums[tid] = new(Tally)
		}
		sums[tid].Add(t)
	}
	for _, l := range locks {
		waiters := &l.lock.waiters
		for i := range waiters.list {
			sum(waiters.list[i].key, waiters.list[i].Tally)
		}
		rest.Add(waiters.rest)
		for _, w := range u.at(l.lock).waits {
			sum(w.th.tid, Tally{Count: 1, Time: w.acc + max(u.end-w.since, 0)})
		}
	}
	for tid, t := range sums {
		out = append(out, ThreadTime{tid, u.rp.tasks.commOfTID(tid), t.Count, t.Time})
	}
	sortThreads(out)
	return out, rest
}

// longest lists the longest waits for locks.
func (u *underway) longest(r *Report, byLock map[*lock]*Lock, atLeast tracefs.Time) {
	for s := range u.rp.calls.longest {
		for _, w := range u.rp.calls.longest[s] {
			w = u.wait(w, byLock[w.lock.find()], byLock)
			if w.Lock != nil && w.Lock.Contends() && w.Time >= atLeast && w.Lock.wanted {
				r.Longest = append(r.Longest, w)
			}
		}
	}
	slices.SortFunc(r.Longest, longer)
	for _, l := range byLock {
		if l.Longest != nil {
			l.Longest = u.wait(l.Longest, l, byLock)
		}
	}
}

// wait returns a single wait as of now.
func (u *underway) wait(w *Wait, l *Lock, byLock map[*lock]*Lock) *Wait {
	one := *w
	one.check(u.gaps)
	if h := &one.Holder; h.Sure && u.rp.losses.refused > 0 {
		h.Sure, h.Why = false, "the kernel refused records, at an unknown time"
	}
	if l != nil && l.Kind.exclusive() {
		one.Split, one.Steps = u.splitWait(w, byLock), u.steps(w, u.namer(byLock))
	}
	one.Lock, one.Stack, one.WakerStack = l, u.rp.stacks.Get(w.stack), u.rp.stacks.Get(w.waker)
	return &one
}
