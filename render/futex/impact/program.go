package impact

import (
	"cmp"
	"slices"

	"ustack/tracefs"
	"ustack/tracefs/sorting"
)

// opKind is what a thread does in a replay.
type opKind uint8

const (
	opCompute opKind = iota // needs a CPU for a time
	opDelay                 // does not
	opAcquire               // lock arg; time passes if it had to wait
	opRelease
	opAwait // event arg, as opAcquire
	opSignal
)

// op is one of them. in are the locks that it is done under, as an index in
// program.sets; unseen is the part of it in which the thread can have held lock of
// without a trace. late is the part of its time in which the thread waited for a CPU
// though none of the program's threads had it: other programs did, or it was slow to wake.
type op struct {
	time   tracefs.Time
	late   tracefs.Time
	arg    int32
	kind   opKind
	in     int32
	unseen float32
}

// program is what a replay runs.
type program struct {
	threads [][]op
	sets    [][]int32
	cpus    int
	events  int
	length  tracefs.Time // as recorded
	unknown tracefs.Time // of the threads, all together
	busy    tracefs.Time // and all of their time
}

// mark is a point in a thread's time at which it does something.
type mark struct {
	at  tracefs.Time
	end tracefs.Time // of a wait; what the thread does meanwhile is left out
	op  op
}

// program makes one of the activity between two times.
func (a *activity) program(from, to tracefs.Time) *program {
	p := &program{cpus: max(a.cpus, 1), length: to - from, sets: [][]int32{nil}}
	idle := a.idle()
	marks := make(map[int32][]mark)
	for _, th := range a.order {
		if len(th.calls) > 0 {
			marks[th.tid] = a.marks(th, from, to)
		}
	}
	for _, th := range a.order {
		if len(th.calls) > 0 {
			a.awaits(p, th, marks, from, to, idle)
		}
	}
	for _, th := range a.order {
		if len(th.calls) > 0 {
			p.threads = append(p.threads, p.ops(th, marks[th.tid], from, to, idle))
		}
	}
	return p
}

// marks lists a thread's uses of locks.
func (a *activity) marks(th *thread, from, to tracefs.Time) (list []mark) {
	for i := range th.holds {
		h := &th.holds[i]
		if h.asked < from || h.released > to {
			continue
		}
		list = append(list, mark{at: h.asked, end: h.got, op: op{kind: opAcquire, arg: h.lock}},
			mark{at: h.released, op: op{kind: opRelease, arg: h.lock}})
	}
	return list
}

// awaits adds what a thread waited for that is no lock: each ends by an event of its
// waker.
func (a *activity) awaits(p *program, th *thread, marks map[int32][]mark, from, to tracefs.Time, idle *idle) {
	for i := range th.list {
		s := th.segment(i)
		if s.state != blocked || s.from < from || s.to > to || th.waitsForHold(&s) {
			continue
		}
		waker := a.threads[s.waker]
		if waker == nil || len(waker.calls) == 0 {
			continue
		}
		end, late := s.to, tracefs.Time(0)
		if i+1 < len(th.list) && th.list[i+1].state() == runnable {
			end = th.segment(i + 1).to
			late = idle.between(s.to, end)
		}
		e := int32(p.events)
		p.events++
		marks[th.tid] = append(marks[th.tid], mark{at: s.from, end: end, op: op{kind: opAwait, arg: e, time: late, late: late}})
		marks[s.waker] = append(marks[s.waker], mark{at: s.to, op: op{kind: opSignal, arg: e}})
	}
}

// waitsForHold reports whether a thread waits for a lock meanwhile, and gets it.
func (th *thread) waitsForHold(s *segment) bool {
	if s.lock < 0 {
		return false
	}
	n, _ := slices.BinarySearchFunc(th.holds, s.to, func(h hold, t tracefs.Time) int { return cmp.Compare(h.released, t) })
	for k := n; k < min(n+maxNesting, len(th.holds)); k++ {
		if h := &th.holds[k]; h.waited && h.asked <= s.from && s.to <= h.got {
			return true
		}
	}
	return false
}

