package join

import (
	"cmp"
	"slices"
	"time"

	"ustack/tracefs"
)

// Order is whether perf or the trace comes first at a tracepoint.
type Order uint8

// The orders.
const (
	// ByExits: it does not matter, for exits are traced, all of them.
	ByExits Order = iota
	TraceFirst
	PerfFirst
)

// Options configure a Joiner.
type Options struct {
	Order Order
	// Keep is how long a call or a sample waits for the other, by the clock of the
	// trace; DefaultKeep if 0.
	Keep time.Duration
	// Most is how many samples wait, DefaultMost if 0. If there are more, the
	// oldest are refused.
	Most int
}

// Defaults of Options.
const (
	DefaultKeep = 10 * time.Second
	DefaultMost = 1 << 15
)

// Head is the common part of a call and a sample.
type Head struct {
	TID, CPU int
	Time     tracefs.Time
	// Tracepoint is its number, 0 if not known.
	Tracepoint uint64
	// IP is the address of the next instruction in user space, 0 if not known.
	IP uint64
}

// Counts counts the samples by result.
type Counts struct {
	Joined uint64
	Lost   uint64 // refused: records of the trace are missing around it
	// Unlike: refused, as CPU, tracepoint or address differ from the call's
	// that it should be of: the thread moved to another CPU, say.
	Unlike uint64
	// Alone: refused, as the trace has no entry for it.
	Alone uint64
	// Unsure: refused, as several records have the same time, or the trace
	// contradicts itself.
	Unsure uint64
	// Dropped: refused, as too many waited, or it came too late.
	Dropped uint64
}

// apart is more than the time between a sample and the record of the same hit: for so
// long a contradicting record is waited for.
const apart = tracefs.Time(time.Millisecond)

// Joiner joins calls of a trace, which carry a C, to samples, which carry an S. It is
// for one goroutine.
type Joiner[C, S any] struct {
	opt     Options
	threads map[int]*thread[C, S]
	// active are the threads for which anything is to be decided; all of them were
	// looked at in the last sweep, at swept.
	active  map[int]*thread[C, S]
	swept   tracefs.Time
	losses  losses
	waiting int
	// traceUntil and samplesUntil are the times before which all is here.
	traceUntil, samplesUntil tracefs.Time
	count                    Counts
}

// thread has the waiting records and samples of a thread, in order of time.
type thread[C, S any] struct {
	records []record[C]
	samples []sample[S]
}

// record is a record of the trace.
type record[C any] struct {
	Head
	exit   bool
	joined bool
	call   C
}

type sample[S any] struct {
	Head
	sample S
}

// New returns a joiner without calls and samples.
func New[C, S any](opt Options) *Joiner[C, S] {
	opt.Keep = cmp.Or(opt.Keep, DefaultKeep)
	opt.Most = cmp.Or(opt.Most, DefaultMost)
	return &Joiner[C, S]{opt: opt, threads: make(map[int]*thread[C, S]), active: make(map[int]*thread[C, S]), losses: newLosses()}
}

func (j *Joiner[C, S]) thread(tid int) *thread[C, S] {
	t := j.threads[tid]
	if t == nil {
		t = new(thread[C, S])
		j.threads[tid] = t
	}
	j.active[tid] = t
	return t
}

// insert puts a value into its place by time, after values of the same time.
func insert[T any](list []T, v T, time func(*T) tracefs.Time) []T {
	i := len(list)
	for i > 0 && time(&list[i-1]) > time(&v) {
		i--
	}
	return slices.Insert(list, i, v)
}

// Enter adds an entry that the trace has. Records of a CPU come in their order.
func (j *Joiner[C, S]) Enter(h Head, call C) { j.record(record[C]{Head: h, call: call}) }

// Exit adds the return from a call that the trace has. The end of a thread
// (sched_process_exit) is one, too: its number can be given to another.
func (j *Joiner[C, S]) Exit(h Head) { j.record(record[C]{Head: h, exit: true}) }

func (j *Joiner[C, S]) record(r record[C]) {
	j.losses.saw(r.CPU, r.Time)
	t := j.thread(r.TID)
	t.records = insert(t.records, r, func(r *record[C]) tracefs.Time { return r.Time })
}

// Saw notes any other record of a CPU in the trace: records that were Lost before
// were lost before its time.
func (j *Joiner[C, S]) Saw(cpu int, t tracefs.Time) { j.losses.saw(cpu, t) }

// Lost notes that records of the trace are missing on a CPU, between the last one that
// was passed and the next one. A CPU below 0 is for all.
func (j *Joiner[C, S]) Lost(cpu int) { j.losses.begin(cpu) }

// Sample adds a sample of an entry.
func (j *Joiner[C, S]) Sample(h Head, s S) {
	if h.Time < j.samplesUntil { // its call may have been forgotten
		j.count.Dropped++
		return
	}
	t := j.thread(h.TID)
	t.samples = insert(t.samples, sample[S]{h, s}, func(s *sample[S]) tracefs.Time { return s.Time })
	j.waiting++
}

// Settle joins the proven pairs. All records of the trace, and all its losses, of
// before traceUntil have been passed, and all samples of before samplesUntil.
//
// Each pair is passed to joined, once. A call that surely has no sample, or none
// that is proven, is passed to alone.
func (j *Joiner[C, S]) Settle(traceUntil, samplesUntil tracefs.Time, joined func(C, S), alone func(C)) {
	j.traceUntil, j.samplesUntil = max(j.traceUntil, traceUntil), max(j.samplesUntil, samplesUntil)
	list := j.active
	if keep := tracefs.Time(j.opt.Keep); j.traceUntil-j.swept > keep/4 {
		list, j.swept = j.threads, j.traceUntil
	}
	for tid, t := range list {
		j.settle(t, joined)
		j.forget(t, alone)
		if len(t.records) <= 1 && len(t.samples) == 0 {
			delete(j.active, tid)
		}
		if len(t.records) == 0 && len(t.samples) == 0 {
			delete(j.threads, tid)
		}
	}
	j.losses.expire(j.traceUntil - tracefs.Time(j.opt.Keep))
	j.bound()
}

