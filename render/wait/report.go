package wait

import (
	"cmp"
	"maps"
	"slices"

	"ustack/filemap/resolve"
	"ustack/render/lost"
	"ustack/render/stackset"
	"ustack/render/tally"
	"ustack/tracefs"
	"ustack/tracefs/sorting"
)

// Report draws conclusions, and changes nothing: a trace can go on after it.
func (a *Analysis) Report(v View) *Report {
	b := &builder{a: a, v: v, gaps: a.gapsNow(), groups: make(map[groupKey]*group), kinds: make(map[Kind]*Sum), whys: make(map[Why]*Sum), threads: make(map[int32]bool)}
	b.all()
	g := b.gaps
	r := &Report{Ticks: a.losses.Ticks, By: v.By, Start: a.losses.Start, End: a.end(), Before: b.before, Doubt: b.doubt, Switches: a.switches,
		ThreadCount: len(b.threads),
		Loss:        Loss{Gaps: g.Count, Records: g.Records, Unknown: g.Unknown, Refused: a.refused, Late: a.queue.late, Forgotten: a.threads.forgot}}
	for k, s := range b.kinds {
		r.Kinds = append(r.Kinds, KindSum{k, *s})
		r.Known.add(s)
		if k.Events() {
			r.Events.add(s)
		}
	}
	sorting.Func(r.Kinds, func(x, y KindSum) int { return cmp.Or(cmp.Compare(y.All(), x.All()), cmp.Compare(x.Kind, y.Kind)) })
	for w, s := range b.whys {
		r.Unknown = append(r.Unknown, WhySum{w, *s})
	}
	sorting.Func(r.Unknown, func(x, y WhySum) int { return cmp.Compare(x.Why, y.Why) })
	b.rows(r)
	r.Notes = a.notes(r)
	return r
}

// gapsNow returns the gaps, with the ones that no record has ended yet.
func (a *Analysis) gapsNow() *lost.Gaps {
	g := &a.losses.Gaps
	for from := range a.losses.Open() {
		if g == &a.losses.Gaps {
			g = g.Clone()
		}
		g.Add(from, a.losses.End)
	}
	return g
}

// notes says what the trace lacks.
func (a *Analysis) notes(r *Report) (notes []string) {
	switch {
	case a.switches == 0:
		return []string{"the trace has no sched_switch, so no wait is in it: trace with ustack wait, or -e sched:sched_switch"}
	case !a.raw && len(a.calls.named) == 0:
		notes = append(notes, "the trace has no system calls, so what threads wait in is unknown: trace raw_syscalls:sys_enter and sys_exit, too")
	case !a.raw:
		notes = append(notes, "the trace has some system calls only, so other waits are unknown: trace raw_syscalls:sys_enter and sys_exit, too")
	}
	if !a.wakings {
		notes = append(notes, "the trace has no sched_waking, so it is unknown who ends a wait, and waits last until the thread runs")
	}
	if r.Loss.Late {
		notes = append(notes, "records were lost at a time whose waits had been counted: some of these may be wrong; read the saved trace again, from a file")
	}
	return notes
}

// groupKey is what the waits of a row have in common.
type groupKey struct {
	site  siteKey
	kind  Kind
	waker waker
	tid   int32
}

// group is a row in the making.
type group struct {
	sum     Sum
	disk    tracefs.Time
	doubt   Doubt
	sites   map[siteKey]*Sum
	threads map[int32]*Sum
	wakers  map[waker]*Sum
}

// builder makes a report.
type builder struct {
	a       *Analysis
	v       View
	gaps    *lost.Gaps
	groups  map[groupKey]*group
	kinds   map[Kind]*Sum
	whys    map[Why]*Sum
	threads map[int32]bool
	doubt   Doubt
	before  Doubt
}

// all adds up all waits: what is in the table, what has ended and may be uncertain yet,
// and what has not ended.
func (b *builder) all() {
	for k, s := range b.a.table.cells {
		b.add(k, s)
	}
	more := func(w *off) {
		k, s := assess(w, b.gaps, b.a.end())
		b.add(k, &s)
	}
	q := &b.a.queue
	for i := range q.list[q.head:] {
		more(&q.list[q.head+i])
	}
	for _, th := range b.a.threads.all {
		if th.blocked || th.ready || th.done {
			more(&th.wait)
		}
		if th.began && b.wants(th.tid) {
			b.before.add(th.before)
		}
	}
}

