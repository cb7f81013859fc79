//go:build linux

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"ustack/filemap/space"
	"ustack/tracefs/capturetest"
)

// namedLock is a lock of the program locks.c, and the variable that it is in,
// "-" for none.
type namedLock struct{ name, address string }

// buildLocks builds the program and its library.
func buildLocks(t *testing.T, flags ...string) (program, library string) {
	t.Helper()
	dir := t.TempDir()
	program, library = filepath.Join(dir, "locks"), filepath.Join(dir, "liblocks.so")
	compile(t, library, "locks.c", "-DLIBRARY", "-shared", "-fPIC")
	compile(t, program, "locks.c", flags...)
	return program, library
}

// readLocks reads what the program says of its locks, up to "done".
func readLocks(t *testing.T, r io.Reader) (locks []namedLock) {
	t.Helper()
	for lines := bufio.NewScanner(r); lines.Scan() && lines.Text() != "done"; {
		name, address, ok := strings.Cut(lines.Text(), " ")
		if !ok {
			t.Fatalf("%q", lines.Text())
		}
		locks = append(locks, namedLock{name, address})
	}
	if len(locks) != 8 {
		t.Fatalf("%d locks: %v", len(locks), locks)
	}
	return locks
}

// symbolLock is a lock in the JSON report.
type symbolLock struct {
	Address, Symbol string
	Path            string `json:"symbol_path"`
	Trust           string `json:"symbol_trust"`
	Source          string `json:"symbol_source"`
}

// checkLocks holds the locks of a report against what the program says.
func checkLocks(t *testing.T, report []byte, locks []namedLock, program, library, trust string) {
	t.Helper()
	for _, wrong := range wrongLocks(t, report, locks, program, library, trust) {
		t.Error(wrong)
	}
}

// wrongLocks are those that the report has otherwise.
func wrongLocks(t *testing.T, report []byte, locks []namedLock, program, library, trust string) (wrong []string) {
	t.Helper()
	var r struct{ Locks []symbolLock }
	if err := json.Unmarshal(report, &r); err != nil {
		t.Fatalf("%v\n%s", err, report)
	}
	for _, l := range locks {
		var got *symbolLock
		for i := range r.Locks {
			if r.Locks[i].Address == l.address {
				got = &r.Locks[i]
			}
		}
		want := symbolLock{l.address, l.name, program, trust, "symtab"}
		if strings.HasPrefix(l.name, "library") || strings.HasPrefix(l.name, "table") {
			want.Path = library
		}
		if l.name == "-" {
			want = symbolLock{Address: l.address}
		}
		if got == nil || *got != want {
			wrong = append(wrong, fmt.Sprintf("%+v, want %+v", got, want))
		}
	}
	return wrong
}

// TestFutexLiveLocks: locks in the data of a program and of a library that it
// opens while it is traced have the names of their variables, others none. A process
// that has ended cannot be asked what it had mapped: one that ends with its last lock
// is asked in time, unless others keep us from it each time.
func TestFutexLiveLocks(t *testing.T) {
	capturetest.NeedLong(t)
	needLive(t)
	const tries = 5
	for _, flags := range [][]string{{"-fPIE", "-pie"}, {"-fno-pie", "-no-pie"}} {
		program, library := buildLocks(t, flags...)
		saved := filepath.Join(t.TempDir(), "saved")
		report, locks := liveLocks(t, 2*time.Second, program, library, "--save", saved)
		checkLocks(t, report, locks, program, library, "verified")
		checkSavedLocks(t, saved, locks, program, library)
		var wrong []string
		for try := range tries {
			report, locks := liveLocks(t, 0, program, library)
			if wrong = wrongLocks(t, report, locks, program, library, "verified"); len(wrong) == 0 {
				break
			}
			t.Logf("try %d: %q", try, wrong)
		}
		if len(wrong) > 0 {
			t.Errorf("the locks of a program that ends at once were not named in %d tries: %q", tries, wrong)
		}
	}
}

// checkSavedLocks replays what was saved: locks have the same names, and none if the mappings
// are of another trace.
func checkSavedLocks(t *testing.T, saved string, locks []namedLock, program, library string) {
	t.Helper()
	spaces := filepath.Join(saved, savedSpacesFile)
	replay := func() []byte {
		var out, messages bytes.Buffer
		args := []string{"futex", "-q", "--symbols", "--json", "--top", "0", "--maps", spaces, filepath.Join(saved, savedTraceFile)}
		if code := run(args, strings.NewReader(""), &out, &messages); code != exitOK {
			t.Fatalf("%q: exit code %d: %s", args, code, &messages)
		}
		return out.Bytes()
	}
	checkLocks(t, replay(), locks, program, library, "verified")
	log, err := os.ReadFile(spaces)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, _ := bytes.Cut(log, []byte("\ntrace "))
	at, rest, _ := bytes.Cut(rest, []byte("\n"))
	other := slices.Concat(head, []byte("\ntrace "), at[:len(at)-16], []byte("0123456789abcdef\n"), rest)
	names := filepath.Join(saved, "names.txt") // is of that trace, too
	if err := errors.Join(os.WriteFile(spaces, other, 0o600), os.Remove(names)); err != nil {
		t.Fatal(err)
	}
	for i := range locks {
		locks[i].name = "-"
	}
	checkLocks(t, replay(), locks, program, library, "")
}

