package recorder

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"ustack/cmd/ustack/internal/live"
	"ustack/filemap/resolve"
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
