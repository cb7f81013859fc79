//go:build linux

package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// BenchmarkPerfScript compares replay --symbols with perf script, of the same
// futex calls of one run, which both have traced at the same time:
//
//	go test -run '^$' -bench PerfScript -benchtime 3x ./cmd/ustack
//
// They run in turn, to /dev/null, ustack on one core; the least CPU time of each
// counts, start and reading of symbol tables included:
//
//	events         of both: they must not differ
//	perf-ns        CPU time of perf script for an event with its stack
//	lean-ns        of perf script -F comm,tid,time,event,ip,sym,dso, which leaves
//	               out the event's fields
//	ustack-ns      of ustack replay --symbols --no-lines, the names that perf has
//	lines-ns       with source lines, and what is inlined there
//	x-perf         how many times faster than perf script ustack is
//
// Before, a program that fights for a mutex is traced in the same way. All names
// of both runs are held against perf's, and the benchmark fails if one is another
// function.
func BenchmarkPerfScript(b *testing.B) {
	needLive(b)
	perf, err := exec.LookPath("perf")
	if err != nil {
		b.Skip("no perf")
	}
	ustack := buildUstack(b, b.TempDir())
	work := filepath.Join(b.TempDir(), "work")
	compile(b, work, "work.c", "-ldl")
	traceTwice(b, perf, ustack, work, "ready", "herds", "20").compareNames(b)
	r := traceTwice(b, perf, ustack, work, "hammer", "2", "1")
	r.race(b, r.compareNames(b))
}

// twice is a run that perf and ustack have traced.
type twice struct {
	perf, ustack string
	data         string   // of perf
	files        []string // of ustack, as replay takes them
}

// traceTwice runs a program that waits for input until all is ready. It has its
// files by then: of those that come while both trace, Linux 6.18 tells perf as if
// with build IDs, which only ustack has asked for, and perf 6.1 aborts on them.
func traceTwice(b *testing.B, perf, ustack string, program ...string) *twice {
	b.Helper()
	dir := b.TempDir()
	saved := filepath.Join(dir, "saved")
	r := &twice{perf: perf, ustack: ustack, data: filepath.Join(dir, "perf.data")}
	r.files = []string{"--maps", filepath.Join(saved, "spaces.txt"), filepath.Join(saved, "trace.txt")}
	cmd := exec.Command(program[0], program[1:]...)
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	pid := strconv.Itoa(cmd.Process.Pid)
	const event = "syscalls:sys_enter_futex"
	one := exec.Command(perf, "record", "-q", "-m", "32M", "--call-graph", "fp", "-e", event, "-o", r.data, "-p", pid)
	two := exec.Command(ustack, "live", "-q", "-b", "65536", "-e", event, "-p", pid, "--save", saved, "-o", os.DevNull)
	for _, c := range []*exec.Cmd{one, two} {
		if err := c.Start(); err != nil {
			b.Fatal(err)
		}
	}
	time.Sleep(2 * time.Second) // perf says nothing when it is ready
	if _, err := io.WriteString(in, "x"); err != nil {
		b.Fatal(err)
	}
	in.Close()
	for _, c := range []*exec.Cmd{cmd, one, two} {
		if err := c.Wait(); err != nil {
			b.Fatalf("%v: %v", c.Args, err)
		}
	}
	return r
}

// race takes the times.
func (r *twice) race(b *testing.B, events int) {
	b.Helper()
	replay := join([]string{r.ustack, "replay", "-q", "--build-id=none", "--symbols"}, r.files...)
	all := []struct {
		name string
		args []string
	}{
		{"perf", []string{r.perf, "script", "-i", r.data}},
		{"lean", []string{r.perf, "script", "-i", r.data, "-F", "comm,tid,time,event,ip,sym,dso"}},
		{"lines", replay},
		{"ustack", join(replay[:5:5], join([]string{"--no-lines"}, r.files...)...)},
	}
	best := make(map[string]time.Duration)
	for b.Loop() {
		for _, c := range all {
			cmd := exec.Command(c.args[0], c.args[1:]...)
			cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
			if err := cmd.Run(); err != nil {
				b.Fatalf("%v: %v", c.args, err)
			}
			if took, _ := cpuTime(cmd); best[c.name] == 0 || took < best[c.name] {
				best[c.name] = took
			}
		}
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(events), "events")
	for _, c := range all {
		b.ReportMetric(float64(best[c.name].Nanoseconds())/float64(events), c.name+"-ns")
	}
	b.ReportMetric(float64(best["perf"])/float64(best["ustack"]), "x-perf")
}

