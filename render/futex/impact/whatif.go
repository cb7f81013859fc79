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
	unseen := p.unseen(changes)
	out := &Prediction{Recorded: p.length, Unseen: unseen}
	best := -1.0
	var all []tracefs.Time
	for _, how := range []policy{barging, fifo} {
		base := &sim{p: p, policy: how}
		took := base.run(1)
		if base.steps >= maxSteps {
			return nil, ErrTooMany
		}
		if took == 0 || !base.done() {
			continue
		}
		wrong := float64(took-p.length) / float64(p.length)
		for seed := range uint64(3) {
			for _, part := range []float64{1, 0} {
				s := changed(p, how, changes, part)
				if part == 0 { // a lock that is made into several may never be waited for
					for lock := range s.shards {
						s.removed[lock] = true
					}
				}
				t := s.run(seed + 1)
				if !s.done() {
					continue
				}
				scaled := tracefs.Time(float64(t) / float64(took) * float64(p.length))
				all = append(all, scaled, t)
				if e := max(wrong, -wrong); part == 1 && (best < 0 || e < best) {
					best = e
					out.Replayed, out.Error, out.Time = took, wrong, scaled
					out.Waits, out.Remain = sum(base.waited), sum(s.waited)
				}
			}
		}
	}
	if best < 0 {
		return nil, errHangs
	}
	wide := best + float64(p.unknown)/float64(max(p.busy, 1)) + noise
	out.Low = tracefs.Time(float64(min(slices.Min(all), out.Time)) * (1 - wide))
	out.High = tracefs.Time(float64(max(slices.Max(all), out.Time)) * (1 + wide))
	return out, nil
}

// noise is how far two runs of one program differ by themselves, and what a call takes
// that is halved on top of what it is for.
const noise = 0.06

func sum(m map[int32]tracefs.Time) (all tracefs.Time) {
	for _, t := range m {
		all += t
	}
	return all
}

// changed returns a replay with changes; part says how much of the time counts in which
// a thread may have held a lock without a trace.
func changed(p *program, how policy, changes map[int32]Change, part float64) *sim {
	s := &sim{p: p, policy: how, shards: make(map[int32]int), removed: make(map[int32]bool)}
	halved := make([]bool, len(p.sets))
	for lock, c := range changes {
		switch {
		case c.Remove:
			s.removed[lock] = true
		case c.Shards > 1:
			s.shards[lock] = c.Shards
		}
		for i, set := range p.sets {
			halved[i] = halved[i] || c.Halve && slices.Contains(set, lock)
		}
	}
	s.change = func(o *op) {
		switch {
		case o.kind > opDelay:
		case halved[o.in]:
			o.time /= 2
		case o.unseen > 0:
			o.time -= tracefs.Time(float64(o.time) * float64(o.unseen) * part / 2)
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
