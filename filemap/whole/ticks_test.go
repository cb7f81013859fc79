//go:build !device

package whole

import (
	"testing"

	"ustack/tracefs"
	"ustack/tracefs/perf"
)

// TestTicksTake: a sample is of the tick of the same thread on the same CPU at the same place and
// time, and of no other.
func TestTicksTake(t *testing.T) {
	sample := func(tid, cpu int, at tracefs.Time, pc uint64) *perf.StackSample {
		p := &perf.StackSample{TID: tid, CPU: cpu, Time: at, Regs: perf.Registers{Machine: perf.AMD64}}
		p.Regs.Set(16, pc)
		return p
	}
	const at = tracefs.Time(5_000_000)
	for name, c := range map[string]struct {
		tid, cpu int
		at       tracefs.Time
		pc       uint64
		want     bool
	}{
		"it":             {7, 1, at, 0x1000, true},
		"a moment later": {7, 1, at + apartTicks, 0x1000, true},
		"earlier":        {7, 1, at - apartTicks, 0x1000, true},
		"another tick":   {7, 1, at + apartTicks + 1, 0x1000, false},
		"another thread": {8, 1, at, 0x1000, false},
		"another CPU":    {7, 0, at, 0x1000, false},
		"elsewhere":      {7, 1, at, 0x1001, false},
	} {
		var k ticks
		for _, p := range []*perf.StackSample{sample(6, 0, at, 0x1000), sample(c.tid, c.cpu, c.at, c.pc), sample(9, 1, at, 0x1000)} {
			if k.add(p) != nil {
				t.Fatal("there is room")
			}
		}
		p := k.take(7, 1, at, 0x1000)
		if (p != nil) != c.want || p != nil && (p.TID != 7 || len(k.waiting) != 2 || k.take(7, 1, at, 0x1000) != nil) {
			t.Errorf("%s: %v, %d wait", name, p, len(k.waiting))
		}
	}
}

// TestTicksBound: no more samples wait than there is room for, and the first go first.
func TestTicksBound(t *testing.T) {
	var k ticks
	for i := range maxTicks + 3 {
		over := k.add(&perf.StackSample{TID: i})
		if (over != nil) != (i >= maxTicks) || over != nil && over.TID != i-maxTicks {
			t.Fatalf("sample %d: %v goes", i, over)
		}
	}
	if len(k.waiting) != maxTicks {
		t.Errorf("%d wait", len(k.waiting))
	}
}
