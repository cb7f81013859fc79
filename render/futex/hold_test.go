package futex_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"

	"ustack/render/futex"
	"ustack/tracefs"
	"ustack/tracefs/capturetest"
)

var (
	lossPatterns = flag.Int("loss-patterns", 0, "how many patterns of loss TestHoldsLost looks at, 0 for some")
	holdPrograms = flag.Int("hold-programs", 0, "how many programs TestHoldsGenerated looks at, 0 for some")
)

// tenure returns in which ticks a thread owned a lock that it released by a call at a time:
// from one to before another.
func (m *machine) tenure(h *futex.Hold) (from, to int, l *mutex) {
	l = m.locks[(h.Lock.Address-0x1000)/0x40]
	owns := func(at int) bool { return l.owners[at] != nil && l.owners[at].tid == int(h.TID) }
	to = min(int(h.To/1000)-1000, m.now-1)
	for to >= 0 && !owns(to) {
		to--
	}
	for from = to; from >= 0 && owns(from); {
		from--
	}
	return from + 1, to + 1, l
}

// checkHold compares a hold with the truth.
func (m *machine) checkHold(h *futex.Hold) error {
	from, to, _ := m.tenure(h)
	if to <= from {
		return fmt.Errorf("the thread did not own the lock")
	}
	const tick, takes = tracefs.Time(1000), tracefs.Time(20_000)
	truth := tracefs.Time(to-from) * tick
	switch {
	case !h.Exact && h.Low > truth+2*tick || h.High >= 0 && truth > h.High+2*tick:
		return fmt.Errorf("it lasted %d, not %d to %d", truth, h.Low, h.High)
	case h.Exact && max(h.Low-truth, truth-h.Low) > 2*takes+2*tick:
		return fmt.Errorf("it lasted %d, not %d", truth, h.Low)
	case h.Exact && h.Low != h.High && h.High >= 0 || h.Low < 0 || h.High >= 0 && h.Low > h.High:
		return fmt.Errorf("its bounds are %d to %d", h.Low, h.High)
	case h.Did.Whole() != h.Low || min(h.Did.Ran, h.Did.Runnable, h.Did.Blocked, h.Did.Unknown) < 0:
		return fmt.Errorf("%+v is not %d in all", h.Did, h.Low)
	}
	return m.checkDid(h, from, to)
}

// checkDid compares what an owner did with the truth: no more of it than it did.
func (m *machine) checkDid(h *futex.Hold, from, to int) error {
	var w *worker
	for _, x := range m.threads {
		if x.tid == int(h.TID) {
			w = x
		}
	}
	did, changes := make(map[byte]tracefs.Time), tracefs.Time(1)
	nested := tracefs.Time(0)
	for at := max(from-1, 0); at < min(to+1, m.now); at++ {
		did[w.did[at]] += 1000
		if w.waits[at] != nil {
			nested += 1000
		}
		if at > 0 && w.did[at] != w.did[at-1] {
			changes++
		}
	}
	var io, futexes tracefs.Time
	for _, b := range h.Did.On {
		switch b.What {
		case futex.BlockedIO:
			io += b.Time
		case futex.BlockedFutex:
			futexes += b.Time
		}
	}
	slack := 2000 * changes
	if h.Exact {
		slack += 40_000 // it may not have taken it yet, or have released it
	}
	for _, x := range []struct {
		what      string
		got, most tracefs.Time
	}{{"ran", h.Did.Ran, did['r']}, {"runnable", h.Did.Runnable, did['q']}, {"in state D", io, did['D']}, {"at a futex", futexes, nested}, {"blocked", h.Did.Blocked, did['D'] + did['S']}} {
		if x.got > x.most+slack {
			return fmt.Errorf("%s for %d, it was %d: %+v", x.what, x.got, x.most, h.Did)
		}
	}
	return nil
}

