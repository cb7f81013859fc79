//go:build linux && (amd64 || arm64) && !device

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
	"strconv"
	"strings"
	"testing"
	"time"

	"ustack/tracefs/bpffutex"
)

// needBPF skips the test where BPF programs cannot be loaded, or fails it if it must run.
func needBPF(t *testing.T) {
	t.Helper()
	needLive(t)
	if err := bpffutex.Probe(); err != nil {
		if os.Getenv("USTACK_LIVE") == "must" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
}

// sumReport is what the test reads of a report.
type sumReport struct {
	Locks, Condvars []sumRow
	Notes           []string
	Loss            struct{ Gaps, Records int64 } // not with this source
}

// sumRow is a futex in it.
type sumRow struct {
	Address    string
	Waits      int
	Woken      int
	TimedOut   int   `json:"timed_out"`
	Total      int64 `json:"total_ns"`
	Wakes      int   `json:"wake_calls"`
	Threads    int   `json:"woken_threads"`
	Kind       string
	WaitStacks []struct {
		Stack []struct{ Function, Path, Trust string }
		Count int
		Total int64 `json:"total_ns"`
	} `json:"wait_stacks"`
}

// row returns the row of a futex, nil if it has none.
func (r *sumReport) row(address string) *sumRow {
	for _, list := range [...][]sumRow{r.Locks, r.Condvars} {
		for i := range list {
			if list[i].Address == address {
				return &list[i]
			}
		}
	}
	return nil
}

// sumLog is what the victim has written of a futex.
type sumLog struct {
	waits, woken, timedOut, sure, maybe int // sure and maybe: of the minimum length
	took                                int64
}

const (
	sumMinWait = 10 * time.Millisecond
	sumTimeout = 12 * time.Millisecond // of long waits in sumwaits.c, which take no less
)

// readSumLog reads what the victim writes until it is done.
func readSumLog(t *testing.T, lines *bufio.Scanner) map[string]*sumLog {
	t.Helper()
	log := make(map[string]*sumLog)
	for n := 0; lines.Scan() && lines.Text() != "done"; n++ {
		var addr uint64
		var ret int
		var took int64
		if _, err := fmt.Sscanf(lines.Text(), "wait %d %d %d", &addr, &ret, &took); err != nil {
			t.Fatalf("%q: %v", lines.Text(), err)
		}
		name := "0x" + strconv.FormatUint(addr, 16)
		l := log[name]
		if l == nil {
			l = new(sumLog)
			log[name] = l
		}
		l.waits++
		l.took += took
		if ret == 0 {
			l.woken++
		} else {
			l.timedOut++
			if l.timedOut%2 == 1 { // every other one is long
				l.sure++
			}
		}
		if took >= int64(sumMinWait) {
			l.maybe++
		}
	}
	return log
}

// TestFutexSums: all calls of a program are counted, each long wait has its stack, the report
// ends with the program, and nothing stays in the kernel.
func TestFutexSums(t *testing.T) {
	needBPF(t)
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "sumwaits")
	compile(t, program, "sumwaits.c")
	victim, in, out := sumVictim(t, program, "8")
	var stdout strings.Builder
	stderr := &startLine{begun: make(chan struct{})}
	watch := exec.Command(ustackBinary(t), "futex", "--live", "--source=bpf", "--symbols", "--json", "--min-wait", sumMinWait.String(), "-p", strconv.Itoa(victim.Process.Pid))
	watch.Stdout, watch.Stderr = &stdout, stderr
	if err := watch.Start(); err != nil {
		t.Fatal(err)
	}
	<-stderr.begun
	ids := programIDs(t, watch.Process.Pid)
	if _, err := in.Write([]byte("\n")); err != nil {
		t.Fatal(err)
	}
	log := readSumLog(t, bufio.NewScanner(out))
	in.Close()
	if err := watch.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, &stderr.text)
	}
	var r sumReport
	if err := json.Unmarshal([]byte(stdout.String()), &r); err != nil {
		t.Fatalf("%v in\n%s", err, &stdout)
	}
	r.check(t, log, program)
	eventually(t, "the programs are gone", func() bool { return len(bpffutex.Loaded(ids)) == 0 })
}

// check holds a report against the log.
func (r *sumReport) check(t *testing.T, log map[string]*sumLog, program string) {
	t.Helper()
	missed := strings.Contains(strings.Join(r.Notes, "\n"), "are missing")
	for name, want := range log {
		found := false
		for _, l := range append(r.Locks, r.Condvars...) {
			if l.Address != name {
				continue
			}
			found = true
			if !missed && (l.Waits != want.waits || l.Woken != want.woken || l.TimedOut != want.timedOut) || l.Waits > want.waits {
				t.Errorf("%s: %+v, want %+v", name, l, want)
			}
			if want.woken > 0 && !missed && (l.Threads != want.woken || l.Wakes < want.woken) {
				t.Errorf("%s: %d calls woke %d threads, want %d", name, l.Wakes, l.Threads, want.woken)
			}
			if least := int64(want.sure) * int64(sumTimeout); l.Total > want.took || !missed && l.Total < least {
				t.Errorf("%s: %d ns, want %d to %d", name, l.Total, least, want.took)
			}
			t.Logf("%s: %s, %d ns, by its own clock %d", name, l.Kind, l.Total, want.took)
			long := 0
			for _, s := range l.WaitStacks {
				if len(s.Stack) < 2 {
					continue // short ones
				}
				long += s.Count
				if !strings.HasPrefix(s.Stack[0].Function, "sum_inner") || !strings.HasPrefix(s.Stack[1].Function, "sum_outer") || s.Stack[0].Path != program || s.Stack[0].Trust != "late" {
					t.Errorf("%s: stack %+v", name, s.Stack)
				}
			}
			if long > want.maybe || !missed && long < want.sure {
				t.Errorf("%s: %d long waits have stacks, want %d to %d", name, long, want.sure, want.maybe)
			}
		}
		if !found && want.sure > 0 { // a row with short waits only is not shown
			t.Errorf("no futex %s in %+v", name, r)
		}
	}
}

