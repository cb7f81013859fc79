package report

import (
	"strings"
	"testing"
	"unicode/utf8"

	"ustack/filemap"
	"ustack/filemap/symbol"
	"ustack/render/brief"
	"ustack/render/futex"
	"ustack/render/phrase"
)

// TestFolded: lines that end with the code that is looked for take two lines, and no more.
func TestFolded(t *testing.T) {
	const split = "  meanwhile   owner ran 18 %, runnable 33 %, blocked 34 % (I/O (state D) in hold_fault), hand-over 8 %"
	const root = "  in the end  worker-1080 blocked in I/O (state D) in fdatasync 49 % (not the owner itself 12 %) at flush"
	for _, c := range []struct{ line, want string }{
		{"  meanwhile   owner ran 100 %", "  meanwhile   owner ran 100 %"},
		{split, "  meanwhile   owner ran 18 %, runnable 33 %, blocked 34 % (I/O (state D) in\n              hold_fault), hand-over 8 %"},
		{root, "  in the end  worker-1080 blocked in I/O (state D) in fdatasync 49 % (not the\n              owner itself 12 %) at flush"},
		{"  in the end  fp-w1-92 runnable 8 % at flush < " + strings.Repeat("work < ", 9), "  in the end  fp-w1-92 runnable 8 % at flush < work < work < work < work < work…"},
		{"  meanwhile   owner ran 8 %, runnable 14 %, hand-over 23 %, unknown 55 %; barged 7 %", "  meanwhile   owner ran 8 %, runnable 14 %, hand-over 23 %, unknown 55 %"},
		{split + strings.Repeat(", more 1 %", 20), "  meanwhile   owner ran 18 %, runnable 33 %, blocked 34 % (I/O (state D) in\n              hold_fault), hand-over 8 %, more 1 %, more 1 %, more 1 %, more 1 …"},
		{"  waiting     " + strings.Repeat("worker-1080 3 %, ", 8), "  waiting     worker-1080 3 %, worker-1080 3 %, worker-1080 3 %, worker-1080 3 …"},
	} {
		lines := folded(c.line)
		for i := range lines {
			lines[i] = phrase.Clip(lines[i], brief.Width)
		}
		if got := strings.Join(lines, "\n"); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

// TestRow: the function that waits is in the line of a lock, whatever else has to be left
// out.
func TestRow(t *testing.T) {
	program := &filemap.File{Path: "/opt/shopd"}
	waits := futex.Stack{}
	waits.Frames = append(waits.Frames, futex.Frame{File: program, Name: &symbol.Name{Function: "sell", File: "shopd.cc", Line: 77}}, futex.Frame{File: program, Name: &symbol.Name{Function: "serve", File: "shopd.cc", Line: 9}})
	s := &screen{text: &text{r: &futex.Report{}}}
	for _, c := range []struct {
		variable string
		process  *futex.Process
		want     string
	}{
		{"", nil, "0x7f0012345678 at sell shopd.cc:77 < serve shopd.…"},
		{"pool", nil, "pool (0x7f0012345678) at sell shopd.cc:77 < serve…"},
		{"accounts_lock_of_all", nil, "accounts_lock_of_all at sell shopd.cc:77"},
		{"", &futex.Process{TGID: 1234567, Comm: "shopd"}, "0x7f0012345678 in PID 1234567 at sell shopd.cc:77"},
	} {
		l := &futex.Lock{Kind: futex.Mutex, Address: 0x7f0012345678, Process: c.process, WaitStacks: []futex.StackShare{{Stack: &waits}}}
		if c.variable != "" {
			l.Variable = &symbol.Variable{Name: c.variable}
		}
		got := phrase.Clip(s.row("#2 ", l), brief.Width)
		if !strings.Contains(got, c.want) || utf8.RuneCountInString(got) > brief.Width {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

// TestFitting: the longest hold is in the line.
func TestFitting(t *testing.T) {
	const ms = 1_000_000
	h := &futex.Holds{Count: 83, Exact: 79, Total: 323 * ms, P99: 4 * ms, Max: 5 * ms, Unbounded: 4}
	r := &futex.Report{}
	r.Scheduled = true
	for _, c := range []struct {
		brief bool
		want  string
	}{
		{false, "an unknown time in 4 holds; 323 ms in 79 others, mean 4.09 ms, p99 4.00 ms, max 5.00 ms"},
		{true, "an unknown time in 4 holds; 323 ms in 79 others, max 5.00 ms"},
	} {
		if got := (holdText{&text{r: r, opt: Options{Brief: c.brief}}}).fitting(h); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

// TestFoldedPlace: a place in the source is not cut off by the names of C++ before it.
func TestFoldedPlace(t *testing.T) {
	for place, want := range map[string]string{
		"at main.c:1": "at main.c:1",
		"at contend+0x12e1 < contend+0x1509 < contend (61 % of the time)":                                                                           "at contend+0x12e1 < contend+0x1509 < contend (61 % of the time)",
		"at contend+0x12e1 < contend+0x1509 < contend+0x15a0 (61 % of the time)":                                                                    "at contend+0x12e1 < contend+0x1509 < contend+0x15a0 (61 %)",
		"at leveldb::port::CondVar::Wait() < leveldb::DBImpl::Write(…) db_impl.cc:1209 (99 % of the time)":                                          "at leveldb::port::CondVar::Wait() < leveldb::DBImpl::Write(…)|db_impl.cc:1209 (99 % of the time)",
		"at evbuffer_add+0xe8 < send_turn_session_info turn_admin_server.c:1469 < report_turn_session_info ns_turn_server.c:612 (47 % of the time)": "at evbuffer_add+0xe8 < send_turn_session_info|turn_admin_server.c:1469 < … (47 % of the time)",
	} {
		indent := strings.Repeat(" ", labelled)
		lines := folded(indent + place)
		if got := strings.ReplaceAll(strings.Join(lines, "|"), indent, ""); got != want {
			t.Errorf("%q, want %q", got, want)
		}
		for _, line := range lines {
			if n := utf8.RuneCountInString(line); n > brief.Width {
				t.Errorf("%d columns: %q", n, line)
			}
		}
	}
}
