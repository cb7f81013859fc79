package impact

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"ustack/tracefs"
	"ustack/tracefs/sorting"
)

// Change is what is done to a lock.
type Change struct {
	Lock   string // as the user names it
	Shards int    // 0 for none
	Halve  bool
	Remove bool
}

// ParseChange understands LOCK=halve, LOCK=shard:N and LOCK=remove.
func ParseChange(text string) (c Change, err error) {
	at := strings.LastIndexByte(text, '=')
	if at < 1 {
		return c, fmt.Errorf("%q is not LOCK=halve, LOCK=shard:N or LOCK=remove", text)
	}
	c.Lock = text[:at]
	how := text[at+1:]
	n, shards := strings.CutPrefix(how, "shard:")
	switch {
	case how == "halve":
		c.Halve = true
	case how == "remove":
		c.Remove = true
	case shards:
		if c.Shards, err = strconv.Atoi(n); err == nil && c.Shards >= 2 && c.Shards <= maxShards {
			return c, nil
		}
		return c, fmt.Errorf("%q is not a number of locks from 2 to %d", n, maxShards)
	default:
		return c, fmt.Errorf("%q is not halve, shard:N or remove", how)
	}
	return c, nil
}

const maxShards = 1 << 16

// String returns the change as the user said it.
func (c Change) String() string {
	switch {
	case c.Halve:
		return c.Lock + "=halve"
	case c.Remove:
		return c.Lock + "=remove"
	}
	return fmt.Sprintf("%s=shard:%d", c.Lock, c.Shards)
}

// Prediction is what a program would do with a change. Times are in the trace's unit.
type Prediction struct {
	Recorded tracefs.Time
	// Replayed is how long a replay without change takes: Error is how far that is from
	// Recorded, as a part of it.
	Replayed tracefs.Time
	Error    float64
	// Time is the prediction, which is surely enough from Low to High.
	Time, Low, High tracefs.Time
	// Waits is how long threads wait for locks in the replay without the change, Remain
	// with it.
	Waits, Remain tracefs.Time
	// Unseen is the part of the threads' time in which they may hold the lock without a
	// trace of it.
	Unseen float64
	// Scatter is how far runs of the program differ by themselves, as the parts of this one
	// do: two standard deviations, as a part of its time.
	Scatter float64
}

// ErrTooMany means that a trace has more than a replay takes.
var ErrTooMany = errors.New("the trace has more than a replay takes: --from and --to select a part")

// errHangs: see sim.done.
var errHangs = errors.New("a replay hangs: the trace does not have enough of who held which lock when")

// Predict replays the activity between two places, see Find, with changes to locks, by
// their numbers in the Log.
func Predict(l *Log, from, to string, isLock func(int32) bool, changes map[int32]Change) (*Prediction, error) {
	a := read(l, isLock)
	if !a.switches {
		return nil, ErrNoSwitches
	}
	start, _, err := l.place(from, a.start, a.start)
	if err != nil {
		return nil, err
	}
	end, _, err := l.place(to, start, a.end)
	if err != nil {
		return nil, err
	}
	p := a.program(start, end)
	out := &Prediction{Recorded: p.length, Unseen: p.unseen(changes)}
	r := replays{p: p, changes: changes, out: out, best: -1}
	for _, how := range []policy{barging, fifo} {
		if err := r.with(how); err != nil {
			return nil, err
		}
	}
	if r.best < 0 {
		return nil, errHangs
	}
	out.Scatter = a.scatter(start, end)
	wide := r.best + float64(p.unknown)/float64(max(p.busy, 1)) + out.Scatter + tracing
	out.Low = tracefs.Time(float64(min(slices.Min(r.all), out.Time)) * (1 - min(wide, 1)))
	out.High = tracefs.Time(float64(max(slices.Max(r.all), out.Time)) * (1 + wide))
	return out, nil
}

// replays are those of a program with changes.
type replays struct {
	p       *program
	changes map[int32]Change
	out     *Prediction
	best    float64 // how far the replay without change is off that out is of, -1 for none
	all     []tracefs.Time
}

// assumed is what a replay assumes of what the trace does not say.
type assumed struct {
	seed   uint64
	unseen float64 // part of the time that counts in which a thread may have held a lock without a trace
	late   float64 // how much of the recorded waiting for others' CPUs there is
}

// likely is what the prediction is of, the others are for its bounds: other keys; no holds
// without a trace; no waiting for a CPU that others had, or twice as much.
var likely = assumed{1, 1, 1}

