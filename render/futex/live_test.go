//go:build linux

package futex_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ustack/filemap/observed"
)

// cannot skips a live test, or fails it where it must not be skipped.
func cannot(t *testing.T, why string) {
	t.Helper()
	if os.Getenv("USTACK_LIVE") == "must" {
		t.Fatal(why)
	}
	t.Skip(why)
}

// record is one line of a workload's own log.
type record struct {
	kind     string
	addr     uint64
	tid      int32
	from, to int64
	result   int64
}

// run is a workload that was traced.
type run struct {
	trace string // file
	truth []record
	tgid  int32
	dump  *observed.Dump
}

// setup is how a workload is traced.
type setup struct {
	mode string
	// sched enables scheduler events, tgid the option record-tgid, maps a
	// copy of the mappings while it runs.
	sched, tgid, maps bool
	// raw enables raw_syscalls.
	raw bool
	// kill ends the workload after this time: it hangs.
	kill time.Duration
}

// workloadDir is where workloads are built, "" if none has been.
var (
	workloadDir string
	building    sync.Mutex
)

func TestMain(m *testing.M) {
	code := m.Run()
	if workloadDir != "" {
		_ = os.RemoveAll(workloadDir)
	}
	os.Exit(code)
}

// compilers make the workload of a language: C, C++ and Go.
var compilers = map[string][]string{
	"c":   {"gcc", "-O1", "-fno-omit-frame-pointer", "testdata/workload.c", "-lpthread"},
	"cpp": {"g++", "-std=c++20", "-O1", "-fno-omit-frame-pointer", "-pthread", "testdata/workload.cc"},
	"go":  {"go", "build", "testdata/workload.go"},
}

// buildWorkload builds the workload that has a mode. Modes of C++ and Go begin with the name
// of the language.
func buildWorkload(mode string) (string, error) {
	building.Lock()
	defer building.Unlock()
	language, _, _ := strings.Cut(mode, "-")
	if compilers[language] == nil {
		language = "c"
	}
	if workloadDir == "" {
		dir, err := os.MkdirTemp("", "futex-workload-")
		if err != nil {
			return "", err
		}
		workloadDir = dir
	}
	bin := filepath.Join(workloadDir, "workload-"+language)
	if _, err := os.Stat(bin); err == nil {
		return bin, nil
	}
	args := slices.Clone(compilers[language])
	at := 1
	if language == "go" {
		at = 2
	}
	args = slices.Insert(args, at, "-o", bin)
	if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("%s: %w\n%s", args[0], err, out)
	}
	return bin, nil
}

var instances atomic.Int64

const tracing = "/sys/kernel/tracing"

// instance makes a tracing instance of our own.
func instance(t *testing.T, s setup) string {
	t.Helper()
	dir := filepath.Join(tracing, "instances", fmt.Sprintf("ustack-test-%d-%d-%s", os.Getpid(), instances.Add(1), s.mode))
	if err := os.Mkdir(dir, 0o755); err != nil {
		cannot(t, "no tracing instance can be made: "+err.Error())
	}
	t.Cleanup(func() {
		if err := os.Remove(dir); err != nil {
			t.Error(err)
		}
	})
	set(t, dir, "tracing_on", "0")
	set(t, dir, "trace_clock", "mono")
	set(t, dir, "buffer_size_kb", "8192")
	set(t, dir, "options/event-fork", "1")
	set(t, dir, "options/userstacktrace", "1")
	if s.tgid {
		set(t, dir, "options/record-tgid", "1")
	}
	events := []string{"syscalls/sys_enter_futex", "syscalls/sys_exit_futex", "syscalls/sys_enter_restart_syscall", "syscalls/sys_exit_restart_syscall"}
	if s.sched {
		events = append(events, "sched/sched_switch", "sched/sched_waking", "sched/sched_process_exit")
	}
	if s.raw {
		events = append(events, "raw_syscalls/sys_enter", "raw_syscalls/sys_exit")
	}
	for _, e := range events {
		set(t, dir, "events/"+e+"/enable", "1")
	}
	return dir
}

func set(t *testing.T, dir, file, value string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, file), []byte(value), 0); err != nil {
		t.Fatal(err)
	}
}

// traced runs a workload and gives its trace and its log.
func traced(t *testing.T, s setup) *run {
	t.Helper()
	if os.Geteuid() != 0 {
		cannot(t, "tracing needs root")
	}
	bin, err := buildWorkload(s.mode)
	if err != nil {
		cannot(t, "the workload cannot be built: "+err.Error())
	}
	dir := instance(t, s)
	const longest = time.Minute
	ctx, cancel := context.WithTimeout(t.Context(), longest)
	defer cancel()
	cmd := exec.CommandContext(ctx, bin, s.mode)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, os.Stderr
	cmd.Env = append(os.Environ(), "GODEBUG=asyncpreemptoff=1") // no signals of Go's runtime
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := strconv.Itoa(cmd.Process.Pid)
	set(t, dir, "set_event_pid", strings.Join(threadsOf(t, pid), " "))
	set(t, dir, "tracing_on", "1")
	if _, err := io.WriteString(in, "go\n"); err != nil {
		t.Fatal(err)
	}
	r := &run{tgid: int32(cmd.Process.Pid), trace: filepath.Join(t.TempDir(), "trace.txt")}
	var maps string
	if s.maps {
		time.Sleep(200 * time.Millisecond)
		maps = copyMaps(t, pid)
	}
	if s.kill > 0 {
		time.Sleep(s.kill)
		set(t, dir, "tracing_on", "0") // before they die, and so wake up
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	} else if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	set(t, dir, "tracing_on", "0")
	text, err := os.ReadFile(filepath.Join(dir, "trace"))
	if err = errors.Join(err, os.WriteFile(r.trace, text, 0o600)); err != nil {
		t.Fatal(err)
	}
	for scan := bufio.NewScanner(&out); scan.Scan(); {
		var x record
		if _, err := fmt.Sscanf(scan.Text(), "%s %v %d %d %d %d", &x.kind, &x.addr, &x.tid, &x.from, &x.to, &x.result); err != nil {
			t.Fatalf("%q: %v", scan.Text(), err)
		}
		r.truth = append(r.truth, x)
	}
	if s.maps {
		if r.dump, err = observed.Load(maps); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// threadsOf lists the threads of a workload that has not begun: Go's runtime has some by
// then, any of which may start others.
func threadsOf(t *testing.T, pid string) (tids []string) {
	t.Helper()
	tasks, err := os.ReadDir("/proc/" + pid + "/task")
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		tids = append(tids, task.Name())
	}
	return tids
}

// copyMaps saves the mappings of a process and its children.
func copyMaps(t *testing.T, pid string) string {
	t.Helper()
	dir := t.TempDir()
	pids := []string{pid}
	children, err := os.ReadFile("/proc/" + pid + "/task/" + pid + "/children")
	if err != nil {
		t.Fatal(err)
	}
	for _, child := range bytes.Fields(children) {
		pids = append(pids, string(child))
	}
	tids := ""
	for _, pid := range pids {
		text, err := os.ReadFile("/proc/" + pid + "/maps")
		if err != nil {
			t.Fatal(err)
		}
		text = append([]byte("### t=1.000000000 pid="+pid+" comm=x exe=/x\n"), text...)
		if err := os.WriteFile(filepath.Join(dir, pid+".maps"), text, 0o600); err != nil {
			t.Fatal(err)
		}
		tids += pid + " " + pid + "\n"
	}
	if err := os.WriteFile(filepath.Join(dir, "tids.txt"), []byte(tids), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}
