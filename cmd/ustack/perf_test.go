//go:build linux

package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// twice is a run that perf and ustack have traced.
type twice struct {
	perf, ustack string
	callGraph    string   // how perf unwinds
	names        bool     // ustack live names functions
	data         string   // of perf
	out          string   // of ustack live
	said         string   // by ustack live
	files        []string // of ustack, as replay takes them
}

// traceTwice runs a program that begins once both are ready. It has its files by
// then: files that are mapped while both trace are reported to perf by Linux 6.18
// as if with build IDs, which only ustack has asked for, and perf 6.1 aborts on
// them. callGraph is how perf unwinds.
func traceTwice(t testing.TB, perf, ustack, callGraph string, program ...string) *twice {
	t.Helper()
	r := &twice{perf: perf, ustack: ustack, callGraph: callGraph}
	r.trace(t, program)
	return r
}

// trace runs the program.
func (r *twice) trace(t testing.TB, program []string) {
	t.Helper()
	dir := t.TempDir()
	gate := filepath.Join(dir, "gate.so")
	compile(t, gate, "gate.c", "-shared", "-fPIC")
	saved := filepath.Join(dir, "saved")
	r.data, r.out = filepath.Join(dir, "perf.data"), filepath.Join(dir, "out")
	r.files = []string{"--maps", filepath.Join(saved, "spaces.txt"), filepath.Join(saved, "trace.txt")}
	cmd := exec.Command(program[0], program[1:]...)
	cmd.Env = append(os.Environ(), "LD_PRELOAD="+gate)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := strconv.Itoa(cmd.Process.Pid)
	const event = "syscalls:sys_enter_futex"
	control, ack := fifo(t, filepath.Join(dir, "control")), fifo(t, filepath.Join(dir, "ack"))
	one := exec.Command(r.perf, "record", "-q", "-m", "32M", "--call-graph", r.callGraph, "-e", event, "-o", r.data, "-p", pid,
		"--delay=-1", "--control=fifo:"+control.Name()+","+ack.Name())
	two := exec.Command(r.ustack, "live", "--unwind=fp", "-b", "65536", "-e", event, "-p", pid, "--save", saved, "-o", os.DevNull)
	if r.names {
		two.Args[len(two.Args)-1] = r.out
		two.Args = append(two.Args, "--format=json", "--symbols", "--no-lines")
	}
	started := &startLine{begun: make(chan struct{})}
	two.Stderr = started
	for _, c := range []*exec.Cmd{one, two} {
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
	}
	enable(t, control, ack)
	select {
	case <-started.begun:
	case <-time.After(perfPatience):
		t.Fatal("ustack live does not begin")
	}
	traces(t, two)
	if _, err := io.WriteString(in, "x\n"); err != nil {
		t.Fatal(err)
	}
	in.Close()
	for _, c := range []*exec.Cmd{cmd, one, two} {
		if err := c.Wait(); err != nil {
			t.Fatalf("%v: %v", c.Args, err)
		}
	}
	r.said = started.text.String()
}

// perfPatience is how long perf record may take to begin.
const perfPatience = time.Minute

// enable has perf record --delay=-1 --control count, and returns once it does.
func enable(t testing.TB, control, ack *os.File) {
	t.Helper()
	if _, err := io.WriteString(control, "enable\n"); err != nil {
		t.Fatal(err)
	}
	if err := ack.SetReadDeadline(time.Now().Add(perfPatience)); err != nil {
		t.Fatal(err)
	}
	if _, err := ack.Read(make([]byte, 16)); err != nil {
		t.Fatalf("perf record does not begin: %v", err)
	}
}

