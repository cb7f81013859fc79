package join

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"

	"ustack/tracefs"
	"ustack/tracefs/capturetest"
)

// call is what a simulated thread does: the numbers of calls and samples are the same if
// they are of one hit.
type call int

// event is a record of one side.
type event struct {
	Head
	number  call
	exit    bool
	dropped bool
}

// world is what happened, and what was recorded of it.
type world struct {
	rnd       *rand.Rand
	perfFirst bool
	grain     int // of the clock
	moves     bool
	trace     []event // by CPU and time
	samples   []event
}

// newWorld lets some threads make calls.
func newWorld(rnd *rand.Rand) *world {
	w := &world{rnd: rnd, perfFirst: rnd.IntN(2) == 0, grain: 1, moves: rnd.IntN(2) == 0}
	if rnd.IntN(4) == 0 {
		w.grain = 40
	}
	number := call(0)
	cpus := 1 + rnd.IntN(4)
	for tid := range 1 + rnd.IntN(5) {
		t := rnd.IntN(1000)
		cpu := rnd.IntN(cpus)
		step := func(most int) int {
			t += 1 + rnd.IntN(most)
			return t / w.grain * w.grain
		}
		for range 100 {
			number++
			stamps := [2]int{step(300), 0}
			where := [2]int{cpu, cpu}
			if w.moves && rnd.IntN(50) == 0 {
				cpu = rnd.IntN(cpus)
				where[1] = cpu
			}
			stamps[1] = step(30)
			first, second := 0, 1
			if w.perfFirst {
				first, second = 1, 0
			}
			w.trace = append(w.trace, event{Head: Head{TID: tid, CPU: where[first], Time: tracefs.Time(stamps[first])}, number: number})
			if rnd.IntN(4) > 0 { // the others do not match the sampler's filter
				w.samples = append(w.samples, event{Head: Head{TID: tid, CPU: where[second], Time: tracefs.Time(stamps[second])}, number: number})
			}
			if w.moves && rnd.IntN(10) == 0 {
				cpu = rnd.IntN(cpus)
			}
			most := 100
			if rnd.IntN(10) == 0 {
				most = 20000 // it waits
			}
			w.trace = append(w.trace, event{Head: Head{TID: tid, CPU: cpu, Time: tracefs.Time(step(most))}, number: number, exit: true})
		}
	}
	// A stable sort: what a thread does at one time stays in order.
	byTime := func(a, b event) int { return cmp.Compare(a.Time, b.Time) }
	slices.SortStableFunc(w.trace, byTime)
	slices.SortStableFunc(w.samples, byTime)
	return w
}

// lose drops bursts of records of each CPU.
func (w *world) lose(list []event, one int) {
	left := make(map[int]int)
	for i := range list {
		cpu := list[i].CPU
		if left[cpu] == 0 && w.rnd.IntN(one) == 0 {
			left[cpu] = 1 + w.rnd.IntN(1+w.rnd.IntN(60))
		}
		if left[cpu] > 0 {
			left[cpu]--
			list[i].dropped = true
		}
	}
}

// result is what came of joining.
type result struct{ joined, alone, wrong int }

// join joins what was recorded, in pieces.
func (w *world) join(opt Options) (result, Counts) {
	var o result
	j := New[call, call](opt)
	joined := func(c, s call) {
		o.joined++
		if c != s {
			o.wrong++
		}
	}
	alone := func(call) { o.alone++ }
	trace, samples := w.trace, w.samples
	missing := make(map[int]bool)
	for until := tracefs.Time(0); len(trace) > 0 || len(samples) > 0; until += tracefs.Time(w.rnd.IntN(5000)) {
		for len(trace) > 0 && trace[0].Time < until {
			e := trace[0]
			trace = trace[1:]
			if e.dropped {
				missing[e.CPU] = true
				continue
			}
			if missing[e.CPU] {
				j.Lost(e.CPU)
				delete(missing, e.CPU)
			}
			switch {
			case e.exit && opt.Order == ByExits:
				j.Exit(e.Head)
			case e.exit:
				j.Saw(e.CPU, e.Time)
			default:
				j.Enter(e.Head, e.number)
			}
		}
		for cpu := range missing { // the reader has found nothing after it
			j.Lost(cpu)
		}
		late := until - tracefs.Time(w.rnd.IntN(3000))
		for len(samples) > 0 && samples[0].Time < late {
			if e := samples[0]; !e.dropped {
				j.Sample(e.Head, e.number)
			}
			samples = samples[1:]
		}
		j.Settle(until, late, joined, alone)
	}
	j.End(joined, alone)
	return o, j.Counts()
}

