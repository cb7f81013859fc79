package whole

import (
	"testing"

	"ustack/tracefs"
)

// TestTooMany: few samples never make sampling pause, however late the trace is read;
// many do if it is late, and too many always.
func TestTooMany(t *testing.T) {
	const perWindow = 1000
	for _, c := range []struct {
		sampled int
		late    tracefs.Time
		want    bool
	}{
		{0, 1e9, false}, {perWindow / 4, 1e9, false}, {perWindow/4 + 1, lateRead, false}, {perWindow/4 + 1, lateRead + 1, true},
		{perWindow, 0, false}, {perWindow + 1, 0, true},
	} {
		p := pace{late: lateRead, sampled: c.sampled}
		if got := p.tooMany(perWindow, c.late); got != c.want {
			t.Errorf("%d samples, read %d ns late: %t", c.sampled, c.late, got)
		}
	}
}

// TestLateFor: a trace with a larger buffer may be read later, within a bound.
func TestLateFor(t *testing.T) {
	for _, c := range []struct {
		kb   int
		want tracefs.Time
	}{{0, lateRead}, {usualKB / 2, lateRead}, {usualKB, lateRead}, {3 * usualKB, 3 * lateRead}, {8192, 5 * lateRead}, {1 << 30, 5 * lateRead}} {
		if got := lateFor(c.kb); got != c.want {
			t.Errorf("%d KB: %d ns, want %d", c.kb, got, c.want)
		}
	}
}

// TestLastTime is the time of the last record that has one.
func TestLastTime(t *testing.T) {
	b := tracefs.Batch{Origins: []tracefs.Origin{{Exact: 5}, {Exact: 7}},
		Records: []tracefs.Record{{Kind: tracefs.KindEvent, Origin: 1}, {Kind: tracefs.KindEvent, Origin: 2}, {Kind: tracefs.KindLost}}}
	if got := lastTime(&b); got != 7 {
		t.Errorf("got %d, want 7", got)
	}
	if got := lastTime(&tracefs.Batch{}); got != 0 {
		t.Errorf("of no record: %d", got)
	}
}

// paceOf has 400,000 calls of a second wait for so many seconds, and returns how many were
// sampled in each. The records are read after a delay.
func paceOf(seconds int, late func(now tracefs.Time) tracefs.Time) (sampled []int) {
	const perSecond, every, step = 20000, tracefs.Time(5e6), 2000 // calls from one batch to the next
	p := pace{late: lateRead}
	for second := range seconds {
		sum := 0
		for i := range tracefs.Time(1e9) / every {
			now := tracefs.Time(second+1)*1e9 + i*every
			if !p.paused {
				p.sampled, p.until, sum = p.sampled+step, now, sum+step
			}
			p.step(now, late(now), perSecond/windows)
		}
		sampled = append(sampled, sum)
	}
	return sampled
}

// TestPaceLate: while the trace is read late a part of the stacks is sampled all the same,
// each second, and no more than a few batches.
func TestPaceLate(t *testing.T) {
	for second, n := range paceOf(20, func(tracefs.Time) tracefs.Time { return 3e9 }) {
		if n == 0 || n > 20000 {
			t.Errorf("second %d: %d samples", second, n)
		}
	}
}

// TestPaceCaughtUp: it goes on as before once the trace is read in time.
func TestPaceCaughtUp(t *testing.T) {
	inTime := paceOf(10, func(tracefs.Time) tracefs.Time { return 0 })
	lateFirst := paceOf(10, func(now tracefs.Time) tracefs.Time {
		if now < 5e9 {
			return 3e9
		}
		return 0
	})
	if lateFirst[9] != inTime[9] || inTime[9] <= lateFirst[1] {
		t.Errorf("%d samples of the last second, %d if the trace was never read late; %d of one read late", lateFirst[9], inTime[9], lateFirst[1])
	}
}

// TestPaceStalled: where the trace was read late once, as the machine had other work, the
// samples of that time are no more a second for being read at once.
func TestPaceStalled(t *testing.T) {
	const perSecond = 20000
	for _, c := range []struct {
		rate int // of samples
		want bool
	}{{2000, false}, {4000, false}, {12000, true}, {40000, true}} {
		p := pace{late: 5 * lateRead, window: 1e9, until: 1e9}
		p.step(1.4e9, 0.4e9, perSecond/windows) // a batch that took long
		p.sampled, p.until = p.sampled+c.rate*4/10, 1.4e9
		if got := p.step(1.41e9, 0.4e9, perSecond/windows); got != c.want {
			t.Errorf("%d samples a second: paused is %t", c.rate, got)
		}
	}
}

// TestMissed: waits without a sample are counted apart while sampling has paused.
func TestMissed(t *testing.T) {
	f := newDeferredTrace(1)
	opt := Options{Tracepoint: futexPoint, Now: func() tracefs.Time { return f.t }}
	s := &Source{opt: SourceOptions{Options: opt}, Stage: New(opt)}
	for tid := range int32(9) {
		f.enter(10+tid, 0)
	}
	s.Give(&f.batch, f.t)
	waits := s.Counts().Alone
	if n := s.Sampled().Missed; waits == 0 || n != 0 {
		t.Errorf("%d of %d waits without a sample, sampling", n, waits)
	}
	s.rests.begin(f.t - 1e9)
	s.rests.end(f.t + 1)
	s.rests.begin(f.t + 2)
	s.Give(&f.batch, f.t) // it is read after that pause
	if n := s.Sampled().Missed; n != waits {
		t.Errorf("%d of %d waits without a sample, paused", n, waits)
	}
}