// holdTotals are what is known of many holds.
type holdTotals struct {
	holds, exact, unbounded, lost int64
	low, high, truth              tracefs.Time
}

// checkHolds compares all holds of a report with the truth, and with the sums of locks.
func (m *machine) checkHolds(r *futex.Report, sum *holdTotals) error {
	var count, exact int64
	var total, low tracefs.Time
	for _, h := range r.LongHolds {
		if err := m.checkHold(h); err != nil {
			return fmt.Errorf("the hold of thread %d at %#x until %d, exact %v, waited %v, %d wait: %w", h.TID, h.Lock.Address, h.To, h.Exact, h.Waited, h.Waiters, err)
		}
		if from, to, _ := m.tenure(h); h.High >= 0 {
			sum.truth += tracefs.Time(to-from) * 1000
			sum.low += h.Low
			sum.high += h.High
		}
		if count++; h.Exact {
			exact++
			total += h.Low
		} else {
			low += h.Low
		}
	}
	for _, l := range r.Locks {
		s := l.Holds
		if s == nil {
			continue
		}
		if s.Did.Whole() != s.Total+s.Low || min(s.Did.Ran, s.Did.Runnable, s.Did.Blocked, s.Did.Unknown) < 0 {
			return fmt.Errorf("%+v is not %d and %d in all", s.Did, s.Total, s.Low)
		}
		count, exact, total, low = count-s.Count, exact-s.Exact, total-s.Total, low-s.Low
		sum.holds += s.Count
		sum.exact += s.Exact
		sum.unbounded += s.Unbounded
		sum.lost += s.Lost
	}
	if len(r.LongHolds) < 100 && (count != 0 || exact != 0 || total != 0 || low != 0) {
		return fmt.Errorf("single holds and the sums of locks differ by %d, %d, %d and %d", count, exact, total, low)
	}
	return nil
}

// TestHoldsGenerated: for programs whose every step is known, the bounds of each hold are
// right, and of most the length is known; also where threads are preempted just before
// they take a lock and just after they release it.
func TestHoldsGenerated(t *testing.T) {
	seeds := uint64(200)
	if capturetest.Brief() {
		seeds = 40
	}
	if *holdPrograms > 0 {
		seeds = uint64(*holdPrograms)
	}
	for _, late := range []bool{false, true} {
		var sum holdTotals
		for seed := range seeds {
			m := newMachine(seed, 1+int(seed%3), 3+int(seed%4), 1+int(seed%3))
			m.late, m.deep = late, seed%2 == 1
			if err := m.checkHolds(analyseText(t, futex.Options{}, m.run(6000)).Report(futex.View{}), &sum); err != nil {
				t.Fatalf("seed %d, late %v: %v", seed, late, err)
			}
		}
		t.Logf("late %v: %+v", late, sum)
		if sum.exact*10 < sum.holds*3 || sum.low*10 < sum.truth*7 || sum.lost > 0 {
			t.Errorf("late %v: too little is known: %+v", late, sum)
		}
	}
}

// TestHoldsLost: records that are lost make holds unknown, not wrong.
func TestHoldsLost(t *testing.T) {
	rounds := 1000
	if capturetest.Brief() {
		rounds = 100
	}
	if *lossPatterns > 0 {
		rounds = *lossPatterns
	}
	var sum holdTotals
	for round := range rounds {
		rnd := rand.New(rand.NewPCG(uint64(round), 3))
		m := newMachine(uint64(round), 1+round%3, 3+round%4, 1+round%3)
		m.late, m.deep = round%3 == 0, round%2 == 0
		text := m.run(4000)
		r := analyseText(t, futex.Options{}, damage(textRecords(t, text), rnd)).Report(futex.View{})
		if err := m.checkHolds(r, &sum); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
	}
	t.Logf("%+v", sum)
	if sum.holds == 0 || sum.lost == 0 || sum.exact == 0 {
		t.Errorf("%+v", sum)
	}
}
