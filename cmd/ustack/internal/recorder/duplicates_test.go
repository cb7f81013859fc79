package recorder

import (
	"bytes"
	"errors"
	"io"
	"path/filepath"
	"testing"
	"time"

	"ustack/cmd/ustack/internal/live"
	"ustack/filemap/resolve"
	"ustack/render/cause"
	"ustack/tracefs/capturetest"
)

// contention returns a cause. others replace frames of the waiter, from the innermost one on.
func contention(others ...cause.Frame) *cause.Cause {
	c := &cause.Cause{Kind: "WAIT", Waiter: []cause.Frame{1, 2, 3, 4, 5}, Owner: []cause.Frame{6, 7, 8}}
	copy(c.Waiter, others)
	return c
}

// TestDuplicates: a report with the same cause as another one of the day is counted, also after a
// restart, one frame may differ, and other causes have their reports.
func TestDuplicates(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "report.zst")
	trace := capturetest.Read(t, "../../../../testdata/git-grep/trace.txt.zst")
	clock := time.Now()
	said := 0
	run := func(args []string, causes ...*cause.Cause) {
		t.Helper()
		b := openedSaying(t, func(string, ...any) { said++ }, name, args...)
		o := NewRing(Options{Name: name, Proc: "/proc", Version: "test", Budget: b, Reporter: &live.Reporter{Command: "record", Out: io.Discard}}, RingOptions{MaxFiles: 99, CoolDown: time.Minute})
		o.now = func() time.Time { return clock }
		if _, err := o.Open(&live.Start{Wake: func(string) error { return nil }}); err != nil {
			t.Fatal(err)
		}
		for _, c := range causes {
			if err := o.Batch(resolved(t, trace)); err != nil {
				t.Fatal(err)
			}
			o.trigger("test", c)
			o.trigger("test", c) // at the same time
			if _, err := o.Step(new(resolve.Totals)); err != nil {
				t.Fatal(err)
			}
			clock = clock.Add(time.Hour)
		}
		if err := errors.Join(o.End(), b.Close()); err != nil {
			t.Fatal(err)
		}
	}
	reports := func(want int) {
		t.Helper()
		if got := glob(t, dir, "report.zst*"); len(got) != want {
			t.Fatalf("reports %q, want %d", got, want)
		}
	}
	budgeted := []string{"--budget=99/day"}
	run(budgeted, contention(), contention(), contention(9))
	reports(1)
	if said != 1 {
		t.Errorf("said %d times that duplicates are counted", said)
	}
	run(budgeted, contention())
	reports(1)
	run(budgeted, contention(9, 10))
	reports(2)
	if head := capturetest.Read(t, name+".1"); !bytes.Contains(head, []byte("# ustack: duplicates=3\n")) || bytes.Contains(head, []byte("refused")) {
		t.Errorf("the head of the next report: %.600s", head)
	}
	run(budgeted, nil, nil)
	reports(4)
	run(append(budgeted, "--duplicates=write"), contention())
	reports(5)
	run(nil, contention(), contention())
	reports(7)
	if head := capturetest.Read(t, name+".3"); bytes.Contains(head, []byte("duplicates")) {
		t.Errorf("duplicates are counted twice: %.600s", head)
	}
}

// TestRefusalsApart: where nothing cools down, triggers that come at once are one refusal, as each
// is written to the disk.
func TestRefusalsApart(t *testing.T) {
	name := filepath.Join(t.TempDir(), "report.zst")
	b := opened(t, name, "--budget=1/day")
	o := NewRing(Options{Name: name, Proc: "/proc", Budget: b, Reporter: &live.Reporter{Command: "record", Out: io.Discard}}, RingOptions{MaxFiles: 9})
	if _, err := o.Open(&live.Start{Wake: func(string) error { return nil }}); err != nil {
		t.Fatal(err)
	}
	clock := time.Now()
	o.now = func() time.Time { return clock }
	if err := o.write(new(resolve.Totals)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		clock = clock.Add(leastWhile)
		for range 100 {
			o.trigger("test", nil)
		}
	}
	if n := b.book.Counts().Refused; n != 2 {
		t.Errorf("%d refusals, want one a second", n)
	}
	if err := errors.Join(o.End(), b.Close()); err != nil {
		t.Fatal(err)
	}
}

// TestDuplicatesOfOthers: duplicates of one cause do not keep the report of another one away.
func TestDuplicatesOfOthers(t *testing.T) {
	name := filepath.Join(t.TempDir(), "report.zst")
	b := opened(t, name, "--budget=9/day")
	o := NewRing(Options{Name: name, Proc: "/proc", Budget: b, Reporter: &live.Reporter{Command: "record", Out: io.Discard}}, RingOptions{MaxFiles: 9, CoolDown: time.Minute})
	if _, err := o.Open(&live.Start{Wake: func(string) error { return nil }}); err != nil {
		t.Fatal(err)
	}
	clock := time.Now()
	o.now = func() time.Time { return clock }
	o.trigger("test", contention())
	if err := o.write(new(resolve.Totals)); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		clock = clock.Add(time.Minute)
		for range 2 {
			if o.trigger("test", contention()); o.why != "" {
				t.Fatal("a duplicate is to be written")
			}
		}
	}
	before := o.written
	o.opt.Chance = 1e-9
	if o.trigger("test", contention()); !o.written.Equal(before) {
		t.Error("a duplicate takes a chance, and cools down for all causes")
	}
	o.opt.Chance = 0
	if o.trigger("test", contention(9, 10)); o.why != "test" {
		t.Error("another cause is left out")
	}
	if n := b.book.Counts().Duplicates; n != 3 {
		t.Errorf("%d duplicates, want one a minute", n)
	}
	if err := errors.Join(o.End(), b.Close()); err != nil {
		t.Fatal(err)
	}
}