func assumptions(changes map[int32]Change) []assumed {
	list := []assumed{likely, {1, 0, 1}, {1, 1, 0}, {1, 1, 2}}
	for _, c := range changes {
		if c.Shards > 1 { // else there are no keys
			return append(list, assumed{2, 1, 1}, assumed{3, 1, 1})
		}
	}
	return list
}

// with replays with one policy.
func (r *replays) with(how policy) error {
	base := &sim{p: r.p, policy: how}
	took := base.run(1)
	if base.steps >= maxSteps {
		return ErrTooMany
	}
	if took == 0 || !base.done() {
		return nil
	}
	wrong := float64(took-r.p.length) / float64(r.p.length)
	for _, as := range assumptions(r.changes) {
		s := changed(r.p, how, r.changes, as)
		t := s.run(as.seed)
		if !s.done() {
			continue
		}
		scaled := tracefs.Time(float64(t) / float64(took) * float64(r.p.length))
		r.all = append(r.all, scaled, t)
		if e := max(wrong, -wrong); as == likely && (r.best < 0 || e < r.best) {
			r.best = e
			r.out.Replayed, r.out.Error, r.out.Time = took, wrong, scaled
			r.out.Waits, r.out.Remain = sum(base.waited), sum(s.waited)
		}
	}
	return nil
}

func sum(m map[int32]tracefs.Time) (all tracefs.Time) {
	for _, t := range m {
		all += t
	}
	return all
}

// changed returns a replay with changes.
func changed(p *program, how policy, changes map[int32]Change, as assumed) *sim {
	s := &sim{p: p, policy: how, shards: make(map[int32]int), removed: make(map[int32]bool)}
	halved := make([]bool, len(p.sets))
	for lock, c := range changes {
		switch {
		case c.Remove, c.Shards > 1 && as.unseen == 0: // a lock that is made into several may never be waited for
			s.removed[lock] = true
		case c.Shards > 1:
			s.shards[lock] = c.Shards
		}
		for i, set := range p.sets {
			halved[i] = halved[i] || c.Halve && slices.Contains(set, lock)
		}
	}
	s.change = func(o *op) {
		o.time += tracefs.Time(float64(o.late) * (as.late - 1))
		switch {
		case o.kind > opDelay:
		case halved[o.in]:
			o.time /= 2
		case o.unseen > 0:
			o.time -= tracefs.Time(float64(o.time) * float64(o.unseen) * as.unseen / 2)
		}
	}
	return s
}

// unseen finds where threads may hold a lock that is halved without a trace: a time
// between two holds that is much longer than others has perhaps others in it. It returns
// their part of all time.
func (p *program) unseen(changes map[int32]Change) float64 {
	var all tracefs.Time
	for lock, c := range changes {
		if c.Halve {
			for _, ops := range p.threads {
				all += p.unseenIn(ops, lock)
			}
		}
	}
	return float64(all) / float64(max(p.busy, 1))
}

// stretch is a part of a thread's operations between two holds.
type stretch struct {
	from, to int
	time     tracefs.Time
}

func (p *program) unseenIn(ops []op, lock int32) (all tracefs.Time) {
	var between []stretch
	var holds []tracefs.Time
	since, held, got := -1, tracefs.Time(0), false
	var gap tracefs.Time
	for i := range ops {
		switch o := &ops[i]; {
		case o.kind == opAcquire && o.arg == lock:
			if since >= 0 {
				between = append(between, stretch{since, i, gap})
			}
			got, held = true, 0
		case o.kind == opRelease && o.arg == lock && got:
			holds = append(holds, held)
			since, gap, got = i, 0, false
		case o.kind <= opDelay && got:
			held += o.time
		case o.kind <= opDelay:
			gap += o.time
		}
	}
	if len(between) < 4 {
		return 0
	}
	slices.Sort(holds)
	hold := holds[len(holds)/2]
	sorted := slices.Clone(between)
	sorting.Func(sorted, func(x, y stretch) int { return cmp.Compare(x.time, y.time) })
	one := sorted[len(sorted)/5].time
	for _, s := range between {
		n := (s.time + hold) / max(one+hold, 1)
		if n < 2 || s.time < one*3/2 {
			continue
		}
		part := min(float64((n-1)*hold)/float64(s.time), 1)
		for i := s.from; i < s.to; i++ {
			if ops[i].kind <= opDelay && ops[i].in == 0 {
				ops[i].unseen = float32(part)
				all += tracefs.Time(part * float64(ops[i].time))
			}
		}
	}
	return all
}
