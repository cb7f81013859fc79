//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"ustack/tracefs/capturetest"
)

// recorded is what an output says of one record, but for when and where.
type recorded struct {
	comm, name, args string
	stack            string
}

// byThread reads JSON lines.
func byThread(t *testing.T, lines []byte) map[int][]recorded {
	t.Helper()
	all := make(map[int][]recorded)
	for line := range bytes.Lines(lines) {
		var e struct {
			PID              *int
			Comm, Name, Args string
			Stack            json.RawMessage
		}
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatalf("%v in\n%s", err, line)
		}
		if e.PID != nil && e.Name != "" {
			all[*e.PID] = append(all[*e.PID], recorded{e.Comm, e.Name, e.Args, string(e.Stack)})
		}
	}
	return all
}

// TestLiveSources: the ring buffer and the kernel's text of it give the same
// records of each thread, with the same stacks. The names that tasks had are
// those of the time where the ring buffer is read; the kernel has only the last
// ones.
func TestLiveSources(t *testing.T) {
	capturetest.NeedLong(t)
	_, work := workload(t)
	bin := ustackBinary(t)
	victim := exec.Command("sh", "-c", `read x; "$0" forks 5; "$0" storm 20; "$0" herd; "$0" jit`, work)
	in, err := victim.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	stderr := make(map[string]*startLine)
	running := make(map[string]*exec.Cmd)
	for _, source := range []string{sourceText, sourceBinary} {
		stderr[source] = &startLine{begun: make(chan struct{})}
		live := exec.Command(bin, "live", "--format=json", "--unwind=fp", "--source="+source, "-b", "16384", "-p", strconv.Itoa(victim.Process.Pid),
			"-o", filepath.Join(dir, source), "-e", "syscalls:sys_*_futex", "-e", "sched:sched_process_fork", "-e", "sched:sched_process_exec", "-e", "sched:sched_process_exit", "-e", "syscalls:sys_enter_execve")
		live.Stderr = stderr[source]
		if err := live.Start(); err != nil {
			t.Fatal(err)
		}
		running[source] = live
		<-stderr[source].begun
		traces(t, live)
	}
	in.Close()
	if err := victim.Wait(); err != nil {
		t.Fatal(err)
	}
	got := make(map[string]map[int][]recorded)
	for source, live := range running {
		if err := live.Wait(); err != nil || !strings.Contains(stderr[source].text.String(), " read as "+source) ||
			lostLine.MatchString(stderr[source].text.String()) {
			t.Fatalf("%v\n%s", err, &stderr[source].text)
		}
		lines, err := os.ReadFile(filepath.Join(dir, source))
		if err != nil {
			t.Fatal(err)
		}
		got[source] = byThread(t, lines)
	}
	text, raw := got[sourceText], got[sourceBinary]
	if !slices.Equal(slices.Sorted(maps.Keys(text)), slices.Sorted(maps.Keys(raw))) || len(raw) < 30 {
		t.Fatalf("threads %v, by text %v", slices.Sorted(maps.Keys(raw)), slices.Sorted(maps.Keys(text)))
	}
	for tid, list := range raw {
		want := text[tid]
		if len(list) != len(want) {
			t.Errorf("thread %d: %d records, by text %d", tid, len(list), len(want))
			continue
		}
		comm := list[0].comm
		for i, r := range list {
			if r.name == "sched_process_exec" {
				comm = filepath.Base(strings.TrimPrefix(strings.Split(r.args, " pid=")[0], "filename="))
			}
			if r.comm != comm[:min(len(comm), 15)] || comm == "" {
				t.Errorf("thread %d, record %d: it is called %q, but was %q", tid, i, r.comm, comm)
			}
			w := want[i]
			if r.name == "sched_process_exec" || r.name == "sched_process_exit" {
				r.stack = w.stack // in that microsecond it may be of before or after
			}
			if r.comm = w.comm; r != w {
				t.Errorf("thread %d, record %d:\n%+v, by text\n%+v", tid, i, r, w)
			}
		}
	}
}

// TestLiveSourceRefused: what cannot be read is not read otherwise.
func TestLiveSourceRefused(t *testing.T) {
	needLive(t)
	bin := ustackBinary(t)
	for _, test := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"--source=binary", "--mappings=query"}, exitFailure, "--source=binary: names of tasks come from the perf side band only"},
		{[]string{"--source=raw"}, exitUsage, `unknown source "raw"`},
	} {
		cmd := exec.Command(bin, append([]string{"live", "--duration=1ms"}, test.args...)...)
		out, _ := cmd.CombinedOutput() // the exit code is checked
		if code := cmd.ProcessState.ExitCode(); code != test.code || !strings.Contains(string(out), test.says) {
			t.Errorf("%q: exit code %d, want %d and %q:\n%s", test.args, code, test.code, test.says, out)
		}
		noInstance(t, cmd.Process.Pid)
	}
}
