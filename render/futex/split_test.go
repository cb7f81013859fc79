package futex_test

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"ustack/render/futex"
	"ustack/tracefs"
	"ustack/tracefs/capturetest"
)

// truth is what owners did from a time to another, in nanoseconds, and how long a woken
// thread had not returned. barged is when the owner took the lock after the beginning.
func (m *machine) truth(l *mutex, from, to tracefs.Time) (did map[byte]tracefs.Time, handing tracefs.Time) {
	did = make(map[byte]tracefs.Time)
	for at := int(from/1000) - 1000; at < int(to/1000)-1000; at++ {
		if at < 0 || at >= m.now {
			continue
		}
		if l.handing[at] {
			handing += 1000
		}
		if w := l.owners[at]; w != nil {
			did[w.did[at]] += 1000
		}
	}
	return did, handing
}

// check compares how a wait was split with the truth. A tick's worth may be on the other
// side at each change.
func (m *machine) check(w *futex.Wait) error {
	s := w.Split
	if s == nil {
		return fmt.Errorf("it is not split")
	}
	if s.Whole() != w.Time || min(s.Ran, s.Runnable, s.Blocked, s.HandOver, s.Unknown) < 0 {
		return fmt.Errorf("%+v is not %d in all", s, w.Time)
	}
	did, handing := m.truth(m.locks[(w.Lock.Address-0x1000)/0x40], w.From, w.From+w.Time)
	var io, other tracefs.Time
	for _, b := range s.On {
		if b.What == futex.BlockedIO {
			io += b.Time
		} else {
			other += b.Time
		}
	}
	slack := tracefs.Time(2000) * m.changes(w)
	for _, x := range []struct {
		what      string
		got, most tracefs.Time
	}{{"ran", s.Ran, did['r']}, {"runnable", s.Runnable, did['q']}, {"in state D", io, did['D']}, {"asleep", other, did['S']}, {"handed over", s.HandOver, handing}} {
		if x.got > x.most+slack {
			return fmt.Errorf("%s for %d, it was %d: %+v, in truth %v", x.what, x.got, x.most, s, did)
		}
	}
	if s.Barged > s.Ran+s.Runnable+s.Blocked {
		return fmt.Errorf("barged for more than the lock was owned: %+v", s)
	}
	return nil
}

// changes is how often the owner or what it did changed during a wait.
func (m *machine) changes(w *futex.Wait) (n tracefs.Time) {
	l := m.locks[(w.Lock.Address-0x1000)/0x40]
	last := byte(0)
	for at := int(w.From/1000) - 1000; at < int((w.From+w.Time)/1000)-1000; at++ {
		if at < 0 || at >= m.now {
			continue
		}
		now := byte('-')
		if o := l.owners[at]; o != nil {
			now = o.did[at]
		}
		if now != last {
			n++
		}
		last = now
	}
	return n + 1
}

// TestSplitGenerated: for programs whose every step is known, the parts of each wait sum
// to it, nothing is claimed that was not so, and little is unknown.
func TestSplitGenerated(t *testing.T) {
	seeds := uint64(200)
	if capturetest.Brief() {
		seeds = 40
	}
	var all, unknown, barged tracefs.Time
	waits := 0
	for seed := range seeds {
		m := newMachine(seed, 1+int(seed%3), 3+int(seed%4), 1+int(seed%3))
		r := analyseText(t, futex.Options{}, m.run(6000)).Report(futex.View{})
		var sum tracefs.Time
		for _, w := range r.Longest {
			if err := m.check(w); err != nil {
				t.Fatalf("seed %d, thread %d from %d for %d at %#x: %v", seed, w.TID, w.From, w.Time, w.Lock.Address, err)
			}
			sum += w.Split.Unknown
			waits++
		}
		for _, l := range r.Locks {
			if l.Split.Whole() != l.Time {
				t.Fatalf("seed %d: %+v is not %d in all", seed, l.Split, l.Time)
			}
			all += l.Time
			unknown += l.Split.Unknown
			barged += l.Split.Barged
			sum -= l.Split.Unknown
		}
		if sum != 0 && len(r.Longest) < 100 {
			t.Errorf("seed %d: waits and locks differ by %d in what is unknown", seed, sum)
		}
	}
	t.Logf("%d waits, %d ns, %.1f %% unknown, %.1f %% barged", waits, all, 100*float64(unknown)/float64(all), 100*float64(barged)/float64(all))
	if waits < 1000 || unknown*100 > all {
		t.Errorf("%d of %d ns in %d waits are unknown", unknown, all, waits)
	}
}

// TestSplitLost: records that are lost make time unknown, and nothing wrong.
func TestSplitLost(t *testing.T) {
	rounds := 1000
	if capturetest.Brief() {
		rounds = 100
	}
	var all, unknown tracefs.Time
	for round := range rounds {
		rnd := rand.New(rand.NewPCG(uint64(round), 3))
		m := newMachine(uint64(round%20), 1+round%3, 3+round%4, 1+round%3)
		text := m.run(4000)
		r := analyseText(t, futex.Options{}, damage(textRecords(t, text), rnd)).Report(futex.View{})
		for _, w := range r.Longest {
			if w.Split == nil {
				continue
			}
			if err := m.check(w); err != nil {
				t.Fatalf("round %d, thread %d from %d for %d at %#x: %v", round, w.TID, w.From, w.Time, w.Lock.Address, err)
			}
			all += w.Time
			unknown += w.Split.Unknown
		}
	}
	t.Logf("%d ns, %.1f %% unknown", all, 100*float64(unknown)/float64(all))
	if all == 0 || unknown*10 > all*9 {
		t.Errorf("%d of %d ns are unknown", unknown, all)
	}
}

// TestSplitWithout: where the trace lacks events that were not lost, but not traced or
// filtered out, what depends on them is unknown.
func TestSplitWithout(t *testing.T) {
	for _, c := range []struct {
		without string // regular expression
		some    bool   // is known, besides hand-over
	}{{"sched_waking", true}, {"prev_state=R", false}, {"prev_pid=11 ", true}, {"next_pid=11 ", true}, {"sched_switch.*prev_pid=(0|1[^2]) ", true}, {"sched_switch.*next_pid=(0|1[^2]) ", true}, {"sched_switch", false}} {
		var sum futex.Split
		without := regexp.MustCompile(c.without)
		for seed := range uint64(40) {
			m := newMachine(seed, 1+int(seed%3), 3+int(seed%4), 1+int(seed%3))
			var text strings.Builder
			for line := range strings.Lines(m.run(6000)) {
				if !without.MatchString(line) {
					text.WriteString(line)
				}
			}
			for _, w := range analyseText(t, futex.Options{}, text.String()).Report(futex.View{}).Longest {
				if err := m.check(w); err != nil {
					t.Fatalf("without %s, seed %d, thread %d from %d for %d at %#x: %v", c.without, seed, w.TID, w.From, w.Time, w.Lock.Address, err)
				}
				sum.Ran += w.Split.Ran
				sum.Blocked += w.Split.Blocked
				sum.HandOver += w.Split.HandOver
				sum.Unknown += w.Split.Unknown
			}
		}
		if (sum.Ran+sum.Blocked > 0) != c.some || sum.HandOver == 0 || sum.Unknown == 0 {
			t.Errorf("without %s: %+v", c.without, sum)
		}
	}
}
