package futex_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"ustack/render/futex"
	"ustack/tracefs"
)

// timerTick is what a thread did that the timer interrupted.
type timerTick struct {
	at, tid int
	// owns are the locks that it owned, or was on its way to take or to release.
	owns []*mutex
}

// firstTick is the address where a thread is at the first tick. At each other one it is
// elsewhere.
const firstTick = 0x500000

// tick has the timer of a CPU tick, now and then.
func (m *machine) tick(cpu int) {
	w := m.cpus[cpu]
	if w == nil || m.sampling == 0 || m.rnd.IntN(m.sampling) > 0 {
		return
	}
	one := timerTick{at: m.now, tid: w.tid}
	for _, l := range m.locks {
		if l.owner == w || slices.Contains(l.between, w) {
			one.owns = append(one.owns, l)
		}
	}
	m.event(w.tid, cpu, "rcu_utilization: Start scheduler-tick")
	m.event(w.tid, cpu, "<user stack trace>")
	fmt.Fprintf(&m.trace, " =>  <%016x>\n", firstTick+len(m.ticks))
	m.ticks = append(m.ticks, one)
}

// sampled is the trace of a run in which threads are sampled.
func (m *machine) sampled(ticks int) string { return withFlags(m.run(ticks), " d.h.. ") }

// withFlags gives ticks of the timer in a trace other flags.
func withFlags(trace, flags string) string {
	var b strings.Builder
	for line := range strings.Lines(trace) {
		if strings.Contains(line, ": rcu_utilization: ") {
			line = strings.Replace(line, " ..... ", flags, 1)
		}
		b.WriteString(line)
	}
	return b.String()
}

// checkSampled compares samples of a lock with the truth, and returns how many there are.
func (m *machine) checkSampled(l *futex.Lock, all int64, list []futex.Sampled, of func(timerTick) bool) (n int64, err error) {
	var seen []int
	for _, s := range list {
		n += s.Count
		if s.Stack == nil {
			continue
		}
		at := int(s.Stack.Frames[0].Address) - firstTick
		if at < 0 || at >= len(m.ticks) || s.Count != 1 || slices.Contains(seen, at) {
			return n, fmt.Errorf("%d samples at %#x", s.Count, s.Stack.Frames[0].Address)
		}
		seen = append(seen, at)
		if x := m.ticks[at]; !of(x) || !slices.Contains(x.owns, m.locks[(l.Address-0x1000)/0x40]) {
			return n, fmt.Errorf("a sample of thread %d at %d, which did not own %#x then", x.tid, x.at, l.Address)
		}
	}
	if n != all {
		return n, fmt.Errorf("%d samples, %d by place", all, n)
	}
	return n, nil
}

// checkSamples compares the samples of a report with the truth.
func (m *machine) checkSamples(r *futex.Report) (n int64, ran tracefs.Time, err error) {
	for _, l := range r.Locks {
		if l.Holds == nil {
			continue
		}
		of, err := m.checkSampled(l, l.Holds.Samples, l.Holds.Sampled, func(timerTick) bool { return true })
		if err != nil {
			return 0, 0, err
		}
		n, ran = n+of, ran+l.Holds.Did.Ran
	}
	for _, h := range r.LongHolds {
		_, err := m.checkSampled(h.Lock, h.Samples, h.Sampled, func(x timerTick) bool {
			at := tracefs.Time(x.at+1000) * 1000
			return x.tid == int(h.TID) && at <= h.To && (h.High < 0 || at >= h.To-h.High)
		})
		if err != nil {
			return 0, 0, fmt.Errorf("the hold of thread %d until %d: %w", h.TID, h.To, err)
		}
	}
	return n, ran, nil
}

