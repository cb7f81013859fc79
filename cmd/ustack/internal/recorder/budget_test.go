package recorder

import (
	"bytes"
	"errors"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ustack/cmd/ustack/internal/budget"
	"ustack/cmd/ustack/internal/live"
	"ustack/filemap"
	"ustack/filemap/resolve"
	"ustack/tracefs/capturetest"
)

// budgetFlags are flags as a user gives them.
func budgetFlags(t *testing.T, args ...string) *budget.Flags {
	t.Helper()
	var f budget.Flags
	set := flag.NewFlagSet("record", flag.ContinueOnError)
	f.Register(set)
	if err := set.Parse(args); err != nil {
		t.Fatal(err)
	}
	return &f
}

// opened opens a budget.
func opened(t *testing.T, out string, args ...string) *Budget {
	t.Helper()
	return openedSaying(t, t.Logf, out, args...)
}

// openedSaying opens a budget that reports to say.
func openedSaying(t *testing.T, say func(string, ...any), out string, args ...string) *Budget {
	t.Helper()
	b, err := OpenBudget(budgetFlags(t, args...), out, "/proc", say)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestRingBudget: a ring writes the reports of its budget and no more, also after a restart, and
// counts the others in the next report.
func TestRingBudget(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "report.zst")
	trace := capturetest.Read(t, "../../../../testdata/git-grep/trace.txt.zst")
	var said bytes.Buffer
	run := func(triggers int, args ...string) {
		t.Helper()
		b := opened(t, name, args...)
		o := NewRing(Options{Name: name, Proc: "/proc", Version: "test", Budget: b, Reporter: &live.Reporter{Command: "record", Out: &said}}, RingOptions{MaxFiles: 9})
		at := time.Now()
		o.now = func() time.Time { at = at.Add(leastWhile); return at } // refusals are apart
		if _, err := o.Open(&live.Start{Wake: func(string) error { return nil }}); err != nil {
			t.Fatal(err)
		}
		for range triggers {
			if err := o.Batch(resolved(t, trace)); err != nil {
				t.Fatal(err)
			}
			o.trigger("test", nil)
			if _, err := o.Step(new(resolve.Totals)); err != nil {
				t.Fatal(err)
			}
		}
		if err := errors.Join(o.End(), b.Close()); err != nil {
			t.Fatal(err)
		}
	}
	run(1, "--budget=2/day")
	run(3, "--budget=2/day")
	if got := glob(t, dir, "report.zst*"); len(got) != 2 {
		t.Errorf("reports %q of a budget of two", got)
	}
	if n := strings.Count(said.String(), "the budget of this day is used: the next one begins in 2"); n != 1 {
		t.Errorf("said %d times that the budget is used: %s", n, &said)
	}
	run(1, "--budget=3/day")
	head := capturetest.Read(t, name+".2")
	if !bytes.Contains(head, []byte("# ustack: refused=2\n")) {
		t.Errorf("the next report does not say what was left out: %.600s", head)
	}
	used := int64(0)
	for _, name := range glob(t, dir, "report.zst*") {
		st, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		used += st.Size()
	}
	b, _, err := budget.Open(filepath.Join(dir, "ustack.state"), budget.Limits{Bytes: 1 << 30, Reports: 4}, budget.Clock("/proc"))
	if err != nil {
		t.Fatal(err)
	}
	if left, err := b.Left(); err != nil || left.Bytes != 1<<30-used || left.Reports != 1 {
		t.Errorf("%+v is left, %v, and %d bytes were written", left, err, used)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
}

// noFiles are no mapped files.
func noFiles() []*filemap.File { return nil }

func glob(t *testing.T, dir, pattern string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// TestReportBudget: one report is never larger than what is left, and what did not fit is
// counted; without room for a report, there is none.
func TestReportBudget(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "report.zst")
	trace := capturetest.Read(t, "../../../../testdata/git-grep/trace.txt.zst")
	b := opened(t, name, "--budget=64K/day")
	var said bytes.Buffer
	o := NewReport(Options{Name: name, Proc: "/proc", Version: "test", Budget: b, Reporter: &live.Reporter{Command: "record", Out: &said}}, 0)
	if _, err := o.Open(&live.Start{Files: noFiles}); err != nil {
		t.Fatal(err)
	}
	for range 100 {
		if err := o.Batch(resolved(t, trace)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(o.Close(new(resolve.Totals)), o.End()); err != nil {
		t.Fatal(err)
	}
	st, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	if st.Size() > 64<<10 || st.Size() < 48<<10 || !strings.Contains(said.String(), "left out") {
		t.Errorf("%d bytes, said %q", st.Size(), &said)
	}
	o.opt.Name = filepath.Join(dir, "next")
	if _, err := o.Open(&live.Start{Files: noFiles}); !errors.Is(err, budget.ErrSpent) {
		t.Errorf("the next report: %v", err)
	}
	if _, err := os.Stat(o.opt.Name + ".partial"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the next report is there: %v", err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestBudgetPath: the state is beside the report, unless there is no such place.
func TestBudgetPath(t *testing.T) {
	for _, c := range []struct {
		args      []string
		out, want string
		wrong     bool
	}{
		{nil, "x", "", false},
		{[]string{"--state=s"}, "x", "", false},
		{[]string{"--budget=1/day"}, "a/x", "a/ustack.state", false},
		{[]string{"--budget=1/day", "--state=s"}, "/dev/stdout", "s", false},
		{[]string{"--budget=1/day"}, "/dev/stdout", "", true},
		{[]string{"--budget=1/day"}, "/proc/self/fd/3", "", true},
		{[]string{"--duplicates=count"}, "x", "", true},
		{[]string{"--duplicates=write"}, "x", "", false},
	} {
		if got, err := budgetFlags(t, c.args...).Path(c.out); got != c.want || err != nil != c.wrong {
			t.Errorf("%q -o %s: %q, %v", c.args, c.out, got, err)
		}
	}
	if b, err := OpenBudget(budgetFlags(t), "x", "/proc", t.Logf); b != nil || err != nil {
		t.Errorf("without a budget: %v, %v", b, err)
	}
	if room, err := (*Budget)(nil).Room(5); room != 5 || err != nil || (*Budget)(nil).Close() != nil {
		t.Errorf("%d, %v", room, err)
	}
}
