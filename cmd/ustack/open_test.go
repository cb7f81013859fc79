package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestOpen: open chooses the report by what is in the trace, and prints what the command
// for that prints.
func TestOpen(t *testing.T) {
	const stacks = `            prog-7       [000] .....     1.000000: sys_openat(dfd: 0)
            prog-7       [000] .....     1.000001: <user stack trace>
 =>  <0000000000001000> : <0x00000000deadbeef>
`
	dir := t.TempDir()
	other := filepath.Join(dir, "stacks.txt")
	if err := os.WriteFile(other, []byte(stacks), 0o666); err != nil {
		t.Fatal(err)
	}
	futexes := "../../testdata/captures/hash/pipe_default/trace.txt.zst"
	switches := filepath.Join(dir, "switches.txt")
	const sched = `            prog-7       [000] d..2.     1.000000: sched_switch: prev_comm=prog prev_pid=7 prev_prio=120 prev_state=S ==> next_comm=swapper/0 next_pid=0 next_prio=120
          <idle>-0       [000] d..2.     1.500000: sched_switch: prev_comm=swapper/0 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=prog next_pid=7 next_prio=120
`
	if err := os.WriteFile(switches, []byte(sched), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		file string
		same []string
	}{
		{futexes, []string{"futex", "--symbols"}},
		{switches, []string{"wait", "--symbols"}},
		{other, []string{"replay", "--symbols", "--stitch"}},
	} {
		got, _ := runs(t, exitOK, "open", c.file)
		want, _ := runs(t, exitOK, append(c.same, c.file)...)
		if got != want || got == "" {
			t.Errorf("%s: got\n%s\nwant\n%s", c.file, got, want)
		}
		got, _ = runs(t, exitOK, "open", "--json", c.file)
		want, _ = runs(t, exitOK, append(c.same, "--json", c.file)...)
		if got != want || !strings.HasPrefix(got, "{") {
			t.Errorf("%s as JSON: got\n%.2000s\nwant\n%.2000s", c.file, got, want)
		}
	}
	before, _ := runs(t, exitOK, "open", "-q", futexes)
	if after, _ := runs(t, exitOK, "open", futexes, "-q"); after != before {
		t.Errorf("-q after the file: got\n%s\nwant\n%s", after, before)
	}
	if _, stderr := runs(t, exitOK, "open", other, "-q"); stderr != "" {
		t.Errorf("-q: %s", stderr)
	}
	for _, args := range [][]string{{"open"}, {"open", "-"}} {
		if _, stderr := runs(t, exitUsage, args...); !strings.Contains(stderr, "a FILE is required") {
			t.Errorf("%v: %s", args, stderr)
		}
	}
	page, empty := filepath.Join(dir, "page.html"), filepath.Join(dir, "empty")
	runs(t, exitOK, "futex", "-q", "--format=html", "-o", page, futexes)
	if err := os.WriteFile(empty, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{page: "for a browser", empty: "an empty file"} {
		if _, stderr := runs(t, exitFailure, "open", file); !strings.Contains(stderr, want) {
			t.Errorf("%s: %s", file, stderr)
		}
	}
	if _, stderr := runs(t, exitFailure, "open", filepath.Join(dir, "none")); !strings.Contains(stderr, "no such file") {
		t.Error(stderr)
	}
}

// TestMarkdown: the tables have the locks of the report, and the text is in it.
func TestMarkdown(t *testing.T) {
	const trace = "../../testdata/captures/hash/pipe_default/trace.txt.zst"
	got, _ := runs(t, exitOK, "futex", "--format=markdown", trace)
	text, _ := runs(t, exitOK, "futex", "--by=object", trace)
	verbose, _ := runs(t, exitOK, "futex", "-v", "--by=object", trace)
	for _, part := range []string{text, verbose, "| #5 <code>", "| 11 more |"} {
		if !strings.Contains(got, part) {
			t.Errorf("no\n%s\nin\n%s", part, got)
		}
	}
	out := filepath.Join(t.TempDir(), "report.md")
	if stdout, _ := runs(t, exitOK, "futex", "--format=markdown", "-o", out, trace); stdout != "" {
		t.Errorf("standard output: %s", stdout)
	}
	if file, err := os.ReadFile(out); err != nil || string(file) != got {
		t.Errorf("%v: the file is another one", err)
	}
}

// TestMarkdownOfWait: the same of wait, by each sort of row; of its own text, open says what
// it is.
func TestMarkdownOfWait(t *testing.T) {
	const trace = "../../testdata/captures/hash/pipe_default/trace.txt.zst"
	for _, by := range []string{"stack", "call", "kind", "waker", "thread"} {
		got, _ := runs(t, exitOK, "wait", "--format=markdown", "--by="+by, trace)
		text, _ := runs(t, exitOK, "wait", "--by="+by, trace)
		verbose, _ := runs(t, exitOK, "wait", "-v", "--by="+by, trace)
		for _, part := range []string{text, verbose, "| Waited | Waits | p99 | Max | Most of it at |\n|---|--:|--:|--:|--:|---|\n| <code>"} {
			if !strings.Contains(got, part) {
				t.Errorf("%s: no\n%s\nin\n%s", by, part, got)
			}
		}
		for line := range strings.Lines(got) {
			if strings.HasPrefix(line, "| ") && strings.Count(line, "|") != 7 {
				t.Errorf("%s: not 6 cells: %s", by, line)
			}
		}
	}
	runs(t, exitUsage, "wait", "--format=markdown", "--interval=1s", "--duration=1s")
}