// programIDs returns the numbers of the BPF programs that a process holds open.
func programIDs(t *testing.T, pid int) (ids []uint32) {
	t.Helper()
	dir := filepath.Join("/proc", strconv.Itoa(pid), "fdinfo")
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`(?m)^prog_id:\s*(\d+)$`)
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			continue // it has been closed
		}
		if m := line.FindSubmatch(text); m != nil {
			id, err := strconv.ParseUint(string(m[1]), 10, 32)
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, uint32(id))
		}
	}
	if len(ids) == 0 {
		t.Fatalf("process %d has no BPF program", pid)
	}
	return ids
}

// TestFutexSumsCommand: the exit code is the command's, and its children are looked at.
func TestFutexSumsCommand(t *testing.T) {
	needBPF(t)
	dir := t.TempDir()
	program := filepath.Join(dir, "sumwaits")
	compile(t, program, "sumwaits.c")
	report := filepath.Join(dir, "report")
	to, err := os.Create(report)
	if err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	watch := exec.Command(ustackBinary(t), "futex", "--live", "--source=bpf", "-q", "-v", "--", "sh", "-c", `echo | "$0" 2 >/dev/null; exit 5`, program)
	watch.Stdout = to
	err = watch.Run()
	if code := watch.ProcessState.ExitCode(); code != 5 {
		t.Errorf("exit code %d, %v", code, err)
	}
	text, err := os.ReadFile(report)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"in sumwaits, process ", "4 timed out"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

// TestFutexSumsKilled: that the processes end in the middle of a wait ends the report.
func TestFutexSumsKilled(t *testing.T) {
	needBPF(t)
	program := filepath.Join(t.TempDir(), "sumwaits")
	compile(t, program, "sumwaits.c")
	victim := exec.Command(program, "100000")
	in, err := victim.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := victim.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	stderr := &startLine{begun: make(chan struct{})}
	var stdout strings.Builder
	watch := exec.Command(ustackBinary(t), "futex", "--live", "--source=bpf", "--json", "-p", strconv.Itoa(victim.Process.Pid))
	watch.Stdout, watch.Stderr = &stdout, stderr
	if err := watch.Start(); err != nil {
		t.Fatal(err)
	}
	<-stderr.begun
	if _, err := in.Write([]byte("\n")); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 1)); err != nil { // it has waited, and goes on
		t.Fatal(err)
	}
	if err := victim.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = victim.Wait()
	if err := watch.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, &stderr.text)
	}
	var r struct{ Calls int }
	if err := json.Unmarshal([]byte(stdout.String()), &r); err != nil || r.Calls == 0 {
		t.Errorf("%v, %d calls in\n%s", err, r.Calls, &stdout)
	}
}

// TestFutexSumsFlags: what has no use with the source is refused, before anything is loaded.
func TestFutexSumsFlags(t *testing.T) {
	for _, flags := range [][]string{{"-e", "sched:sched_switch"}, {"--save", "x"}, {"--owners"}, {"--impact"}, {"--unwind=blocked"}, {"--by=site"}, {"--format=perfetto"}, {"--format=html"}, {"--blame", "--format=folded"}} {
		cmd := exec.Command(ustackBinary(t), append([]string{"futex", "--live", "--source=bpf", "-q", "--duration=1ms"}, flags...)...)
		text, err := cmd.CombinedOutput()
		if code := cmd.ProcessState.ExitCode(); code == 0 || !strings.Contains(string(text), "source") {
			t.Errorf("%q: exit code %d, %v\n%s", flags, code, err, text)
		}
	}
}

// TestFutexSumsVariable: a futex in a static variable has its name, once the source has seen the
// program twice.
func TestFutexSumsVariable(t *testing.T) {
	needBPF(t)
	program := filepath.Join(t.TempDir(), "sumwaits")
	compile(t, program, "sumwaits.c")
	victim := exec.Command(program, "1000000")
	in, err := victim.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if _, err := in.Write([]byte("\n")); err != nil {
		t.Fatal(err)
	}
	stderr := &startLine{begun: make(chan struct{})}
	watch := exec.Command(ustackBinary(t), "futex", "--live", "--source=bpf", "--symbols", "--interval=100ms", "-p", strconv.Itoa(victim.Process.Pid))
	watch.Stderr = stderr
	out, err := watch.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := watch.Start(); err != nil {
		t.Fatal(err)
	}
	late := time.AfterFunc(time.Minute, func() { _ = victim.Process.Kill() })
	defer late.Stop()
	named := false
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if strings.Contains(lines.Text(), " word ") && !named {
			named = true
			if err := victim.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	_ = victim.Wait()
	if err := watch.Wait(); err != nil || !named {
		t.Errorf("named %v, %v\n%s", named, err, &stderr.text)
	}
}

// sumVictim starts the program that is looked at. It begins when it can read a line, and ends
// with the test.
func sumVictim(t *testing.T, program, rounds string) (victim *exec.Cmd, in io.WriteCloser, out io.Reader) {
	t.Helper()
	victim = exec.Command(program, rounds)
	in, err := victim.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if out, err = victim.StdoutPipe(); err != nil {
		t.Fatal(err)
	}
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_ = victim.Wait() // it exits with 3
	})
	return victim, in, out
}
