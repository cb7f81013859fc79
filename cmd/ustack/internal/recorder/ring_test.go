package recorder

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"ustack/cmd/ustack/internal/live"
	"ustack/filemap/resolve"
	"ustack/tracefs"
	"ustack/tracefs/capturetest"
	"ustack/tracefs/text"
)

// TestRing: without an engine, a signal wakes the trace, a report is written at the next
// steps, and the last one ends the trace.
func TestRing(t *testing.T) {
	name := filepath.Join(t.TempDir(), "report.zst")
	var said bytes.Buffer
	opt := Options{Name: name, Proc: "/proc", Version: "test", Reporter: &live.Reporter{Command: "record", Out: &said}}
	o := NewRing(opt, RingOptions{KeepSize: 1 << 20, MaxFiles: 2})
	woken := make(chan string)
	if _, err := o.Open(&live.Start{Wake: func(text string) error { woken <- text; return nil }}); err != nil {
		t.Fatal(err)
	}
	defer o.End()
	totals := new(resolve.Totals)
	if done, err := o.Step(totals); done || err != nil {
		t.Fatalf("a step before all signals: %t, %v", done, err)
	}
	if _, err := os.Stat(name); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a report before all signals: %v", err)
	}
	for i, report := range []string{name, name + ".1"} {
		if err := syscall.Kill(os.Getpid(), syscall.SIGUSR1); err != nil {
			t.Fatal(err)
		}
		if text := <-woken; text != asking {
			t.Errorf("woken by %q", text)
		}
		done := step(t, o, totals, woken)
		if _, err := os.Stat(report); err != nil {
			t.Error(err)
		}
		if last := i == 1; done != last {
			t.Errorf("after report %d: done is %t", i, done)
		}
	}
	if want := "ustack: that was the last report of 2\n"; !strings.HasSuffix(said.String(), want) {
		t.Errorf("printed %q", said.String())
	}
}

// step steps until a report is written, and takes the timer's wakeup.
func step(t *testing.T, o *Ring, totals *resolve.Totals, woken <-chan string) (done bool) {
	t.Helper()
	for before := o.reports; o.reports == before; {
		var err error
		if done, err = o.Step(totals); err != nil {
			t.Fatal(err)
		}
	}
	if text := <-woken; text != writing {
		t.Errorf("woken by %q", text)
	}
	return done
}

// TestRingCounts: each report of a ring says how many events and stacks it has itself, also
// when older ones were dropped in the middle of what came at once, or did not fit.
func TestRingCounts(t *testing.T) {
	trace := capturetest.Read(t, "../../../../testdata/git-grep/trace.txt.zst")
	for _, opt := range []struct {
		keep          time.Duration
		size          int64
		drops, leaves bool // events that are too old; those that do not fit
	}{{}, {keep: 2 * time.Second, drops: true}, {size: 52 << 10, leaves: true}} {
		name := filepath.Join(t.TempDir(), "report.zst")
		o := NewRing(Options{Name: name, Proc: "/proc", Version: "test", MaxSize: opt.size, Reporter: &live.Reporter{Command: "record", Out: new(bytes.Buffer)}}, RingOptions{Keep: opt.keep, MaxFiles: 9})
		clock := time.Unix(1000, 0)
		o.now = func() time.Time { clock = clock.Add(100 * time.Millisecond); return clock }
		if _, err := o.Open(&live.Start{Wake: func(string) error { return nil }}); err != nil {
			t.Fatal(err)
		}
		var totals resolve.Totals
		all := 0
		for round := range 3 {
			for range round + 1 {
				h := resolved(t, trace)
				all = int(h.Events)
				if err := o.Batch(h); err != nil {
					t.Fatal(err)
				}
				totals.Events += h.Events
			}
			if err := o.write(&totals); err != nil {
				t.Fatal(err)
			}
			events, stacks, left := counts(t, capturetest.Read(t, name+[]string{"", ".1", ".2"}[round]))
			if events < all*(round+1) != opt.drops || left > 0 != opt.leaves || events == left || stacks == 0 {
				t.Errorf("%+v, round %d: %d events, %d left out, of %d", opt, round, events, left, all*(round+1))
			}
		}
		if err := o.End(); err != nil {
			t.Fatal(err)
		}
	}
}

