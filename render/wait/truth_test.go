package wait_test

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"ustack/filemap/resolve"
	"ustack/render/wait"
	"ustack/tracefs"
	"ustack/tracefs/capturetest"
	"ustack/tracefs/input"
	"ustack/tracefs/syscalls"
)

// drive reads a trace into an analysis; nil if it is none.
func drive(text string, a *wait.Analysis) error {
	trace, err := input.OpenAll([]string{"-"}, strings.NewReader(text), input.Options{Events: true})
	if err != nil {
		return err
	}
	defer trace.Close()
	res := resolve.New(resolve.Options{Stitch: true, Sources: 1, Hold: resolve.Limits{Lines: 200_000, Bytes: 1 << 20, Time: tracefs.Time(2e9)}})
	for {
		b := new(tracefs.Batch)
		err := trace.Next(b)
		res.Add(b)
		if err != nil {
			res.End()
		}
		for h := res.Next(); h != nil; h = res.Next() {
			if err := a.Batch(h); err != nil {
				return err
			}
			res.Release(h)
		}
		if err == io.EOF {
			return a.Close(res.Totals())
		}
		if err != nil {
			return err
		}
	}
}

// analyse reads a text, again if need be.
func analyse(t testing.TB, opt wait.Options, text string) *wait.Analysis {
	t.Helper()
	a := wait.New(opt)
	if err := drive(text, a); err != nil {
		t.Fatal(err)
	}
	if a.NeedsGaps() {
		opt.Gaps = a.Gaps()
		a = wait.New(opt)
		if err := drive(text, a); err != nil {
			t.Fatal(err)
		}
	}
	return a
}

// counts is how many waits a test has looked at.
type counts struct{ all, certain, kindless, doubtful, wrong int }

// compare holds the rows of a report against the truth: each wait has a stack of its own,
// so each row is one wait.
func compare(t *testing.T, seed uint64, m *machine, r *wait.Report, names *syscalls.Numbers, c *counts) {
	t.Helper()
	c.all += len(m.waits)
	seen := make(map[int]bool)
	for _, row := range r.Rows {
		if len(row.Sites) == 0 {
			c.doubtful += int(row.Doubt.Waits)
			continue
		}
		site := &row.Sites[0]
		if site.Stack == nil {
			continue // the stack was lost
		}
		n := int(site.Stack.Frames[0].Address)
		if n < 1 || n > len(m.waits) || seen[n] {
			t.Errorf("seed %d: a row of stack %d, again: %v", seed, n, seen[n])
			c.wrong++
			continue
		}
		seen[n] = true
		w := m.waits[n-1]
		if site.Kind == wait.Unknown {
			c.kindless++
		} else {
			c.certain++
		}
		if wrong := wrongs(w, row, site, names, m.t); wrong != "" {
			t.Errorf("seed %d: wait %d is %+v: %s, in %+v", seed, n, *w, wrong, *row)
			c.wrong++
		}
	}
}

// wrongs says what a row has wrong.
func wrongs(w *truth, row *wait.Row, site *wait.Site, names *syscalls.Numbers, end int) string {
	var out []string
	fail := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	switch want := names.Name(syscalls.AMD64, int32(w.call)); {
	case site.Kind == wait.Unknown:
	case w.call == faulted && site.Kind != wait.PageFault, w.call >= 0 && site.Call != want:
		fail("it waits in %s %s", site.Kind, site.Call)
	}
	if len(row.Threads) != 1 || int(row.Threads[0].TID) != w.tid {
		fail("of another thread")
	}
	if (row.Disk > 0) != (w.state == 'D') && row.All() > 0 {
		fail("state %c", w.state)
	}
	switch {
	case row.Open == 1:
		if w.woken != 0 && w.woken != w.off || row.Waits != 0 || row.OpenTime != tracefs.Time(end-w.off)*1000 {
			if w.woken == 0 || int(row.OpenTime) > (end-w.off)*1000 {
				fail("not ended")
			}
		}
	case row.Unsplit == 1:
		if w.on > 0 && row.Time != tracefs.Time(w.on-w.off)*1000 {
			fail("it takes %d in all", row.Time)
		}
	case w.woken == 0 || row.Time != tracefs.Time(w.woken-w.off)*1000:
		fail("it takes %d", row.Time)
	case row.Ready != 0 && (w.on <= 0 || row.Ready != tracefs.Time(w.on-w.woken)*1000):
		fail("it is runnable for %d", row.Ready)
	}
	if len(row.Wakers) == 1 {
		x := &row.Wakers[0]
		switch {
		case x.Interrupt && w.waker != -1, x.TID != 0 && int(x.TID) != w.waker:
			fail("woken by %d", x.TID)
		case x.Stack != nil && int(x.Stack.Frames[0].Address) != stackAt+w.waker:
			fail("woken at %d", x.Stack.Frames[0].Address)
		}
	}
	return strings.Join(out, "; ")
}

// TestTruth: of what a model of a machine does, a report has nothing wrong: without loss
// every wait but the first of a thread, with loss what is certain.
func TestTruth(t *testing.T) {
	names := syscalls.NewNumbers()
	seeds, steps := uint64(12), 1500
	if capturetest.Brief() {
		seeds = 4
	}
	for _, losses := range []int{0, 3, 30} {
		var c counts
		for seed := range seeds {
			m := newMachine(seed, 1+int(seed%4), 2+int(seed%9))
			if seed%3 == 2 {
				m.omitted = 40
			}
			m.run(steps)
			opt := wait.Options{Machine: syscalls.AMD64, Stacks: 1 << 20, Cells: 1 << 20}
			r := analyse(t, opt, m.text(losses)).Report(wait.View{By: wait.ByStack})
			compare(t, seed, m, r, names, &c)
			if r.Loss.Late {
				t.Errorf("seed %d: a gap was found too late", seed)
			}
		}
		t.Logf("%d losses a trace: %+v", losses, c)
		if losses == 0 && (c.certain+c.kindless < c.all*9/10 || c.certain < c.all*8/10) || c.certain < c.all/4 || c.wrong > 0 {
			t.Errorf("%d losses a trace: %+v", losses, c)
		}
	}
}