// TestJoin: with whatever losses on both sides no sample gets the call of another one,
// and without losses each gets its own.
func TestJoin(t *testing.T) {
	capturetest.SkipShort(t)
	var sum result
	var counts Counts
	all := 0
	for seed := range uint64(1000) {
		w := newWorld(rand.New(rand.NewPCG(seed, 7)))
		lossy := seed%5 > 0
		if lossy {
			w.lose(w.trace, 20+w.rnd.IntN(200))
			w.lose(w.samples, 20+w.rnd.IntN(200))
		}
		kept, calls := 0, 0
		for _, e := range w.samples {
			if !e.dropped {
				kept++
			}
		}
		for _, e := range w.trace {
			if !e.dropped && !e.exit {
				calls++
			}
		}
		known := TraceFirst
		if w.perfFirst {
			known = PerfFirst
		}
		for _, order := range []Order{ByExits, known} {
			o, c := w.join(Options{Order: order, Keep: 1 << 40})
			if o.wrong > 0 {
				t.Fatalf("seed %d, order %d: %d wrong pairs", seed, order, o.wrong)
			}
			if o.joined+o.alone != calls || c.Joined+c.Lost+c.Unlike+c.Alone+c.Unsure+c.Dropped != uint64(kept) || c.Joined != uint64(o.joined) {
				t.Fatalf("seed %d, order %d: of %d calls and %d samples %+v, %+v", seed, order, calls, kept, o, c)
			}
			if !lossy && w.grain == 1 && o.joined+int(c.Unlike) != len(w.samples) || !w.moves && c.Unlike > 0 {
				t.Fatalf("seed %d, order %d: of %d samples %+v", seed, order, len(w.samples), c)
			}
			if lossy && order == ByExits {
				all += kept
				sum.joined += o.joined
				counts.Lost, counts.Unsure, counts.Alone, counts.Unlike = counts.Lost+c.Lost, counts.Unsure+c.Unsure, counts.Alone+c.Alone, counts.Unlike+c.Unlike
			}
		}
	}
	t.Logf("with losses %d of %d samples joined, refused %+v", sum.joined, all, counts)
	if sum.joined < all/2 {
		t.Error("fewer than half of the samples are joined")
	}
}

// TestJoinSameAddress: a pair that is proven by its times must agree in the rest.
func TestJoinSameAddress(t *testing.T) {
	h := Head{TID: 1, CPU: 2, Time: 10e6, Tracepoint: 5, IP: 0x1000}
	for name, c := range map[string]struct {
		sample Head
		want   Counts
	}{
		"the same":           {h, Counts{Joined: 1}},
		"nothing known":      {Head{TID: 1, CPU: 2, Time: 10e6}, Counts{Joined: 1}},
		"another CPU":        {Head{TID: 1, CPU: 3, Time: 10e6}, Counts{Unlike: 1}},
		"another address":    {Head{TID: 1, CPU: 2, Time: 10e6, IP: 0x1001}, Counts{Unlike: 1}},
		"another tracepoint": {Head{TID: 1, CPU: 2, Time: 10e6, Tracepoint: 6}, Counts{Unlike: 1}},
		"another thread":     {Head{TID: 2, CPU: 2, Time: 10e6}, Counts{Alone: 1}},
	} {
		for _, shift := range []tracefs.Time{-1, 0, 1} {
			j := New[int, int](Options{})
			j.Enter(h, 1)
			s := c.sample
			s.Time += shift
			j.Sample(s, 1)
			j.End(func(int, int) {}, func(int) {})
			if j.Counts() != c.want {
				t.Errorf("%s, %+d ns: %+v", name, shift, j.Counts())
			}
		}
	}
}

// TestJoinContradiction: a call without an exit, of a thread whose number another one has
// now, gets no sample of that.
func TestJoinContradiction(t *testing.T) {
	j := New[int, int](Options{})
	j.Enter(Head{TID: 1, Time: 10e6}, 1)
	j.Sample(Head{TID: 1, Time: 30e6}, 2) // perf first
	j.Enter(Head{TID: 1, Time: 31e6}, 2)
	j.End(func(c, s int) { t.Errorf("call %d gets the sample %d", c, s) }, func(int) {})
	if c := j.Counts(); c.Unsure != 1 {
		t.Errorf("%+v", c)
	}
}

// TestJoinBounded: what waits for what never comes is given up.
func TestJoinBounded(t *testing.T) {
	j := New[int, int](Options{Keep: 100e6, Most: 100})
	alone := 0
	for i := range tracefs.Time(5000) {
		j.Enter(Head{TID: int(i), Time: i * 1e6}, 1)
		j.Sample(Head{TID: 100000 + int(i), Time: i * 1e6}, 1)
		j.Lost(int(i % 3))
		j.Saw(int(i%3), i*1e6)
		j.Settle(i*1e6, i*1e6, func(int, int) {}, func(int) { alone++ })
	}
	if len(j.threads) > 400 || len(j.losses.list) > 200 || j.waiting > 100 || alone < 4500 {
		t.Errorf("%d threads, %d losses, %d samples wait, %d calls alone", len(j.threads), len(j.losses.list), j.waiting, alone)
	}
	for i := range tracefs.Time(1000) {
		j.Sample(Head{TID: 7, Time: 5e9 + i}, 1)
	}
	j.Settle(5e9, 5e9, func(int, int) {}, func(int) { alone++ })
	if j.waiting > 100 || j.Counts().Dropped < 900 {
		t.Errorf("%d samples wait, %+v", j.waiting, j.Counts())
	}
}
