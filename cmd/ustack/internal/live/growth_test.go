package live

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
)

// TestGrowth: it is said once that the buffer grows, when that of a CPU could have doubled,
// in the end how far it grew, and with which flags nothing would have been lost.
func TestGrowth(t *testing.T) {
	var said []string
	say := func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) }
	g := growth{say: say, ring: 2 * mib, all: 8 * mib, room: 16 * mib}
	g.report(say)
	if said != nil {
		t.Errorf("said %q of no growth", said)
	}
	for n := int64(1); n <= 4; n++ {
		g.grown(n * mib)
	}
	g.report(say)
	g.grown(g.room)
	g.report(say)
	want := []string{
		"events come faster than they are read: the buffer grows, to at most 24 MB (--max-buffer)",
		"the buffer grew from 8 to 12 MB", "the buffer grew from 8 to 24 MB, all that --max-buffer allows",
	}
	if !slices.Equal(said, want) {
		t.Errorf("said %q, want %q", said, want)
	}
	if got := g.enough(3 << 10); got != "-b 3072 --max-buffer 28M" {
		t.Errorf("enough is %q", got)
	}
	if got := new(growth).enough(64); got != "-b 64" {
		t.Errorf("without growth, enough is %q", got)
	}
}

// TestGrowthEnd: as many goroutines run at the end as before.
func TestGrowthEnd(t *testing.T) {
	before := runtime.GOMAXPROCS(0)
	g := growth{procs: runtime.GOMAXPROCS(before + 1)}
	g.end()
	g.end()
	if after := runtime.GOMAXPROCS(0); after != before {
		t.Errorf("%d goroutines, %d before", after, before)
	}
}

// TestUsualMaxBuffer: it is a part of the memory, and some.
func TestUsualMaxBuffer(t *testing.T) {
	if n := UsualMaxBuffer(); n <= 0 || n > 1<<50 {
		t.Errorf("%d bytes", n)
	}
}
