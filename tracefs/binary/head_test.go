package binary

import (
	"math/rand/v2"
	"testing"
)

// TestHeadAgain: a line's columns are those of its own record, also where most of them are
// taken from the thread's line before.
func TestHeadAgain(t *testing.T) {
	k := &Kernel{Clock: "mono"}
	p, r := newPrinter(k), rand.New(rand.NewPCG(1, 2))
	for range 10_000 {
		c := common{pid: r.Int32N(3), flags: uint8(r.IntN(2)), preempt: uint8(r.IntN(2))}
		cpu, time := r.Int32N(2)*1000, r.Uint64N(4e9)
		fresh := newPrinter(k)
		got, want := p.head(nil, p.task(time, c), cpu, time, c), fresh.head(nil, fresh.task(time, c), cpu, time, c)
		if string(got) != string(want) {
			t.Fatalf("%q, not %q", got, want)
		}
	}
}
