package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"testing"

	"ustack/cmd/ustack/internal/fleet"
)

// What TestScale writes: .ci/scale has it write much.
var (
	scaleDir     = flag.String("scale-dir", "", "write the tables of TestScale here")
	scalePush    = flag.String("scale-push", "", "push the reports of TestScale to this address, and write no tables")
	scaleDevices = flag.Int("scale-devices", 100, "of TestScale")
	scaleWaits   = flag.Int("scale-waits", 1000, "of each device of TestScale")
	scaleReports = flag.Int("scale-reports", 1, "of each device of TestScale, one after the other, which share its waits")
	scalePart    = flag.Int("scale-part", 0, "the number of this part of TestScale")
)

// TestScale writes tables of many devices that all have the same thousand stacks, as they do
// that run the same program, with waits of exponential lengths at exponential intervals.
func TestScale(t *testing.T) {
	const stacks = 1000
	add, finish := scaleSink(t)
	random := rand.New(rand.NewPCG(19, uint64(*scalePart)))
	shared := newCollector()
	list := make([]*stack, stacks)
	for i := range list {
		list[i] = shared.addStack([]int{10 * i, 10*i + 1, 10*i + 2})
	}
	total := int64(0)
	for i := *scalePart * *scaleDevices; i < (*scalePart+1)**scaleDevices; i++ {
		boot, at := fmt.Sprintf("%08x-0000-4000-8000-%012x", random.Uint32(), i), int64(1e9)
		for j := range *scaleReports {
			c := newCollector()
			c.stacks = shared.stacks
			c.head["clock_offset_ns"] = "1795700000000000000"
			c.head["boot_id"], c.head["begun"] = boot, "2026-11-27"
			c.head["os"] = fmt.Sprintf("build %d", i%3)
			begun := at
			for range *scaleWaits / *scaleReports {
				stack := list[min(int(random.ExpFloat64()*stacks/5), stacks-1)]
				row := randomWait(random, &at, stack)
				total += *row.NS
				c.device.Waits++
				c.device.WaitedNS += *row.NS
				c.samples = append(c.samples, row)
			}
			c.endNS, c.device.Duration = at, at-begun
			c.finish(uint64(i**scaleReports+j+1), "report", now())
			if err := add(c); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := finish(); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d samples, %d ns", *scaleDevices**scaleWaits, total)
}

// scaleSink returns what takes the reports of TestScale.
func scaleSink(t *testing.T) (add func(*collector) error, finish func() error) {
	t.Helper()
	if *scalePush != "" {
		f, err := fleet.ParsePush([]string{"-q", *scalePush, "report"}, io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		p, err := newPusher(f, os.Stderr, os.Getenv, nil)
		if err != nil {
			t.Fatal(err)
		}
		ctx := context.Background()
		return func(c *collector) error { return p.add(ctx, c) }, func() error { return errors.Join(p.handOver(ctx), p.wait()) }
	}
	dir := *scaleDir
	if dir == "" {
		dir = t.TempDir()
	}
	s, p := openPart(t, dir)
	t.Cleanup(func() { s.Close() })
	return func(c *collector) error { return s.add(p, c) }, func() error { return p.finish(fmt.Sprint("part-", *scalePart)) }
}
