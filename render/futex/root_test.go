package futex_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"ustack/render/futex"
	"ustack/tracefs"
	"ustack/tracefs/capturetest"
)

// planDeep has a thread take locks within each other.
func (m *machine) planDeep(w *worker) {
	w.next = []func(*worker){m.work(5 + m.rnd.IntN(200))}
	first := m.rnd.IntN(len(m.locks))
	last := first + m.rnd.IntN(len(m.locks)-first)
	for i := first; i <= last; i++ {
		w.next = append(w.next, m.lock(m.locks[i], false))
		m.inside(w)
	}
	for i := last; i >= first; i-- {
		w.next = append(w.next, m.unlock(m.locks[i]))
	}
}

// rootDid is what a thread did as a root.
type rootDid struct {
	tid int32
	did string
}

// rootTruth is who was waited for in the end during a wait, by ticks, how much of it was
// at the end of a chain, and how long that was.
func (m *machine) rootTruth(w *futex.Wait) (did map[rootDid]tracefs.Time, all, chained tracefs.Time, depth int) {
	did = make(map[rootDid]tracefs.Time)
	l := m.locks[(w.Lock.Address-0x1000)/0x40]
	for at := max(int(w.From/1000)-1000, 0); at < min(int((w.From+w.Time)/1000)-1000, m.now); at++ {
		o, n := l.owners[at], 0
		for o != nil && o.waits[at] != nil {
			o, n = o.waits[at].owners[at], n+1
		}
		if o == nil {
			continue
		}
		word := map[byte]string{'r': "ran", 'q': "runnable"}[o.did[at]]
		if word == "" {
			word = "blocked"
		}
		did[rootDid{int32(o.tid), word}] += 1000
		all += 1000
		if n > 0 {
			chained += 1000
		}
		depth = max(depth, n)
	}
	return did, all, chained, depth
}

// changesOfAll is how often any owner or any thread's doing changed during a wait.
func (m *machine) changesOfAll(w *futex.Wait) (n tracefs.Time) {
	for at := max(int(w.From/1000)-1000, 1); at < min(int((w.From+w.Time)/1000)-1000, m.now); at++ {
		for _, x := range m.threads {
			if x.did[at] != x.did[at-1] || x.waits[at] != x.waits[at-1] {
				n++
			}
		}
		for _, l := range m.locks {
			if l.owners[at] != l.owners[at-1] {
				n++
			}
		}
	}
	return n + 1
}

// checkRoots compares the roots of a wait with the truth.
func (m *machine) checkRoots(w *futex.Wait) error {
	s := w.Split
	sum := s.NoRoot + s.HandOver
	got := make(map[rootDid]tracefs.Time)
	for _, r := range s.Roots {
		sum += r.Time
		got[rootDid{r.TID, r.Did}] += r.Time
		if r.Time <= 0 || r.Chained > r.Time || r.Did == "blocked" && r.On.What == futex.BlockedFutex {
			return fmt.Errorf("a root is %+v", r)
		}
	}
	if sum != w.Time || s.NoRoot < 0 {
		return fmt.Errorf("%+v is not %d in all", s, w.Time)
	}
	did, _, _, _ := m.rootTruth(w)
	slack := min(tracefs.Time(2000)*m.changesOfAll(w), max(w.Time/20, 20000))
	for k, t := range got {
		if t > did[k]+slack {
			return fmt.Errorf("root %v for %d, in truth %v; %+v", k, t, did, s.Roots)
		}
	}
	return nil
}

// TestRootsGenerated: for programs whose every step is known, the roots of each wait are
// right, and few are unknown, with locks within locks.
func TestRootsGenerated(t *testing.T) {
	seeds := uint64(1000)
	if capturetest.Brief() {
		seeds = 200
	}
	var known, chained, all, allChained tracefs.Time
	deepest, waits := 0, 0
	for seed := range seeds {
		m := newMachine(seed, 1+int(seed%3), 4+int(seed%5), 2+int(seed%4))
		m.deep = true
		r := analyseText(t, futex.Options{}, m.run(6000)).Report(futex.View{})
		for _, w := range r.Longest {
			if w.Split == nil {
				continue
			}
			if err := m.checkRoots(w); err != nil {
				t.Fatalf("seed %d, thread %d from %d for %d at %#x: %v", seed, w.TID, w.From, w.Time, w.Lock.Address, err)
			}
			for _, x := range w.Split.Roots {
				known += x.Time
				chained += x.Chained
			}
			_, d, c, n := m.rootTruth(w)
			all, allChained, deepest, waits = all+d, allChained+c, max(deepest, n), waits+1
		}
	}
	t.Logf("%d waits: roots of %.1f %% of %d ns, %.1f %% of %d ns at the end of chains, up to %d locks", waits, 100*float64(known)/float64(all), all, 100*float64(chained)/float64(allChained), allChained, deepest)
	if known*100 < all*95 || deepest < 3 || chained*100 < allChained*80 {
		t.Errorf("of %d ns, %d at the end of chains, the roots of %d and %d are known", all, allChained, known, chained)
	}
}

// TestRootsLost: records that are lost make roots unknown, not wrong.
func TestRootsLost(t *testing.T) {
	rounds := 1000
	if capturetest.Brief() {
		rounds = 100
	}
	var all, known, chained tracefs.Time
	for round := range rounds {
		rnd := rand.New(rand.NewPCG(uint64(round), 3))
		m := newMachine(uint64(round%20), 1+round%3, 4+round%5, 2+round%4)
		m.deep = true
		text := m.run(4000)
		r := analyseText(t, futex.Options{}, damage(textRecords(t, text), rnd)).Report(futex.View{})
		for _, w := range r.Longest {
			if w.Split == nil {
				continue
			}
			if err := m.checkRoots(w); err != nil {
				t.Fatalf("round %d, thread %d from %d for %d at %#x: %v", round, w.TID, w.From, w.Time, w.Lock.Address, err)
			}
			all += w.Time
			for _, x := range w.Split.Roots {
				known += x.Time
				chained += x.Chained
			}
		}
	}
	t.Logf("%d ns, roots of %.1f %% known, %.1f %% chained", all, 100*float64(known)/float64(all), 100*float64(chained)/float64(all))
	if known*10 < all || chained == 0 {
		t.Errorf("of %d ns the roots of %d are known, %d at the end of chains", all, known, chained)
	}
}
