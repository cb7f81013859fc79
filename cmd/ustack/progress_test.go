package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ustack/cmd/ustack/internal/terminaltest"
)

// TestProgressReplay: while a trace is read, the terminal shows how far, in one line, which is
// gone at the end.
func TestProgressReplay(t *testing.T) {
	name := filepath.Join(t.TempDir(), "trace \033[31m.txt")
	line := "            bash-1     [000] .....     1.000000: sched_wakeup: comm=x pid=1 prio=120 target_cpu=000\n"
	if err := os.WriteFile(name, []byte("# tracer: nop\n#\n"+strings.Repeat(line, 100_000)), 0o600); err != nil {
		t.Fatal(err)
	}
	person, tty := terminaltest.Open(t)
	screen := terminaltest.Watch(t, person)
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	code := make(chan int, 1)
	go func() {
		defer write.Close()
		defer tty.Close()
		code <- run([]string{"replay", "--hold-lines=1", name}, strings.NewReader(""), write, tty)
	}()
	seen := screen.Until(" left") // the pipe is full
	if !strings.Contains(seen, `reading trace \x1b[31m.txt: `) || strings.ContainsAny(seen, "\033\n") {
		t.Errorf("%q", seen)
	}
	if n, err := io.Copy(io.Discard, read); err != nil || n == 0 {
		t.Errorf("%d bytes, %v", n, err)
	}
	if got := <-code; got != exitOK {
		t.Errorf("exit code %d", got)
	}
	seen = screen.Rest()
	if before, _, ok := strings.Cut(seen, "ustack: "); !ok || !strings.HasSuffix(before, " \r") {
		t.Errorf("%q", seen)
	}
}

// TestProgressStdin: what reads a terminal says so at once.
func TestProgressStdin(t *testing.T) {
	for _, args := range [][]string{{"futex"}, {"replay"}, {"wait", "-"}, {"check-redaction"}, {"diff", "-", "/dev/null"}} {
		person, tty := terminaltest.Open(t)
		screen := terminaltest.Watch(t, person)
		code := make(chan int, 1)
		go func() {
			defer tty.Close()
			code <- run(args, tty, io.Discard, tty)
		}()
		screen.Until("reading the trace from this terminal, up to Ctrl-D")
		const ctrlD = 4
		if _, err := person.Write([]byte{ctrlD}); err != nil {
			t.Fatal(err)
		}
		<-code
		if seen := screen.Rest(); strings.Count(seen, "from this terminal") != 1 {
			t.Errorf("%v: %q", args, seen)
		}
	}
}

// TestProgressStdinPID: a process to select, and nothing to select it from, is a mistake at
// a terminal.
func TestProgressStdinPID(t *testing.T) {
	person, tty := terminaltest.Open(t)
	defer tty.Close()
	screen := terminaltest.Watch(t, person)
	if _, err := person.Write([]byte{4}); err != nil { // Ctrl-D
		t.Fatal(err)
	}
	if code := run([]string{"futex", "-p", "1"}, tty, io.Discard, tty); code != exitUsage {
		t.Fatalf("exit code %d", code)
	}
	screen.Until("to trace it now: ustack futex --live -p PID")
}

// TestProgressFetching: while a server has not answered, the terminal says what is fetched
// from where, in every command that fetches, and the line is gone before the output comes.
func TestProgressFetching(t *testing.T) {
	trace := "../../testdata/captures/hash/pipe_default/trace.txt.zst"
	for _, args := range [][]string{{"needs", "--debuginfod", trace}, {"explain", "--debuginfod", trace + ":60"}} {
		seen := make(chan struct{})
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			<-seen
			http.NotFound(w, r)
		}))
		t.Setenv("DEBUGINFOD_URLS", server.URL)
		t.Setenv("DEBUGINFOD_CACHE_PATH", t.TempDir())
		t.Setenv("DEBUGINFOD_TIMEOUT", "600")
		t.Setenv("DEBUGINFOD_MAXTIME", "600")
		person, tty := terminaltest.Open(t)
		screen := terminaltest.Watch(t, person)
		go func() {
			defer tty.Close()
			run(args, strings.NewReader(""), tty, tty)
		}()
		text := screen.Until(" from " + strings.TrimPrefix(server.URL, "http://"))
		if !strings.Contains(text, "fetching the ") {
			t.Errorf("%v: %q", args, text)
		}
		close(seen)
		if rest := screen.Rest(); !strings.Contains(rest, "\n") || strings.Contains(rest[strings.LastIndex(rest, " \r")+1:], "fetching") {
			t.Errorf("%v: %q", args, rest)
		}
		server.Close()
	}
}
