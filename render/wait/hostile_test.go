package wait_test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"ustack/render/wait"
	waitreport "ustack/render/wait/report"
	"ustack/tracefs/syscalls"
)

// checked writes a report in all its forms, and holds sums against each other.
func checked(t *testing.T, a *wait.Analysis) {
	t.Helper()
	var known, unknown wait.Sum
	for _, by := range []wait.By{wait.ByStack, wait.ByCall, wait.ByKind, wait.ByWaker, wait.ByThread} {
		r := a.Report(wait.View{By: by})
		var rows, doubt int64
		for _, x := range r.Rows {
			rows += x.Count()
			doubt += x.Doubt.Waits
			if x.Time < 0 || x.OpenTime < 0 || x.Ready < 0 || x.Disk > x.All() || x.Doubt.AtMost < 0 {
				t.Errorf("by %s: a row has %+v", by, *x)
			}
		}
		known, unknown = r.Known, wait.Sum{}
		for _, u := range r.Unknown {
			unknown.Waits += u.Waits
			unknown.Open += u.Open
		}
		if rows != known.Count()+unknown.Count() || doubt != r.Doubt.Waits {
			t.Errorf("by %s: rows have %d waits and %d doubtful, the sums %d, %d and %d", by, rows, doubt, known.Count(), unknown.Count(), r.Doubt.Waits)
		}
		var text strings.Builder
		if err := waitreport.Text(&text, r, waitreport.Options{}); err != nil {
			t.Error(err)
		}
		for line := range strings.Lines(text.String()) {
			if n := len([]rune(line)); n > 81 {
				t.Errorf("by %s: %d columns: %q", by, n-1, line)
			}
		}
		if err := waitreport.JSON(io.Discard, r); err != nil {
			t.Error(err)
		}
	}
}

// TestHostile: with room for hardly anything, the sums still fit together.
func TestHostile(t *testing.T) {
	for seed := range uint64(6) {
		m := newMachine(seed, 3, 40)
		m.run(3000)
		for _, opt := range []wait.Options{{}, {Machine: syscalls.AMD64, Stacks: 3, Threads: 30, Cells: 5}, {AllCalls: true, Some: true, Cells: 1}} {
			a := analyse(t, opt, m.text(2))
			checked(t, a)
			if r := a.Report(wait.View{By: wait.ByStack}); r.Known.Count()+r.Doubt.Waits == 0 && opt.Machine != syscalls.NoTable {
				t.Errorf("%+v: nothing", opt)
			}
		}
	}
}

// TestMemory: threads, calls and stacks of which there are ever new ones take bounded
// memory.
func TestMemory(t *testing.T) {
	var b strings.Builder
	rnd := rand.New(rand.NewPCG(1, 1))
	for i := range 60_000 {
		at, tid := 1000+10*i, 100+i
		fmt.Fprintf(&b, "%16s-%-7d [000] d..2. %5d.%06d: sched_switch: prev_comm=c%d prev_pid=%d prev_prio=120 prev_state=S ==> next_comm=b next_pid=%d next_prio=120\n",
			"c", tid, at/1_000_000, at%1_000_000, i, tid, 100+rnd.IntN(i+1))
	}
	a := analyse(t, wait.Options{Threads: 1000, Stacks: 10, Cells: 100}, b.String())
	r := a.Report(wait.View{By: wait.ByThread})
	if r.Loss.Forgotten == 0 || r.RowCount > 2200 {
		t.Errorf("%d rows, %d threads forgotten", r.RowCount, r.Loss.Forgotten)
	}
}

// FuzzAnalysis: no trace breaks an analysis.
func FuzzAnalysis(f *testing.F) {
	for seed := range uint64(3) {
		m := newMachine(seed, 2, 3)
		m.run(60)
		f.Add(m.text(int(seed)))
	}
	f.Add("sys_exit: NR -1 = 0\n")
	f.Fuzz(func(t *testing.T, text string) {
		a := wait.New(wait.Options{Stacks: 20, Threads: 8, Cells: 30})
		if drive(text, a) != nil {
			return
		}
		checked(t, a)
	})
}