// ops makes a thread's operations.
func (p *program) ops(th *thread, marks []mark, from, to tracefs.Time, idle *idle) (ops []op) {
	sorting.StableFunc(marks, func(x, y mark) int { return cmp.Compare(x.at, y.at) })
	if len(th.list) == 0 {
		return nil
	}
	at := max(from, th.list[0].from)
	if at > from {
		ops = append(ops, op{kind: opDelay, time: at - from})
	}
	var held []int32
	set := int32(0)
	for i := range marks {
		m := &marks[i]
		ops = p.spend(ops, th, at, m.at, set, idle)
		at = max(at, m.at)
		o := m.op
		o.in = set
		if o.kind == opAcquire {
			if m.end > m.at {
				o.time = th.late(m.end, idle)
				o.late = o.time
			}
			held = append(held, o.arg)
		}
		if o.kind == opRelease {
			if k := slices.Index(held, o.arg); k >= 0 {
				held = slices.Delete(held, k, k+1)
			}
		}
		if o.kind == opAcquire || o.kind == opRelease {
			set = p.set(held)
		}
		ops = append(ops, o)
		at = max(at, m.end)
	}
	end := to
	if th.ended {
		end = min(to, th.list[len(th.list)-1].from)
	}
	return p.spend(ops, th, at, end, set, idle)
}

// set returns the number of a set of locks.
func (p *program) set(held []int32) int32 {
	for i, s := range p.sets {
		if slices.Equal(s, held) {
			return int32(i)
		}
	}
	if len(p.sets) >= maxSets {
		return 0
	}
	p.sets = append(p.sets, slices.Clone(held))
	return int32(len(p.sets) - 1)
}

const maxSets = 64

// late is how long a thread that gets a lock at a time was runnable before, though a CPU
// was idle or others had it.
func (th *thread) late(t tracefs.Time, idle *idle) tracefs.Time {
	i := th.at(t)
	for ; i >= 0 && th.list[i].state() == running; i-- {
	}
	if i >= 0 && th.list[i].state() == runnable {
		s := th.segment(i)
		return idle.between(s.from, s.to)
	}
	return 0
}

// spend adds what a thread does between two times.
func (p *program) spend(ops []op, th *thread, from, to tracefs.Time, set int32, idle *idle) []op {
	if from >= to {
		return ops
	}
	for i := max(th.at(from+1), 0); i < len(th.list) && th.list[i].from < to; i++ {
		s := th.segment(i)
		d := min(s.to, to) - max(s.from, from)
		if d <= 0 {
			continue
		}
		o := op{kind: opDelay, time: d, in: set}
		p.busy += d
		switch s.state {
		case running:
			o.kind = opCompute
		case runnable:
			o.time = idle.between(max(s.from, from), min(s.to, to))
			o.late = o.time
		case unknown:
			p.unknown += d
		}
		if n := len(ops) - 1; n >= 0 && ops[n].kind == o.kind && ops[n].in == set && o.kind <= opDelay {
			ops[n].time += o.time
			ops[n].late += o.late
		} else if o.time > 0 {
			ops = append(ops, o)
		}
	}
	return ops
}

// idle knows when fewer threads of the program ran than there are CPUs: a thread that was
// runnable then waited for others, or for the kernel.
type idle struct {
	at  []tracefs.Time
	sum []tracefs.Time // of such time before
	few []bool
}

// idle adds up when there was a CPU to be had.
func (a *activity) idle() *idle {
	type change struct {
		at tracefs.Time
		by int
	}
	var all []change
	for _, th := range a.order {
		if len(th.calls) == 0 {
			continue
		}
		for i := range th.list {
			if s := th.segment(i); s.state == running && s.to > s.from {
				all = append(all, change{s.from, 1}, change{s.to, -1})
			}
		}
	}
	sorting.Func(all, func(x, y change) int { return cmp.Or(cmp.Compare(x.at, y.at), cmp.Compare(x.by, y.by)) })
	d := &idle{at: []tracefs.Time{0}, sum: []tracefs.Time{0}, few: []bool{true}}
	n := 0
	for _, c := range all {
		last := len(d.at) - 1
		sum := d.sum[last]
		if d.few[last] {
			sum += c.at - d.at[last]
		}
		n += c.by
		d.at, d.sum, d.few = append(d.at, c.at), append(d.sum, sum), append(d.few, n < a.cpus)
	}
	return d
}

func (d *idle) before(t tracefs.Time) tracefs.Time {
	n, _ := slices.BinarySearch(d.at, t+1)
	n = max(n-1, 0)
	if d.few[n] {
		return d.sum[n] + t - d.at[n]
	}
	return d.sum[n]
}

func (d *idle) between(from, to tracefs.Time) tracefs.Time { return d.before(to) - d.before(from) }