// fifo makes a named pipe and opens it, so that neither end waits for the other.
func fifo(t testing.TB, name string) *os.File {
	t.Helper()
	if err := syscall.Mkfifo(name, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// perfNamed is a frame as both report it.
type perfNamed struct {
	function string // "" if there is no name
	at       uint64 // in the function
	path     string
	offset   uint64 // in the file
	inferred bool
}

// begins is where the function begins in the file.
func (f *perfNamed) begins() uint64 { return f.offset - f.at }

// perfStacks are the stacks of each thread, in their order, by number.
type perfStacks struct {
	byTID  map[int][]int
	known  map[string]int // the numbers
	stacks [][]perfNamed
	events int
}

func newPerfStacks() *perfStacks {
	return &perfStacks{byTID: make(map[int][]int), known: make(map[string]int)}
}

func (n *perfStacks) add(tid int, stack []perfNamed) {
	key := fmt.Sprint(stack)
	k, ok := n.known[key]
	if !ok {
		k = len(n.stacks)
		n.known[key], n.stacks = k, append(n.stacks, slices.Clone(stack))
	}
	n.byTID[tid] = append(n.byTID[tid], k)
	n.events++
}

var (
	perfHead  = regexp.MustCompile(`^ *(\d+) +\d+\.\d+: *$`)
	perfFrame = regexp.MustCompile(`^\t *([0-9a-f]+) (.*) \((.*)\)$`)
)

// perfSays are the stacks of perf script. What it calls an address is the offset in
// the file here: our linkers lay code out so.
func (r *twice) perfSays(t testing.TB) *perfStacks {
	t.Helper()
	all := newPerfStacks()
	tid, stack := 0, []perfNamed(nil)
	r.lines(t, []string{r.perf, "script", "--no-inline", "-i", r.data, "-F", "tid,time,ip,sym,symoff,dso"}, func(line []byte) {
		switch head, frame := perfHead.FindSubmatch(line), perfFrame.FindSubmatch(line); {
		case head != nil:
			tid, _ = strconv.Atoi(string(head[1]))
			stack = stack[:0]
		case frame != nil:
			f := perfNamed{path: string(frame[3]), offset: hexNumber(t, string(frame[1]))}
			if name := string(frame[2]); name != "[unknown]" {
				at := strings.LastIndex(name, "+0x")
				f.function, f.at = name[:max(at, 0)], hexNumber(t, name[at+1:])
			}
			stack = append(stack, f)
		case len(line) == 0:
			all.add(tid, stack)
		default:
			t.Fatalf("perf script says %q", line)
		}
	})
	return all
}

// ustackSays are those of replay, with flags.
func (r *twice) ustackSays(t testing.TB, flags ...string) *perfStacks {
	t.Helper()
	return r.events(t, join([]string{r.ustack, "replay", "-q", "--format=json", "--symbols", "--no-lines"}, join(flags, r.files...)...))
}

// liveSays are those of live.
func (r *twice) liveSays(t testing.TB) *perfStacks {
	t.Helper()
	return r.events(t, []string{"cat", r.out})
}

// events are the stacks of the events in the JSON that a command writes.
func (r *twice) events(t testing.TB, args []string) *perfStacks {
	t.Helper()
	all := newPerfStacks()
	r.lines(t, args, func(line []byte) {
		var event struct {
			Type  string
			PID   int
			Stack []inferFrame
		}
		if err := json.Unmarshal(line, &event); err != nil {
			t.Fatal(err)
		}
		if event.Type != "event" {
			return
		}
		var stack []perfNamed
		for _, f := range event.Stack {
			stack = append(stack, perfNamed{f.Function, hexNumber(t, f.FunctionOffset), f.Path, hexNumber(t, f.Offset), f.Inferred})
		}
		all.add(event.PID, stack)
	})
	return all
}

// hexNumber is a number with or without 0x, 0 for nothing.
func hexNumber(t testing.TB, s string) uint64 {
	t.Helper()
	if s == "" {
		return 0
	}
	v, err := strconv.ParseUint(strings.TrimPrefix(s, "0x"), 16, 64)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// lines runs a command and calls f for each line.
func (r *twice) lines(t testing.TB, args []string, f func([]byte)) {
	t.Helper()
	cmd := exec.Command(args[0], args[1:]...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	scan := bufio.NewScanner(out)
	for scan.Scan() {
		f(scan.Bytes())
	}
	if err := cmd.Wait(); err != nil || scan.Err() != nil {
		t.Fatalf("%v: %v, %v", args, err, scan.Err())
	}
}