// add adds waits to the sums, and to their row.
func (b *builder) add(k cellKey, s *Sum) {
	if !b.wants(k.tid) {
		return
	}
	if k.tid != 0 {
		b.threads[k.tid] = true
	}
	k.id = b.a.calls.at(k.id, b.a.stacks.Get(k.stack))
	g := b.group(k)
	if k.doubt {
		for _, d := range []*Doubt{&b.doubt, &g.doubt} {
			d.Waits += s.Count()
			d.AtMost += s.All()
		}
		return
	}
	kind := b.a.calls.kind(k.id)
	if kind == Unknown {
		sumOf(b.whys, b.a.calls.why(k.id)).add(s)
	} else {
		sumOf(b.kinds, kind).add(s)
	}
	g.sum.add(s)
	if k.state == 'D' {
		g.disk += s.All()
	}
	sumOf(g.sites, siteKey{k.id, k.stack}).add(s)
	sumOf(g.threads, k.tid).add(s)
	if s.Waits > 0 {
		sumOf(g.wakers, k.waker).add(s)
	}
}

// wants reports whether a thread is traced, and in the view.
func (b *builder) wants(tid int32) bool {
	if b.a.some && tid != 0 && !b.a.threads.callsSeen(tid) {
		return false
	}
	return len(b.v.Comms) == 0 || slices.Contains(b.v.Comms, b.a.threads.commOf(tid))
}

func sumOf[K comparable](m map[K]*Sum, k K) *Sum {
	s := m[k]
	if s == nil {
		s = new(Sum)
		m[k] = s
	}
	return s
}

// group returns the row of a cell.
func (b *builder) group(k cellKey) *group {
	key := groupKey{kind: b.a.calls.kind(k.id)}
	if key.kind == Unknown {
		key.site.id = k.id
	}
	switch b.v.By {
	case ByStack:
		key.site = siteKey{k.id, k.stack}
	case ByCall:
		key.site.id = k.id
	case ByWaker:
		key = groupKey{waker: k.waker}
	case ByThread:
		key = groupKey{tid: k.tid}
	}
	g := b.groups[key]
	if g == nil {
		g = &group{sites: make(map[siteKey]*Sum), threads: make(map[int32]*Sum), wakers: make(map[waker]*Sum)}
		b.groups[key] = g
	}
	return g
}

// key is what rows and their parts are told apart by.
type key[K any] interface {
	comparable
	compare(K) int
}

// inOrder returns the keys of a map, in an order that each run has.
func inOrder[K key[K], V any](m map[K]V) []K {
	keys := slices.Collect(maps.Keys(m))
	sorting.Func(keys, K.compare)
	return keys
}

func (k waker) compare(o waker) int {
	return cmp.Or(cmp.Compare(k.tid, o.tid), cmp.Compare(k.stack, o.stack))
}

func (k siteKey) compare(o siteKey) int {
	return cmp.Or(cmp.Compare(k.stack, o.stack), cmp.Compare(k.id, o.id))
}

func (k groupKey) compare(o groupKey) int {
	return cmp.Or(k.site.compare(o.site), cmp.Compare(k.kind, o.kind), k.waker.compare(o.waker), cmp.Compare(k.tid, o.tid))
}

// maxParts bounds the threads, sites and wakers of a row.
const maxParts = 64

// rows makes the rows.
func (b *builder) rows(r *Report) {
	var rows []*Row
	for _, k := range inOrder(b.groups) { // so that equal ones are in the same order each time
		g := b.groups[k]
		if g.sum.Count() == 0 && g.doubt.Waits == 0 {
			continue
		}
		rows = append(rows, b.row(g))
	}
	rows = slices.DeleteFunc(rows, func(x *Row) bool { return max(x.Max, 0) < b.v.MinWait && x.OpenTime < b.v.MinWait })
	sorting.StableFunc(rows, func(x, y *Row) int {
		return cmp.Or(cmp.Compare(x.order(), y.order()), cmp.Compare(y.All(), x.All()), cmp.Compare(y.Count(), x.Count()), cmp.Compare(y.Doubt.AtMost, x.Doubt.AtMost), x.compare(y))
	})
	r.RowCount = len(rows)
	if b.v.Top > 0 {
		rows = top(rows, b.v.Top)
	}
	for i, x := range rows {
		x.Rank = i + 1
		b.detail(x)
	}
	if b.v.By == ByStack {
		b.callers(rows)
	}
	r.Rows = rows
}

// order returns the section of a row: waits that hold up threads, then waits for events,
// then unknown ones.
func (r *Row) order() int {
	switch {
	case len(r.Sites) == 0:
		return 3
	case !r.Known():
		return 2
	case r.Sites[0].Kind.Events():
		return 1
	}
	return 0
}

// compare makes the order of rows with the same sums one.
func (r *Row) compare(o *Row) int {
	if len(r.Sites) > 0 && len(o.Sites) > 0 {
		x, y := &r.Sites[0], &o.Sites[0]
		if c := cmp.Or(cmp.Compare(x.Kind, y.Kind), cmp.Compare(x.Call, y.Call), cmp.Compare(x.Why, y.Why)); c != 0 {
			return c
		}
	}
	if len(r.Threads) > 0 && len(o.Threads) > 0 {
		return cmp.Compare(r.Threads[0].TID, o.Threads[0].TID)
	}
	return cmp.Compare(len(r.Threads), len(o.Threads))
}