// perfNamed is a frame as both tell it.
type perfNamed struct {
	function string // "" if there is no name
	at       string // in the function
	path     string
}

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

// compareNames holds the names of all frames against perf's, and returns how many
// events there are.
func (r *twice) compareNames(b *testing.B) int {
	b.Helper()
	theirs, ours := r.perfSays(b), r.ustackSays(b)
	if theirs.events != ours.events || ours.events == 0 {
		b.Fatalf("perf has %d events, ustack %d", theirs.events, ours.events)
	}
	frames := 0
	aliases := make(map[string]bool)
	for tid, list := range theirs.byTID {
		if len(list) != len(ours.byTID[tid]) {
			b.Fatalf("of thread %d perf has %d events, ustack %d", tid, len(list), len(ours.byTID[tid]))
		}
		for i, k := range list {
			their, our := theirs.stacks[k], ours.stacks[ours.byTID[tid][i]]
			frames += len(our)
			if len(their) != len(our) {
				b.Fatalf("%v has not as many frames as perf's %v", our, their)
			}
			for f := range our {
				switch {
				case our[f] == their[f]:
				case our[f].at == their[f].at && our[f].path == their[f].path && our[f].function != "":
					// A function that begins in the same place of the same file.
					aliases[our[f].function+" is "+their[f].function] = true
				default:
					b.Fatalf("%v, of perf %v", our[f], their[f])
				}
			}
		}
	}
	b.Logf("%d events, %d frames, %d different stacks; other names of the same functions: %v", ours.events, frames, len(ours.stacks), slices.Sorted(maps.Keys(aliases)))
	return ours.events
}

var (
	perfHead  = regexp.MustCompile(`^ *(\d+) +\d+\.\d+: *$`)
	perfFrame = regexp.MustCompile(`^\t *[0-9a-f]+ (.*) \((.*)\)$`)
)

// perfSays are the stacks of perf script.
func (r *twice) perfSays(b *testing.B) *perfStacks {
	b.Helper()
	all := newPerfStacks()
	tid, stack := 0, []perfNamed(nil)
	r.lines(b, []string{r.perf, "script", "-i", r.data, "-F", "tid,time,ip,sym,symoff,dso"}, func(line []byte) {
		switch head, frame := perfHead.FindSubmatch(line), perfFrame.FindSubmatch(line); {
		case head != nil:
			tid, _ = strconv.Atoi(string(head[1]))
			stack = stack[:0]
		case frame != nil:
			f := perfNamed{path: string(frame[2])}
			if name := string(frame[1]); name != "[unknown]" {
				at := strings.LastIndexByte(name, '+')
				f.function, f.at = name[:max(at, 0)], name[at+1:]
			}
			stack = append(stack, f)
		case len(line) == 0:
			all.add(tid, stack)
		default:
			b.Fatalf("perf script says %q", line)
		}
	})
	return all
}

// ustackSays are those of replay.
func (r *twice) ustackSays(b *testing.B) *perfStacks {
	b.Helper()
	all := newPerfStacks()
	args := join([]string{r.ustack, "replay", "-q", "--format=json", "--symbols", "--no-lines", "--no-infer"}, r.files...)
	r.lines(b, args, func(line []byte) {
		var event struct {
			Type  string
			PID   int
			Stack []inferFrame
		}
		if err := json.Unmarshal(line, &event); err != nil {
			b.Fatal(err)
		}
		if event.Type != "event" {
			return
		}
		var stack []perfNamed
		for _, f := range event.Stack {
			stack = append(stack, perfNamed{f.Function, f.FunctionOffset, f.Path})
		}
		all.add(event.PID, stack)
	})
	return all
}

// lines runs a command and calls f for each line.
func (r *twice) lines(b *testing.B, args []string, f func([]byte)) {
	b.Helper()
	cmd := exec.Command(args[0], args[1:]...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	scan := bufio.NewScanner(out)
	for scan.Scan() {
		f(scan.Bytes())
	}
	if err := cmd.Wait(); err != nil || scan.Err() != nil {
		b.Fatalf("%v: %v, %v", args, err, scan.Err())
	}
}
