package instance

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestSetPIDs(t *testing.T) {
	in := create(t, fake(t, "event-fork"))
	check(t, in.SetPIDs([]int{1, 20, 300}, true))
	in.is(t, "set_event_pid", "1\n20\n300")
	in.is(t, "options/event-fork", "1")
	check(t, in.AddPIDs([]int{4}))
	in.is(t, "set_event_pid", "1\n20\n300\n4")
	check(t, in.SetPIDs([]int{5}, false))
	in.is(t, "set_event_pid", "5")
	in.is(t, "options/event-fork", "0")
	check(t, in.ExcludePIDs([]int{6, 7}, true))
	in.is(t, "set_event_notrace_pid", "6\n7")

	if err := in.SetPIDs(nil, false); err == nil {
		t.Error("no threads at all would be all threads")
	}
	in.is(t, "set_event_pid", "5")
}

// TestOldKernel: the errors say since when a kernel can.
func TestOldKernel(t *testing.T) {
	in := create(t, fake(t))
	check(t, os.Remove(in.dir.path(onlyPIDs)))
	check(t, os.Remove(in.dir.path(notPIDs)))
	for want, err := range map[string]error{
		"Linux 4.7": in.SetPIDs([]int{1}, true), "Linux 4.4": in.SetPIDs([]int{1}, false), "Linux 5.7": in.ExcludePIDs([]int{1}, false),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}

// TestPieces: nothing is lost, no number is cut, no write is too long.
func TestPieces(t *testing.T) {
	var tids []int
	for i := range 10_000 {
		tids = append(tids, i*419)
	}
	var got []int
	pieces := pidPieces(tids)
	for _, p := range pieces {
		if len(p) > maxPIDWrite || !bytes.HasSuffix(p, []byte("\n")) {
			t.Fatalf("a piece of %d bytes ends with %q", len(p), p[len(p)-1])
		}
		for _, f := range strings.Fields(string(p)) {
			n, err := strconv.Atoi(f)
			check(t, err)
			got = append(got, n)
		}
	}
	if !slices.Equal(got, tids) || len(pieces) < 10 {
		t.Errorf("%d numbers in %d pieces, want %d", len(got), len(pieces), len(tids))
	}
}

// TestLiveManyPIDs: a list of many writes arrives whole.
func TestLiveManyPIDs(t *testing.T) {
	in := configured(t, live(t))
	var tids []int
	for i := range 3000 {
		tids = append(tids, 1_000_000+i*3)
	}
	check(t, in.SetPIDs(tids[:2900], false))
	check(t, in.AddPIDs(tids[2900:]))
	text, err := in.read(onlyPIDs)
	check(t, err)
	if got := strings.Fields(text); len(got) != len(tids) || got[0] != "1000000" || got[len(got)-1] != strconv.Itoa(tids[len(tids)-1]) {
		t.Errorf("%d of %d threads", len(got), len(tids))
	}
}

var bySyscall = regexp.MustCompile(`-(\d+) .*: sys_getppid\(\)`)

// trace runs f while getppid is traced, and returns the threads seen.
func traced(t *testing.T, in *Instance, f func()) []int {
	t.Helper()
	sel, err := in.Root().Select(specs(t, "syscalls:sys_enter_getppid"))
	check(t, err)
	check(t, in.Enable(sel.Events))
	p, err := in.Pipe()
	check(t, err)
	defer p.Close()
	check(t, in.Start())
	f()
	check(t, in.Stop())
	text, err := io.ReadAll(p)
	check(t, err)
	var tids []int
	for _, m := range bySyscall.FindAllSubmatch(text, -1) {
		tid, err := strconv.Atoi(string(m[1]))
		check(t, err)
		tids = append(tids, tid)
	}
	slices.Sort(tids)
	return slices.Compact(tids)
}

// shell starts a shell that makes its system call in a child when its standard
// input ends.
func shell(t *testing.T) (pid int, end func()) {
	t.Helper()
	// The subshell asks for its parent when it starts (dash, bash).
	cmd := exec.Command("sh", "-c", "read x; sh -c :; exit 0")
	in, err := cmd.StdinPipe()
	check(t, err)
	check(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return cmd.Process.Pid, func() {
		check(t, in.Close())
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	}
}

// TestLivePIDs: only the threads on the list are traced, and with follow their
// children; excluded threads are not traced.
func TestLivePIDs(t *testing.T) {
	r := live(t)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	self := unix.Gettid()
	call := func() { unix.RawSyscallNoError(unix.SYS_GETPPID, 0, 0, 0) }

	in := configured(t, r)
	if got := traced(t, in, call); !slices.Contains(got, self) {
		t.Fatalf("our own thread %d was not seen: %v", self, got)
	}
	check(t, in.ExcludePIDs([]int{self}, false))
	if got := traced(t, in, call); slices.Contains(got, self) {
		t.Errorf("our own thread was seen: %v", got)
	}
	check(t, in.Remove())

	in = configured(t, r)
	pid, end := shell(t)
	check(t, in.SetPIDs([]int{pid}, true))
	if got := traced(t, in, func() { call(); end() }); len(got) == 0 || slices.Contains(got, self) || got[len(got)-1] <= pid {
		t.Errorf("threads %v, want a child of %d and not %d", got, pid, self)
	}
	check(t, in.Remove())

	// Both lists: who is on both is left out.
	in = configured(t, r)
	pid, end = shell(t)
	check(t, in.SetPIDs([]int{pid, self}, true))
	check(t, in.ExcludePIDs([]int{self}, true))
	if got := traced(t, in, func() { call(); end() }); len(got) == 0 || slices.Contains(got, self) {
		t.Errorf("threads %v, want a child of %d and not %d", got, pid, self)
	}
}