// top returns the first n rows of each section.
func top(rows []*Row, n int) (first []*Row) {
	var count [4]int
	for _, r := range rows {
		if count[r.order()]++; count[r.order()] <= n {
			first = append(first, r)
		}
	}
	return first
}

// row makes a row, without what only its output needs.
func (b *builder) row(g *group) *Row {
	r := &Row{Sum: g.sum, Disk: g.disk, Doubt: g.doubt}
	var d tally.Durations
	var longest *off
	for _, k := range inOrder(g.sites) {
		r.Sites, r.site = append(r.Sites, b.site(k, g.sites[k])), k
		if b.v.By == ByWaker || b.v.By == ByThread {
			continue // their waits are only a part of the site's
		}
		if x := b.a.table.sites[siteKey{k.id.number(), k.stack}]; x != nil && b.whole() {
			d.Merge(&x.durations)
			if longest == nil || x.longest.length() > longest.length() {
				longest = &x.longest
			}
		}
	}
	sorting.StableFunc(r.Sites, func(x, y Site) int {
		return cmp.Or(cmp.Compare(y.All(), x.All()), cmp.Compare(x.Kind, y.Kind), cmp.Compare(x.Call, y.Call))
	})
	for tid, s := range g.threads {
		r.Threads = append(r.Threads, Thread{tid, b.a.threads.commOf(tid), *s})
	}
	sorting.Func(r.Threads, func(x, y Thread) int { return cmp.Or(cmp.Compare(y.All(), x.All()), cmp.Compare(x.TID, y.TID)) })
	for _, k := range inOrder(g.wakers) {
		r.Wakers = append(r.Wakers, b.waker(k, g.wakers[k]))
	}
	sorting.StableFunc(r.Wakers, func(x, y Waker) int { return cmp.Or(cmp.Compare(y.Time, x.Time), cmp.Compare(x.TID, y.TID)) })
	if r.Slept = d.Count; d.Count > 0 {
		r.Mean, r.P50, r.P99, r.Max, r.Histogram = d.Sum/tracefs.Time(d.Count), d.Quantile(0.5), d.Quantile(0.99), d.Max, d.Histogram()
	}
	if longest != nil {
		w := longest
		r.Longest = &Longest{From: w.from, Time: w.length(), Thread: Thread{TID: w.tid, Comm: b.a.threads.commOf(w.tid)}, Waker: b.waker(w.waker, &Sum{})}
	}
	return r
}

// whole reports whether the view has all threads.
func (b *builder) whole() bool { return len(b.v.Comms) == 0 }

// length returns how long a wait that has ended was.
func (w *off) length() tracefs.Time { return w.end() - w.from }

// detail cuts the lists of a row.
func (b *builder) detail(r *Row) {
	r.Sites = r.Sites[:min(len(r.Sites), maxParts)]
	r.Threads = r.Threads[:min(len(r.Threads), maxParts)]
	r.Wakers = r.Wakers[:min(len(r.Wakers), maxParts)]
}

func (b *builder) site(k siteKey, s *Sum) Site {
	c := &b.a.calls
	x := Site{Kind: c.kind(k.id), Call: c.name(k.id), Why: c.why(k.id), Stack: b.a.stacks.Get(k.stack), Sum: *s}
	x.None = none(k.stack)
	return x
}

func (b *builder) waker(k waker, s *Sum) Waker {
	x := Waker{TID: max(k.tid, 0), Interrupt: k.tid == interrupt, Stack: b.a.stacks.Get(k.stack), None: none(k.stack), Sum: *s}
	if x.TID != 0 {
		x.Comm = b.a.threads.commOf(x.TID)
	}
	return x
}

// none says why a number stands for no stack, "" if it is one.
func none(stack int32) string {
	switch stack {
	case stackset.None:
		return "no stack in the trace"
	case stackset.Other:
		return "stacks that were too many to keep apart"
	}
	return ""
}

// why returns why the kind of a call is unknown.
func (c *calls) why(id callID) Why {
	switch {
	case c.kind(id) != Unknown:
		return NotUnknown
	case id == noCallSeen:
		return NoCallSeen
	case id == callLost:
		return LostCall
	case id == callUnpaired:
		return Unpaired
	case id == callNarrow, id >= otherCall:
		return Narrow
	}
	return Unnumbered
}

// Reach returns how far the stacks of waits go, nil if unknown.
func (a *Analysis) Reach() *resolve.Reach {
	var r resolve.Reaches
	for k, s := range a.table.cells {
		if st := a.stacks.Get(k.stack); st != nil {
			r.Add(st.Far(), s.Count())
		}
	}
	return r.Sum()
}