// resolved is a trace as the resolver gives it out.
func resolved(t *testing.T, trace []byte) *resolve.Pending {
	t.Helper()
	b := scanned(t, text.NewScanner(), trace)
	text.Escape(b)
	r := resolve.New(resolve.Options{})
	r.Add(b)
	r.End()
	return r.Next()
}

func scanned(t *testing.T, scan *text.Scanner, trace []byte) *tracefs.Batch {
	t.Helper()
	scan.Events = true
	b := &tracefs.Batch{Text: bytes.Clone(trace)}
	if _, err := scan.Scan(b, text.MoreNever); err != nil {
		t.Fatal(err)
	}
	return b
}

// counts returns the counts in the last line of a report, and compares them with its records.
func counts(t *testing.T, report []byte) (events, stacks, left int) {
	t.Helper()
	at := bytes.LastIndex(report, []byte("# ustack: end "))
	if at < 0 {
		t.Fatalf("no last line in %d bytes", len(report))
	}
	var frames, resolved, files, lost, leftStacks int
	if _, err := fmt.Sscanf(string(report[at:]), "# ustack: end events=%d stacks=%d frames=%d resolved=%d files=%d lost=%d left_out_events=%d left_out_stacks=%d\n",
		&events, &stacks, &frames, &resolved, &files, &lost, &left, &leftStacks); err != nil {
		t.Fatalf("%v: %s", err, report[at:])
	}
	scan := text.NewScanner()
	scan.UseEscapes()
	b := scanned(t, scan, report)
	found := 0
	for i := range b.Records {
		if b.Records[i].Kind == tracefs.KindStack {
			found++
		}
	}
	if int(b.Events) != events-left || found != stacks-leftStacks {
		t.Errorf("%d events and %d stacks, want %d and %d", b.Events, found, events-left, stacks-leftStacks)
	}
	return events, stacks, left
}

// TestRingAgain: a recorder that is started again leaves the reports that are there, also what a
// killed one has left, and goes on with the next number.
func TestRingAgain(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "report.zst")
	there := map[string]bool{".partial": true, ".7": true, ".9.partial": true, ".x": true, ".99999999999": true, ".10": true}
	for end := range there {
		if err := os.WriteFile(name+end, []byte(end), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		o := NewRing(Options{Name: name, Proc: "/proc", Version: "test", Reporter: &live.Reporter{Command: "record", Out: io.Discard}}, RingOptions{MaxFiles: 9})
		if _, err := o.Open(&live.Start{Wake: func(string) error { return nil }}); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := o.write(new(resolve.Totals)); err != nil {
				t.Fatal(err)
			}
		}
		if err := o.End(); err != nil {
			t.Fatal(err)
		}
	}
	for end := range there {
		if text, err := os.ReadFile(name + end); err != nil || string(text) != end {
			t.Errorf("%s is %q, %v", end, text, err)
		}
	}
	for _, end := range []string{".11", ".12", ".13", ".14"} {
		if text, err := os.ReadFile(name + end); err != nil || len(text) < 50 {
			t.Errorf("%s is %q, %v", end, text, err)
		}
	}
	if got := glob(t, dir, "*"); len(got) != len(there)+4 {
		t.Errorf("%q", got)
	}
}

// TestRingFetched: the names of reports that were taken away while a recorder runs do not come
// again.
func TestRingFetched(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "report.zst")
	o := NewRing(Options{Name: name, Proc: "/proc", Version: "test", Reporter: &live.Reporter{Command: "record", Out: io.Discard}}, RingOptions{MaxFiles: 9})
	if _, err := o.Open(&live.Start{Wake: func(string) error { return nil }}); err != nil {
		t.Fatal(err)
	}
	var fetched []string
	for range 3 {
		if err := o.write(new(resolve.Totals)); err != nil {
			t.Fatal(err)
		}
		for _, file := range glob(t, dir, "*") {
			fetched = append(fetched, filepath.Base(file))
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := o.End(); err != nil {
		t.Fatal(err)
	}
	if want := []string{"report.zst", "report.zst.1", "report.zst.2"}; !slices.Equal(fetched, want) {
		t.Errorf("%q, want %q", fetched, want)
	}
}