// End joins the proven pairs when nothing more comes. All calls that are left are
// alone.
func (j *Joiner[C, S]) End(joined func(C, S), alone func(C)) {
	j.Settle(never, never, joined, alone)
}

// Counts returns what became of the samples so far.
func (j *Joiner[C, S]) Counts() Counts { return j.count }

// settle decides about the samples of a thread.
func (j *Joiner[C, S]) settle(t *thread[C, S], joined func(C, S)) {
	kept := t.samples[:0]
	for i := range t.samples {
		s := &t.samples[i]
		r, counter := j.decide(t, s)
		if counter == nil {
			kept = append(kept, *s)
			continue
		}
		*counter++
		j.waiting--
		if r != nil {
			r.joined = true
			joined(r.call, s.sample)
		}
	}
	clear(t.samples[len(kept):])
	t.samples = kept
}

// decide finds the call of a sample, nil for none, and its count: nil if it is
// undecided yet.
func (j *Joiner[C, S]) decide(t *thread[C, S], s *sample[S]) (*record[C], *uint64) {
	if s.Time >= j.traceUntil-apart {
		return nil, nil
	}
	first, next := after(t.records, s.Time-1), after(t.records, s.Time)
	if next > first { // at the very time of the sample
		return j.same(t.records[first:next], s)
	}
	var before, after *record[C]
	if first > 0 {
		before = &t.records[first-1]
	}
	if next < len(t.records) && t.records[next].Time < j.traceUntil {
		after = &t.records[next]
	}
	in := j.opt.Order != PerfFirst && before != nil && !before.exit && !j.losses.between(before.Time, s.Time)
	comes := j.opt.Order != TraceFirst && after != nil && !after.exit && !j.losses.between(s.Time, after.Time)
	switch {
	case in && comes:
		return nil, &j.count.Unsure // it has no exit, though none was lost
	case in:
		return j.match(before, s)
	case comes:
		return j.match(after, s)
	case after == nil && j.opt.Order != TraceFirst && j.traceUntil-s.Time <= tracefs.Time(j.opt.Keep):
		return nil, nil
	case after != nil && j.losses.between(s.Time, after.Time), before != nil && j.losses.between(before.Time, s.Time),
		j.losses.between(s.Time, s.Time):
		return nil, &j.count.Lost
	}
	return nil, &j.count.Alone
}

// same decides about a sample with the time of records: it is of the one entry, if
// the exits on both sides of that have other times; else it is unsure.
func (j *Joiner[C, S]) same(records []record[C], s *sample[S]) (*record[C], *uint64) {
	switch {
	case len(records) != 1 || records[0].exit || j.opt.Order != ByExits:
		return nil, &j.count.Unsure
	case j.losses.between(s.Time, s.Time):
		return nil, &j.count.Lost
	}
	return j.match(&records[0], s)
}

// match checks that a sample is like its call.
func (j *Joiner[C, S]) match(r *record[C], s *sample[S]) (*record[C], *uint64) {
	known := func(a, b uint64) bool { return a != 0 && b != 0 }
	switch {
	case r.CPU != s.CPU, known(r.Tracepoint, s.Tracepoint) && r.Tracepoint != s.Tracepoint, known(r.IP, s.IP) && r.IP != s.IP:
		return nil, &j.count.Unlike
	case r.joined:
		return nil, &j.count.Unsure
	}
	return r, &j.count.Joined
}

// after returns the index of the first record after a time.
func after[C any](records []record[C], t tracefs.Time) int {
	i, _ := slices.BinarySearchFunc(records, t, func(r record[C], t tracefs.Time) int {
		if r.Time <= t {
			return -1
		}
		return 1
	})
	return i
}

// forget drops the records of a thread that no sample can belong to any more. The
// last one before all that is to come stays, unless it is old.
func (j *Joiner[C, S]) forget(t *thread[C, S], alone func(C)) {
	until := min(j.traceUntil, j.samplesUntil)
	if len(t.samples) > 0 {
		until = min(until, t.samples[0].Time)
	}
	n := after(t.records, until-1) - 1
	if len(t.samples) == 0 && n == len(t.records)-1 && n >= 0 && j.traceUntil-t.records[n].Time > tracefs.Time(j.opt.Keep) {
		n++
	}
	if n <= 0 {
		return
	}
	for i := range t.records[:n] {
		if r := &t.records[i]; !r.exit && !r.joined {
			alone(r.call)
		}
	}
	t.records = slices.Delete(t.records, 0, n)
}

// bound refuses the oldest samples, if too many wait.
func (j *Joiner[C, S]) bound() {
	if j.waiting <= j.opt.Most {
		return
	}
	var times []tracefs.Time
	for _, t := range j.threads {
		for i := range t.samples {
			times = append(times, t.samples[i].Time)
		}
	}
	slices.Sort(times)
	limit := times[len(times)-j.opt.Most/2-1]
	for _, t := range j.threads {
		n := len(t.samples)
		t.samples = slices.DeleteFunc(t.samples, func(s sample[S]) bool { return s.Time <= limit })
		j.waiting -= n - len(t.samples)
		j.count.Dropped += uint64(n - len(t.samples))
	}
}
