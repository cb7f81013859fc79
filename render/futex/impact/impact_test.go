package impact

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"

	"ustack/tracefs"
)

// lockProgram is a program of which the truth is known: threads that take one lock, hold
// it for a time, and do other things, each on a CPU of its own.
type lockProgram struct {
	threads, rounds int
	hold, out       []tracefs.Time // of each round of each thread
	free            bool           // the lock is left out
}

// run schedules the program, first come first served, and writes its log, which may be
// nil. It returns how long it takes, and how long threads wait.
func (p *lockProgram) run(l *Log) (took, waited tracefs.Time) {
	at := make([]tracefs.Time, p.threads)
	round := make([]int, p.threads)
	var free tracefs.Time
	var entries []entry
	last := int32(0)
	marked := make(map[tracefs.Time]int32)
	for {
		next := -1
		for i := range at {
			if round[i] < p.rounds && (next < 0 || at[i] < at[next]) {
				next = i
			}
		}
		if next < 0 {
			break
		}
		k, tid, t := next*p.rounds+round[next], int32(next+1), at[next]
		got := t
		if !p.free && free > t {
			marked[free] = last // it has to wake others, as after a wait of its own
			got = free
			waited += got - t
			cpu := int16(next)
			entries = append(entries, entry{at: t, kind: waits, a: tid, b: 7}, entry{at: t, kind: switched, cpu: cpu, a: tid, state: 'S'},
				entry{at: got, kind: waking, a: last, b: tid},
				entry{at: got, kind: switched, cpu: cpu, b: tid}, entry{at: got, kind: returns, a: tid, b: 1})
		}
		if free, last = got+p.hold[k], tid; got > t {
			marked[free] = tid
		}
		at[next] = free + p.out[k]
		round[next]++
		took = max(took, at[next])
	}
	for at, tid := range marked {
		entries = append(entries, entry{at: at, kind: wakes, a: tid, b: 7})
	}
	if l == nil {
		return took, waited
	}
	for i := range at {
		entries = append(entries, entry{at: at[i], kind: switched, cpu: int16(i), a: int32(i + 1), state: 'X'})
		l.Switch(0, int32(i), 0, 'R', int32(i+1))
	}
	slices.SortStableFunc(entries, func(x, y entry) int { return cmp.Or(cmp.Compare(x.at, y.at), order(&x)-order(&y)) })
	for _, e := range entries {
		l.add(e)
	}
	return took, waited
}

// order puts events of one time into the order in which they can happen.
func order(e *entry) int {
	return map[kind]int{waits: -4, switched: 0, wakes: -2, waking: -1, returns: 1}[e.kind]
}

// randomProgram makes a program that waits for its lock a lot.
func randomProgram(r *rand.Rand) *lockProgram {
	p := &lockProgram{threads: 2 + r.IntN(4), rounds: 50 + r.IntN(100)}
	hold, out := 100+r.Int64N(1000), 100+r.Int64N(2000)
	for range p.threads * p.rounds {
		p.hold = append(p.hold, tracefs.Time(1000*hold*(50+r.Int64N(100))/100))
		p.out = append(p.out, tracefs.Time(1000*out*(50+r.Int64N(100))/100))
	}
	return p
}

func isLock(n int32) bool { return n == 7 }

// TestPath: the parts of the path are its length, and a lock that is always taken is all
// of it.
func TestPath(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		p, l := randomProgram(r), NewLog(0)
		took, _ := p.run(l)
		path, err := Find(l, "", "", isLock)
		if err != nil {
			t.Fatal(err)
		}
		if path.To-path.From != took || path.Running+path.Runnable+path.Blocked+path.Unknown != took {
			t.Fatalf("%+v is not %d", path, took)
		}
		var lock tracefs.Time
		for _, l := range path.Locks {
			lock += l.Time
		}
		if path.Unknown != 0 || lock > took {
			t.Errorf("%+v", path)
		}
	}
	busy := &lockProgram{threads: 3, rounds: 50, hold: make([]tracefs.Time, 150), out: make([]tracefs.Time, 150)}
	for i := range busy.hold {
		busy.hold[i], busy.out[i] = 1e6, 1e5
	}
	l := NewLog(0)
	took, _ := busy.run(l)
	path, err := Find(l, "", "", isLock)
	if err != nil || len(path.Locks) != 1 || path.Locks[0].Lock != 7 || path.Locks[0].Time < took*95/100 {
		t.Errorf("%+v of %d, %v", path, took, err)
	}
}

