package futex_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"ustack/render/futex"
	"ustack/tracefs"
	"ustack/tracefs/capturetest"
)

var chainPrograms = flag.Int("chain-programs", 0, "how many programs, and patterns of loss, TestChains looks at, 0 for some")

// worker returns a thread by its number.
func (m *machine) worker(tid int32) *worker { return m.threads[tid-10] }

// waitedFor reports whether a thread that waits for a lock at a tick waits for another one: it
// owns the lock, or is about to take it or to call for others to be woken.
func (l *mutex) waitedFor(w *worker, at int) bool {
	return l.owners[at] == w || slices.Contains(l.betweens[at], w)
}

// isStep reports whether a step is right at a tick.
func (m *machine) isStep(l *mutex, s *futex.Step, at int) bool {
	for i := range s.Owners {
		w := m.worker(s.Owners[i].TID)
		if !l.waitedFor(w, at) {
			return false
		}
		if next := w.waits[at]; i < len(s.Owners)-1 {
			if next == nil || uint64(m.addr(next)) != s.Owners[i].On.Address {
				return false
			}
			l = next
			continue
		}
		if w.waits[at] != nil {
			return false
		}
		return s.Did == map[byte]string{'r': "ran", 'q': "runnable", 'S': "blocked", 'D': "blocked"}[w.did[at]]
	}
	return false
}

// stepSums are how much of waits is known.
type stepSums struct {
	waits, steps, deepest int
	all, known, chained   tracefs.Time
}

// checkSteps compares each step of a wait with the truth: it is right at each tick, but for one
// at its ends. The steps are those of the roots.
func (m *machine) checkSteps(w *futex.Wait, sum *stepSums) error {
	const clock = 2 // ticks at a change
	l := m.locks[(w.Lock.Address-0x1000)/0x40]

	last, roots := w.From, tracefs.Time(0)
	for i := range w.Steps {
		s := &w.Steps[i]
		if s.From < last || s.To <= s.From || s.To > w.From+w.Time {
			return fmt.Errorf("the step from %d to %d is after %d", s.From, s.To, last)
		}
		for at := tick(s.From) + clock; at < min(tick(s.To)-clock, m.now); at++ {
			if !m.isStep(l, s, at) {
				return fmt.Errorf("the step from %d to %d is wrong at %d: %+v", s.From, s.To, at+1000, s)
			}
		}
		last = s.To
		roots += s.To - s.From
		sum.known += s.To - s.From
		sum.steps++
		if n := len(s.Owners); n > 1 {
			sum.chained += s.To - s.From
			sum.deepest = max(sum.deepest, n-1)
		}
	}
	sum.waits++
	sum.all += w.Time - w.Split.HandOver
	for _, r := range w.Split.Roots {
		roots -= r.Time
	}
	if roots > 0 || roots < 0 && len(w.Steps) < 16 { // there are steps of the first ones only
		return fmt.Errorf("steps and roots differ by %d", roots)
	}
	return nil
}

// checkChains compares the chains of a report with its waits, if it has all of these.
func checkChains(r *futex.Report) error {
	var chained, roots, deep tracefs.Time
	for _, c := range r.Chains {
		var sum tracefs.Time
		for _, x := range c.Roots {
			sum += x.Time
		}
		if sum != c.Time || c.Waits < 1 || len(c.On) < 1 {
			return fmt.Errorf("the roots of %+v sum to %d", c, sum)
		}
		chained += c.Time
	}
	for _, x := range r.Roots {
		roots += x.Time
		deep += x.Chained
	}
	var want tracefs.Time
	for _, l := range r.Locks {
		if l.Split != nil {
			want += l.Time - l.Split.HandOver
		}
	}
	if chained != deep || roots+r.NoRoot != want {
		return fmt.Errorf("chains take %d, roots %d, of which %d at the end of chains, and %d unknown, of %d", chained, roots, deep, r.NoRoot, want)
	}
	return nil
}

// checkAll checks a report.
func (m *machine) checkAll(r *futex.Report, sum *stepSums) error {
	for _, w := range r.Longest {
		if w.Split == nil {
			continue
		}
		if err := m.checkSteps(w, sum); err != nil {
			return fmt.Errorf("thread %d from %d for %d at %#x: %w", w.TID, w.From, w.Time, w.Lock.Address, err)
		}
	}
	return checkChains(r)
}

func chainCount(t *testing.T, many int) uint64 {
	t.Helper()
	switch {
	case *chainPrograms > 0:
		return uint64(*chainPrograms)
	case capturetest.Brief():
		return uint64(many / 10)
	}
	return uint64(many)
}

// TestChainsGenerated: for programs whose every step is known, all that is said of who was
// waited for at each time of each wait is so, also where threads are preempted just before
// they take a lock and just after they release it; and little is unknown.
func TestChainsGenerated(t *testing.T) {
	for _, late := range []bool{false, true} {
		var sum stepSums
		for seed := range chainCount(t, 200) {
			m := newMachine(seed, 1+int(seed%3), 4+int(seed%5), 2+int(seed%4))
			m.deep, m.late = true, late
			if err := m.checkAll(analyseText(t, futex.Options{}, m.run(6000)).Report(futex.View{}), &sum); err != nil {
				t.Fatalf("seed %d, late %v: %v", seed, late, err)
			}
		}
		t.Logf("late %v: %+v", late, sum)
		if sum.known*100 < sum.all*90 || sum.chained == 0 {
			t.Errorf("late %v: too little is known: %+v", late, sum)
		}
	}
}

// TestChainsLost: records that are lost make it unknown who was waited for, not wrong.
func TestChainsLost(t *testing.T) {
	var sum stepSums
	for round := range chainCount(t, 600) {
		rnd := rand.New(rand.NewPCG(round, 5))
		m := newMachine(round, 1+int(round%3), 4+int(round%5), 2+int(round%4))
		m.deep, m.late = true, round%2 == 0
		text := m.run(4000)
		if err := m.checkAll(analyseText(t, futex.Options{}, damage(textRecords(t, text), rnd)).Report(futex.View{}), &sum); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
	}
	t.Logf("%+v", sum)
	if sum.known == 0 || sum.chained == 0 {
		t.Errorf("%+v", sum)
	}
}
