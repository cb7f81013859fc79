package main

import (
	"cmp"
	"flag"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"
)

// keep has the random tables written to a directory, for .ci/fleet.
var keep = flag.String("keep", "", "keep the tables of TestSumsOfRandom in this new directory")

// TestSumsOfRandom: answers from sums are those from samples, and p99 is rounded up by less than one
// in 64, for random reports: of recordings with several ones that share waits, with weights, waits
// without a thread, a time, a length, or a lock, and locks that only some waits are those for.
func TestSumsOfRandom(t *testing.T) {
	for seed := range uint64(10) {
		random := rand.New(rand.NewPCG(19, seed))
		dir := filepath.Join(cmp.Or(*keep, t.TempDir()), fmt.Sprint(seed))
		s, p := openPart(t, dir)
		for i := range 1 + random.IntN(12) {
			if i > 0 && random.IntN(4) == 0 {
				if err := p.finish(fmt.Sprintf("part-%02d", i)); err != nil {
					t.Fatal(err)
				}
				var err error
				if p, err = s.newPart(); err != nil {
					t.Fatal(err)
				}
			}
			if err := s.add(p, randomReport(random, uint64(i+1))); err != nil {
				t.Fatal(err)
			}
		}
		for i, os := range []string{"A", "B"} { // both are there, with a wait of some lock
			c := newCollector()
			c.head["os"] = os
			row, is := waitOf("lock", int64(i)), true
			row.IsLock = &is
			c.samples = append(c.samples, row)
			c.finish(uint64(100+i), "report", now())
			if err := s.add(p, c); err != nil {
				t.Fatal(err)
			}
		}
		if err := p.finish("part-99"); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		sameAsSamples(t, dir, "A", "B")
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// randomSite returns a stack with one of four sites, which reports have by several paths, or none.
func randomSite(random *rand.Rand) *stack {
	if random.IntN(4) == 0 {
		return nil
	}
	offset, site := int64(random.IntN(4)), new(frameRow)
	site.Offset, site.BuildID, site.Path = &offset, some("ab"), some([]string{"", "/a", "/b", "/b"}[random.IntN(4)])
	return &stack{site: site}
}

// randomReport returns a report of one of three devices, and one of three recordings of that, which
// has waits of ten seconds or a part of them.
func randomReport(random *rand.Rand, key uint64) *collector {
	const second = int64(1e9)
	c := newCollector()
	boot := random.IntN(3)
	c.head["boot_id"], c.head["os"] = fmt.Sprint("d", boot), string(rune('A'+boot))
	c.head["begun"], c.head["clock_offset_ns"] = fmt.Sprint(random.IntN(3)), "1795700000000000000"
	c.head["weight"] = []string{"1", "1", "2.5", "4"}[random.IntN(4)] // sums of these are exact
	from := random.Int64N(8) * second
	c.device.Duration = (1 + random.Int64N(8)) * second
	c.endNS = from + c.device.Duration
	for range random.IntN(200) {
		ns := random.Int64N(1 << random.IntN(40))
		at, tid := from+random.Int64N(8)*second, int32(1+random.IntN(3))
		if random.IntN(2) == 0 { // one of a few, which other reports have, too
			at, tid, ns = at-from, 1, at-from
		}
		row := sampleRow{Event: futexWait, Time: &at, TID: &tid, NS: &ns, Weight: 1}
		lock := &lock{is: random.IntN(3) > 0, kind: "mutex", name: fmt.Sprint(tid, at/second%3)}
		switch random.IntN(8) {
		case 0:
			row.NS = nil
		case 1:
			row.Time = nil
		case 2:
			row.TID = nil
		case 3:
			lock.name = ""
		}
		s := randomSite(random)
		row.at(s)
		row.of(lock, s)
		switch random.IntN(16) {
		case 0:
			row.LockKey, row.LockKind, row.LockName = nil, nil, nil
		case 1:
			row.IsLock = nil
		}
		c.samples = append(c.samples, row)
	}
	c.finish(key, "report", now())
	return c
}
