package main

import (
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
)

// TestSampleSize: a wait takes few bytes more than its time, its length and its stack have bits.
func TestSampleSize(t *testing.T) {
	const reports, waits, stacks = 40, 5000, 1000
	dir := t.TempDir()
	s, p := openPart(t, dir)
	defer s.Close()
	random := rand.New(rand.NewPCG(19, 4))
	for i := range reports {
		c := newCollector()
		c.head["clock_offset_ns"] = "1795700000000000000"
		at := int64(1e9)
		for range waits {
			k := 10 * (random.IntN(stacks) + 1)
			stack := c.addStack([]int{k, k + 1, k + 2})
			row := randomWait(random, &at, stack)
			c.samples = append(c.samples, row)
		}
		c.finish(uint64(i+1), "report", now())
		if err := s.add(p, c); err != nil {
			t.Fatal(err)
		}
	}
	// What an exponential distribution of a mean of 1e6 has, twice, one of 1000 stacks, of 16 threads.
	bits := 2*math.Log2(math.E*1e6) + math.Log2(stacks) + math.Log2(16)
	if err := p.finish("part-test"); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(filepath.Join(dir, "part-test", tableSamples+tableSuffix))
	if err != nil {
		t.Fatal(err)
	}
	size := float64(info.Size()) / (reports * waits)
	t.Logf("%.2f bytes a sample, of which %.2f cannot be less", size, bits/8)
	// Lock and site, which follow from the stack, have columns of their own.
	if size > bits/8+4 {
		t.Error("too many")
	}
}

// randomWait is a wait for a mutex at a stack, some time after at, which it sets to its beginning.
func randomWait(random *rand.Rand, at *int64, stack *stack) sampleRow {
	ns, gap := int64(random.ExpFloat64()*1e6)+1, int64(random.ExpFloat64()*1e6)
	*at += gap
	from, tid := *at, int32(random.IntN(16))
	row := sampleRow{Event: futexWait, Time: &from, TID: &tid, NS: &ns, LowNS: &ns, HighNS: &ns, Weight: 1, Result: some("woken")}
	row.at(stack)
	row.of(&lock{is: true, kind: "mutex"}, stack)
	return row
}
