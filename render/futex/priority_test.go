package futex_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"ustack/render/futex"
	"ustack/tracefs"
)

// ending returns until when the waits of a thread have ended: what is waited for then is not
// over when the trace ends.
func (m *machine) ending(w *worker) int {
	at := m.now
	for at > 0 && w.waits[at-1] != nil && w.waits[at-1] == w.waits[m.now-1] {
		at--
	}
	return at
}

// inverted returns for how many ticks a thread waited for a lock that another one had, who
// was queued, and a third one ran where that had run last, until a tick.
func (m *machine) inverted(x *futex.Inversion, until int) (ticks, changes tracefs.Time) {
	waiter, owner, middle := m.worker(x.Waiter.TID), m.worker(x.Owner.TID), m.worker(x.Middle.TID)
	l := m.locks[(x.Lock.Address-0x1000)/0x40]
	was := false
	for at := range until {
		is := waiter.waits[at] == l && l.waitedFor(owner, at) && owner.did[at] == 'q' && middle.did[at] == 'r' && middle.lasts[at] == owner.lasts[at]
		if is {
			ticks++
		}
		if is != was {
			changes++
		}
		was = is
	}
	return ticks, changes
}

// checkInversions compares inversions with what threads did, and returns their time.
func (m *machine) checkInversions(r *futex.Report) (sum tracefs.Time, err error) {
	for i := range r.Inversions {
		x := &r.Inversions[i]
		for _, p := range []futex.Prioritized{x.Waiter, x.Owner, x.Middle} {
			if int(p.Prio) != m.prio(int(p.TID)) {
				return 0, fmt.Errorf("thread %d has priority %d: %+v", p.TID, m.prio(int(p.TID)), x)
			}
		}
		if x.Waiter.Prio >= x.Middle.Prio || x.Middle.Prio >= x.Owner.Prio || x.Middle.Prio >= 100 || x.Waits < 1 {
			return 0, fmt.Errorf("%+v is none", x)
		}
		if ticks, changes := m.inverted(x, m.now); x.Time <= 0 || x.Time > 1000*(ticks+2*(changes+tracefs.Time(x.Waits))) {
			return 0, fmt.Errorf("%d us, in truth %d: %+v", x.Time/1000, ticks, x)
		}
		sum += x.Time
	}
	return sum, nil
}

// invertedInAll is how long all inversions of waits that have ended are in truth: before that
// the owner of a lock is mostly unknown.
func (m *machine) invertedInAll() (sum tracefs.Time) {
	for i := range m.locks {
		for _, w := range m.threads {
			for _, o := range m.threads {
				for _, mid := range m.threads {
					if w.priority() < mid.priority() && mid.priority() < min(o.priority(), 100) {
						x := futex.Inversion{Lock: &futex.Lock{Address: uint64(0x1000 + 0x40*i)}, Waiter: futex.Prioritized{TID: int32(w.tid)},
							Owner: futex.Prioritized{TID: int32(o.tid)}, Middle: futex.Prioritized{TID: int32(mid.tid)}}
						ticks, _ := m.inverted(&x, m.ending(w))
						sum += 1000 * ticks
					}
				}
			}
		}
	}
	return sum
}

// rankedMachine makes a program some of whose threads have priorities of real time.
func rankedMachine(seed uint64) *machine {
	m := newMachine(seed, 1+int(seed%2), 5+int(seed%3), 1+int(seed%3))
	m.late = seed%3 == 0
	for i, prio := range []int{40, 60, 60, 98} {
		if m.rnd.IntN(5) > 0 {
			m.threads[i].prio = prio
		}
	}
	return m
}

// TestInversionsGenerated: for programs whose every step is known, all that is said of
// inversions is so, and three quarters of it are found.
func TestInversionsGenerated(t *testing.T) {
	var got, all tracefs.Time
	for seed := range chainCount(t, 200) {
		m := rankedMachine(seed)
		sum, err := m.checkInversions(analyseText(t, futex.Options{}, m.run(6000)).Report(futex.View{}))
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		got, all = got+sum, all+m.invertedInAll()
	}
	t.Logf("%d of %d us", got/1000, all/1000)
	if got*4 < all*3 {
		t.Errorf("%d of %d us are found", got/1000, all/1000)
	}
}

// TestInversionsLost: records that are lost make inversions unknown.
func TestInversionsLost(t *testing.T) {
	var got tracefs.Time
	for round := range chainCount(t, 300) {
		m := rankedMachine(round)
		text := m.run(4000)
		sum, err := m.checkInversions(analyseText(t, futex.Options{}, damage(textRecords(t, text), rand.New(rand.NewPCG(round, 13)))).Report(futex.View{}))
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		got += sum
	}
	t.Logf("%d us", got/1000)
	if got == 0 {
		t.Error("none is found")
	}
}