// liveLocks traces the program, which goes on for a while after its last lock.
func liveLocks(t *testing.T, after time.Duration, program, library string, flags ...string) (report []byte, locks []namedLock) {
	t.Helper()
	return tracedLocks(t, after, append([]string{"futex", "--live", "-q", "--symbols", "--json", "--top", "0"}, flags...), program, library)
}

// tracedLocks runs a command that traces the program, and returns what it prints.
func tracedLocks(t *testing.T, after time.Duration, args []string, program, library string) (printed []byte, locks []namedLock) {
	t.Helper()
	cmd := exec.Command(ustackBinary(t), append(args, "--", program, library)...)
	var out bytes.Buffer
	cmd.Stdout = &out
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if after == 0 {
		in.Close()
	}
	said, err := cmd.StderrPipe() // what the program prints comes here, if the report goes to stdout
	if args[0] == "record" {
		cmd.Stdout, cmd.Stderr = nil, t.Output()
		said, err = cmd.StdoutPipe()
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(said)
	var words bytes.Buffer
	for !strings.HasSuffix(words.String(), "done\n") {
		line, err := r.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(line, "ustack") {
			words.WriteString(line)
		}
	}
	time.Sleep(after)
	in.Close()
	rest, err := io.ReadAll(r)
	if err := errors.Join(err, cmd.Wait()); err != nil {
		t.Fatalf("%v\n%s", err, rest)
	}
	return out.Bytes(), readLocks(t, &words)
}

// TestFutexMapsLocks: a dump of mappings names the locks of a saved trace, if it
// is of the program that the trace is of.
func TestFutexMapsLocks(t *testing.T) {
	capturetest.SkipShort(t)
	for _, flags := range [][]string{{"-fPIE", "-pie"}, {"-fno-pie", "-no-pie"}} {
		program, library := buildLocks(t, flags...)
		cmd := exec.Command(program, library)
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		locks := readLocks(t, out)
		dump, trace := filepath.Join(t.TempDir(), "maps.tar"), filepath.Join(t.TempDir(), "trace.txt")
		pid := cmd.Process.Pid
		now := int64(space.Monotonic())
		if code := run([]string{"maps", "--save", dump, fmt.Sprint(pid)}, strings.NewReader(""), io.Discard, t.Output()); code != 0 {
			t.Fatalf("maps --save: %d", code)
		}
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			comm  string
			at    int64
			trust string
		}{{"locks", now, "late"}, {"locks", now - 100e9, "late"}, {"other", now, ""}} {
			if err := os.WriteFile(trace, waitsFor(c.comm, pid, c.at/1000, locks), 0o600); err != nil {
				t.Fatal(err)
			}
			var report bytes.Buffer
			args := []string{"futex", "--symbols", "--json", "--top", "0", "--maps", dump, trace}
			if code := run(args, strings.NewReader(""), &report, t.Output()); code != 0 {
				t.Fatalf("%v: %d", args, code)
			}
			want := append([]namedLock(nil), locks...)
			for i := range want {
				if c.trust == "" {
					want[i].name = "-"
				}
			}
			checkLocks(t, report.Bytes(), want, program, library, c.trust)
			report.Reset()
			args = []string{"futex", "--symbols", "--maps", dump, trace}
			if code := run(args, strings.NewReader(""), &report, t.Output()); code != 0 {
				t.Fatalf("%v: %d", args, code)
			}
			if text := "mutex cache_mutex (" + locks[0].address + ") in "; strings.Contains(report.String(), text) != (c.trust != "") {
				t.Errorf("%q: %s", text, &report)
			}
		}
	}
}

// waitsFor is a trace of a thread that waits for locks, from a time in
// microseconds on.
func waitsFor(comm string, pid int, us int64, locks []namedLock) []byte {
	var b bytes.Buffer
	b.WriteString("# tracer: nop\n#\n")
	for i, l := range locks {
		at := us + int64(100*i)
		fmt.Fprintf(&b, "%16s-%-7d [000] ..... %5d.%06d: sys_futex(uaddr: %s, op: 0x80, val: 2, utime: 0, uaddr2: 0, val3: 0)\n", comm, pid, at/1e6, at%1e6, l.address)
		at += 50
		fmt.Fprintf(&b, "%16s-%-7d [000] ..... %5d.%06d: sys_futex -> 0x0\n", comm, pid, at/1e6, at%1e6)
	}
	return b.Bytes()
}