// TestLost: what is lost is unknown, and not another part.
func TestLost(t *testing.T) {
	l := NewLog(0)
	l.Switch(0, 0, 0, 'R', 1)
	l.Waits(1e6, 1, 7)
	l.Lost()
	l.Returns(5e6, 1, true)
	l.Switch(9e6, 0, 1, 'X', 0)
	path, err := Find(l, "", "", isLock)
	if err != nil || path.Unknown != 5e6 || path.Running != 4e6 || len(path.Locks) != 0 {
		t.Errorf("%+v, %v", path, err)
	}
	l = NewLog(2)
	l.Switch(0, 0, 0, 'R', 1)
	l.Waits(1e6, 1, 7)
	l.Switch(9e6, 0, 1, 'X', 0)
	if path, err = Find(l, "", "", isLock); err != nil || path.Unknown < 8e6 {
		t.Errorf("%+v, %v: one entry was too many", path, err)
	}
}

// TestPlace: a path goes from a marker to a time.
func TestPlace(t *testing.T) {
	l := NewLog(0)
	l.Switch(0, 0, 0, 'R', 1)
	l.Waits(1e6, 1, 7)
	l.Marker(2e6, 1, "begin job")
	l.Switch(9e6, 0, 1, 'X', 0)
	path, err := Find(l, "begin", "0.008", isLock)
	if err != nil || path.From != 2e6 || path.To != 8e6 {
		t.Errorf("%+v, %v", path, err)
	}
	for _, wrong := range [][2]string{{"nothing", ""}, {"0.008", "0.002"}, {"0.0000000001", ""}, {"-1", ""}} {
		if _, err := Find(l, wrong[0], wrong[1], isLock); err == nil {
			t.Errorf("no error for %q", wrong)
		}
	}
	if _, err := Find(NewLog(0), "", "", isLock); err == nil {
		t.Error("no error for an empty log")
	}
}

// TestPredict: programs are really run with their holds halved, and without the lock.
func TestPredict(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	var errs []float64
	in, signs, n := 0, 0, 0
	for range 200 {
		p, l := randomProgram(r), NewLog(0)
		took, _ := p.run(l)
		for _, how := range []string{"x=halve", "x=remove"} {
			c, err := ParseChange(how)
			if err != nil {
				t.Fatal(err)
			}
			got, err := Predict(l, "", "", isLock, map[int32]Change{7: c})
			if err != nil {
				t.Fatal(err)
			}
			q := *p
			q.free = c.Remove
			if c.Halve {
				q.hold = slices.Clone(p.hold)
				for i := range q.hold {
					q.hold[i] /= 2
				}
			}
			want, _ := q.run(nil)
			off := float64(got.Time-want) / float64(want)
			errs = append(errs, max(off, -off))
			n++
			if got.Low <= want && want <= got.High {
				in++
			} else {
				t.Logf("%s threads %d: %d from %d to %d, really %d of %d; %.2f unseen, %.3f off", how, p.threads, got.Time, got.Low, got.High, want, took, got.Unseen, got.Error)
			}
			if (got.Time < took) == (want < took) || took-want < took/50 {
				signs++
			}
		}
	}
	slices.Sort(errs)
	t.Logf("of %d: median error %.1f %%, 90 %% within %.1f %%, sign right in %d, interval holds in %d", n, 100*errs[n/2], 100*errs[n*9/10], signs, in)
	if errs[n/2] > 0.1 || signs*100 < n*95 || in*100 < n*90 {
		t.Error("that is not good enough")
	}
}

// TestParseChange: what is no change is an error.
func TestParseChange(t *testing.T) {
	for text, want := range map[string]Change{
		"a=halve": {Lock: "a", Halve: true}, "a=b=remove": {Lock: "a=b", Remove: true}, "0x10=shard:8": {Lock: "0x10", Shards: 8},
	} {
		if c, err := ParseChange(text); err != nil || c != want || c.String() != text {
			t.Errorf("%q: %+v, %v", text, c, err)
		}
	}
	for _, wrong := range []string{"", "=halve", "a", "a=double", "a=shard:1", "a=shard:x", "a=shard:99999999"} {
		if _, err := ParseChange(wrong); err == nil {
			t.Errorf("no error for %q", wrong)
		}
	}
}

// TestHangs: a replay that cannot go on is no prediction.
func TestHangs(t *testing.T) {
	l := NewLog(0)
	for tid := range int32(2) {
		l.Switch(0, tid, 0, 'R', tid+1)
	}
	for i, e := range []entry{
		{a: 1, b: 7, kind: wakes}, {a: 2, b: 7, kind: wakes}, {a: 1, kind: switched, state: 'S'},
		{a: 2, b: 1, kind: waking}, {a: 1, kind: switched, state: 'X'},
	} {
		e.at = tracefs.Time(i+1) * 1e6
		l.add(e)
	}
	p := read(l, isLock).program(0, 5e6)
	p.threads = append(p.threads, []op{{kind: opAwait, arg: int32(p.events)}})
	p.events++
	s := &sim{p: p}
	if s.run(1); s.done() {
		t.Error("an event that never comes has come")
	}
}
