//go:build linux && !device

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// perfRecord is what an output of --format=json says of one record, but for when and where.
type perfRecord struct {
	name, args string
	stack      []string // frames
}

// perfRecords reads JSON lines: the records of each thread.
func perfRecords(t *testing.T, name string) map[int][]perfRecord {
	t.Helper()
	lines, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[int][]perfRecord)
	for line := range bytes.Lines(lines) {
		var e struct {
			PID        *int
			Name, Args string
			Stack      []json.RawMessage
		}
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatalf("%v in\n%s", err, line)
		}
		if e.PID == nil || e.Name == "" {
			continue
		}
		r := perfRecord{name: e.Name, args: e.Args}
		for _, f := range e.Stack {
			r.stack = append(r.stack, string(f))
		}
		all[*e.PID] = append(all[*e.PID], r)
	}
	return all
}

// bothSources traces a program by two sources at once, from before it does anything to its
// end. It returns what each has written, and said.
func bothSources(t *testing.T, sources [2]string, script, program string, flags ...string) (records [2]map[int][]perfRecord, said [2]string) {
	t.Helper()
	bin, dir := ustackBinary(t), t.TempDir()
	victim := exec.Command("sh", "-c", "read x; "+script, program)
	in, err := victim.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	var lives [2]*exec.Cmd
	var lines [2]*startLine
	for i, source := range sources {
		lines[i] = &startLine{begun: make(chan struct{})}
		args := []string{"live", "--format=json", "--unwind=fp", "--source=" + source, "-b", "16384", "-p", strconv.Itoa(victim.Process.Pid), "-o", filepath.Join(dir, source)}
		live := exec.Command(bin, append(args, flags...)...)
		live.Stderr = lines[i]
		if err := live.Start(); err != nil {
			t.Fatal(err)
		}
		lives[i] = live
		<-lines[i].begun // tracing is on
		if source == sourceBinary {
			traces(t, live) // another message may have been the first one
		}
	}
	in.Close()
	if err := victim.Wait(); err != nil {
		t.Fatal(err)
	}
	for i, live := range lives {
		err := live.Wait()
		if said[i] = lines[i].text.String(); err != nil {
			t.Fatalf("%v: %v\n%s", live.Args, err, said[i])
		}
		records[i] = perfRecords(t, filepath.Join(dir, sources[i]))
	}
	return records, said
}

// TestLivePerf: rings of perf have the same records of each thread as the ring buffer of ftrace,
// and the same stacks, but for their length: ftrace ends after eight frames, perf after 127.
func TestLivePerf(t *testing.T) {
	_, work := workload(t)
	both, said := bothSources(t, [2]string{sourceBinary, sourcePerf}, `"$0" forks 5; "$0" storm 20; "$0" herd`, work,
		"-e", "syscalls:sys_*_futex", "-e", "sched:sched_process_fork", "-e", "sched:sched_process_exec", "-e", "sched:sched_process_exit", "-e", "syscalls:sys_enter_execve/argv != 0/")
	for i := range said {
		if lostLine.MatchString(said[i]) {
			t.Skipf("records are lost:\n%s", said[i])
		}
	}
	if !strings.Contains(said[1], "stacks of perf, by frame pointers") && !strings.Contains(said[1], "deferred stacks of perf") {
		t.Errorf("it says nothing of perf:\n%s", said[1])
	}
	records, longer := 0, 0
	for tid, list := range both[0] {
		perf := both[1][tid]
		if len(perf) != len(list) {
			t.Errorf("thread %d: %d records, by ftrace %d", tid, len(perf), len(list))
			continue
		}
		for i, r := range list {
			p := perf[i]
			records++
			atExec := r.name == "sched_process_exec" || r.name == "sched_process_exit" // in that microsecond a stack may be of before or after
			if r.name != p.name || r.args != p.args || !atExec && !begins(p.stack, r.stack) {
				t.Errorf("thread %d, record %d:\n%+v, by ftrace\n%+v", tid, i, p, r)
			}
			if len(p.stack) > len(r.stack) {
				longer++
			}
		}
	}
	if len(both[0]) != len(both[1]) || len(both[0]) < 10 || records < 200 {
		t.Errorf("%d threads, by ftrace %d, with %d records", len(both[1]), len(both[0]), records)
	}
	t.Logf("%d threads, %d records, %d of them with more frames by perf", len(both[1]), records, longer)
}

// begins reports whether a stack begins with the frames of another one.
func begins(stack, with []string) bool {
	return len(stack) >= len(with) && slices.Equal(stack[:len(with)], with)
}

// TestLivePerfLost: what rings of perf had no room for is counted, whether the kernel reports it
// with the next record or there is none. ustack is stopped while the program runs.
func TestLivePerfLost(t *testing.T) {
	needLive(t)
	const calls = 5000 // many times what a ring of 32 KB has room for
	for name, last := range map[string]int{"a record after it": 1, "no record after it": 0} {
		t.Run(name, func(t *testing.T) {
			script := fmt.Sprintf("read x; i=0; while [ $i -lt %d ]; do echo x; i=$((i+1)); done >/dev/null; echo; read x; [ %d = 0 ] || echo >/dev/null", calls, last)
			want := calls + 1 + last // 1: the line that says it is done
			victim := exec.Command("sh", "-c", script)
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
			seen, lost := lossOf(t, victim.Process.Pid, func(live *os.Process) {
				send(t, live, syscall.SIGSTOP)
				defer send(t, live, syscall.SIGCONT)
				io.WriteString(in, "\n")
				if _, err := out.Read(make([]byte, 1)); err != nil {
					t.Fatal(err)
				}
			}, in.Close)
			if err := victim.Wait(); err != nil {
				t.Fatal(err)
			}
			if lost == 0 || seen+lost != want {
				t.Errorf("%d calls and %d lost, not %d", seen, lost, want)
			}
		})
	}
}

// lossOf traces the write calls of a process from rings of the least size. It returns the ones
// that came, and how many are reported as lost. The output is what ustack itself says of it.
func lossOf(t *testing.T, pid int, run func(live *os.Process), end func() error) (seen, lost int) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "out")
	live := exec.Command(ustackBinary(t), "live", "--source="+sourcePerf, "-b", "32", "-e", "syscalls:sys_enter_write", "--format=json", "--stitch", "-p", strconv.Itoa(pid), "-o", name)
	said := &startLine{begun: make(chan struct{})}
	live.Stderr = said
	if err := live.Start(); err != nil {
		t.Fatal(err)
	}
	<-said.begun
	run(live.Process)
	if err := end(); err != nil {
		t.Fatal(err)
	}
	if err := live.Wait(); err != nil {
		t.Fatalf("%v: %v\n%s", live.Args, err, &said.text)
	}
	lines, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(lines) {
		var e struct {
			Type  string
			Count int
		}
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatalf("%v in\n%s", err, line)
		}
		switch e.Type {
		case "event":
			seen++
		case "lost":
			lost += e.Count
		}
	}
	if lost > 0 && !strings.Contains(said.text.String(), fmt.Sprintf("lost %d records", lost)) {
		t.Errorf("%d are lost, but it says\n%s", lost, &said.text)
	}
	return seen, lost
}

// send sends a signal to a process, and waits until it has stopped if that is what it does.
func send(t *testing.T, p *os.Process, sig syscall.Signal) {
	t.Helper()
	if err := p.Signal(sig); err != nil {
		t.Fatal(err)
	}
	if sig != syscall.SIGSTOP {
		return
	}
	eventually(t, "it has stopped", func() bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.Pid))
		return err == nil && bytes.Contains(stat, []byte(") T "))
	})
}
