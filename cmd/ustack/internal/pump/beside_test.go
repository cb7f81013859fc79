package pump_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"ustack/cmd/ustack/internal/pump"
	"ustack/filemap/resolve"
	"ustack/tracefs/input"
)

var errFull = errors.New("it is full")

// counter counts records. It is full after some batches, if that is not 0.
type counter struct {
	batches, full int
	records       int
	closed        bool
}

func (c *counter) Batch(h *resolve.Pending) error {
	c.records += len(h.Records)
	if c.batches++; c.batches == c.full {
		return errFull
	}
	return nil
}

func (c *counter) Flush() error { return nil }

func (c *counter) Close(*resolve.Totals) error {
	c.closed = true
	return nil
}

// longTrace has so many events that their text is many batches.
func longTrace() (text string, events int) {
	var b strings.Builder
	for b.Len() < 4<<20 {
		events++
		fmt.Fprintf(&b, "              ab-71      [000] .....     %d.000001: sys_exit_futex: 0x0\n", events)
	}
	return b.String(), events
}

// TestBeside: a renderer beside the resolver gets all records, and may fail.
func TestBeside(t *testing.T) {
	text, events := longTrace()
	run := func(c *counter) error {
		trace, err := input.OpenAll([]string{"-"}, strings.NewReader(text), input.Options{Events: true})
		if err != nil {
			t.Fatal(err)
		}
		res := resolve.New(resolve.Options{Sources: 1, Stitch: true})
		_, err = pump.RunBeside(trace.Start(), res, c)
		return err
	}
	all := new(counter)
	if err := run(all); err != nil || all.records != events || !all.closed {
		t.Errorf("%d records of %d, closed %v: %v", all.records, events, all.closed, err)
	}
	for _, full := range []int{1, 5, all.batches} {
		c := &counter{full: full}
		if err := run(c); !errors.Is(err, errFull) || c.closed || c.batches != full {
			t.Errorf("full after %d batches: %v after %d, closed %v", full, err, c.batches, c.closed)
		}
	}
}