// TestSamplesGenerated: a sample counts for a lock only if the thread that was interrupted
// owned it then, and all of them count for which that is certain: as many as the timer ticked
// while owners ran.
func TestSamplesGenerated(t *testing.T) {
	const every = 40
	var samples, ticks int64
	var ran tracefs.Time
	for seed := range uint64(100) {
		m := newMachine(seed, 1+int(seed%3), 3+int(seed%4), 1+int(seed%3))
		m.late, m.deep, m.fair, m.sampling = seed%5 == 0, seed%2 == 1, seed%7 == 0, every
		n, of, err := m.checkSamples(analyseText(t, futex.Options{}, m.sampled(4000)).Report(futex.View{}))
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		samples, ran, ticks = samples+n, ran+of, ticks+int64(len(m.ticks))
	}
	want := int64(ran) / (every * 1000)
	t.Logf("%d of %d ticks are of holds, in which owners ran for %d us: %d expected", samples, ticks, ran/1000, want)
	if samples == 0 || samples == ticks || samples < want*9/10 || samples > want*11/10 {
		t.Errorf("%d samples, %d expected", samples, want)
	}
}

// TestSamplesLost: where records are lost, samples are missing, and none is of another hold.
func TestSamplesLost(t *testing.T) {
	var samples int64
	for round := range uint64(100) {
		m := newMachine(round, 1+int(round%3), 3+int(round%4), 1+int(round%3))
		m.late, m.deep, m.sampling = round%3 == 0, round%2 == 0, 40
		text := damage(textRecords(t, m.sampled(3000)), rand.New(rand.NewPCG(round, 5)))
		n, _, err := m.checkSamples(analyseText(t, futex.Options{}, text).Report(futex.View{}))
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		samples += n
	}
	t.Logf("%d samples", samples)
	if samples == 0 {
		t.Error("no samples")
	}
}

// TestSamples: a sample is of an interrupt, of the thread that owns the lock, and in the hold.
func TestSamples(t *testing.T) {
	const tick = "rcu_utilization: Start scheduler-tick"
	for name, c := range map[string]struct {
		line, flags string
		want        int64
	}{
		"of the owner":        {"11/10 1 220 " + tick, " d.h.. ", 1},
		"hard and soft":       {"11/10 1 220 " + tick, " d.H.. ", 1},
		"of trace-cmd":        {"11/10 1 220 rcu_utilization:      Start scheduler-tick", " d.h.. ", 1},
		"not in an interrupt": {"11/10 1 220 " + tick, " ..... ", 0},
		"another mark":        {"11/10 1 220 rcu_utilization: End scheduler-tick", " d.h.. ", 0},
		"of a waiter":         {"12/10 1 220 " + tick, " d.h.. ", 0},
		"of another thread":   {"13/10 0 220 " + tick, " d.h.. ", 0},
		"after the hold":      {"11/10 1 420 " + tick, " d.h.. ", 0},
	} {
		lines := []string{
			"11/10 1 80 " + fmt.Sprintf(switchLine, 11, 120, "R", 0, 120),
			"0 0 90 " + fmt.Sprintf(switchLine, 0, 120, "R", 10, 120),
			"10/10 0 100 " + waitCall,
			"10/10 0 101 " + fmt.Sprintf(switchLine, 10, 120, "S", 0, 120),
			"0 1 150 " + fmt.Sprintf(switchLine, 0, 120, "R", 11, 120),
			"11/10 1 300 " + wakeCall, "11/10 1 310 sys_futex -> 0x1", "10/10 0 350 sys_futex -> 0x0",
		}
		at := slices.IndexFunc(lines, func(l string) bool { return strings.Contains(l, " 300 ") })
		if strings.Contains(c.line, " 420 ") {
			at = len(lines)
		}
		lines = slices.Insert(lines, at, c.line)
		text := withFlags(script(strings.Join(lines, "\n")), c.flags)
		r := analyseText(t, futex.Options{}, text).Report(futex.View{})
		var got int64
		for _, l := range r.Locks {
			if l.Holds != nil {
				got += l.Holds.Samples
			}
		}
		if got != c.want {
			t.Errorf("%s: %d samples, want %d\n%s", name, got, c.want, text)
		}
	}
}
