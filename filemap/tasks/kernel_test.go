//go:build linux

package tasks

import (
	"errors"
	"os"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ustack/filemap/procmap"
	"ustack/filemap/space"
	"ustack/tracefs"
)

func newKernel(t *testing.T) *Kernel {
	t.Helper()
	r, err := procmap.NewReader(procmap.Options{Filter: procmap.Filter{Perms: procmap.Exec}})
	if err != nil {
		t.Skipf("no /proc to read: %v", err)
	}
	return NewKernel(r)
}

// TestKernelCode: what is asked for by a part is what is there of all.
func TestKernelCode(t *testing.T) {
	k, pid := newKernel(t), os.Getpid()
	all, err := k.Code(pid, whole.start, whole.end, nil)
	if err != nil || len(all) == 0 {
		t.Fatalf("%d mappings, %v", len(all), err)
	}
	for i := range all {
		m := &all[i]
		part, err := k.Code(pid, m.End-1, m.End, nil)
		if err != nil || len(part) != 1 || part[0].Start != m.Start || part[0].Name != m.Name {
			t.Errorf("of %+v: %+v, %v", m, part, err)
		}
	}
	if _, err := k.Code(tracefs.MaxTID, whole.start, whole.end, nil); !errors.Is(err, procmap.ErrGone) {
		t.Errorf("no process: %v", err)
	}
}

// TestKernelTasks: our own threads are found, and we share our memory with no other process.
func TestKernelTasks(t *testing.T) {
	k, pid := newKernel(t), os.Getpid()
	tids, err := k.Threads(pid)
	if err != nil || !slices.Contains(tids, pid) {
		t.Errorf("threads %v, %v", tids, err)
	}
	if got, err := k.ThreadGroup(tids[len(tids)-1]); err != nil || got != pid {
		t.Errorf("%d, %v", got, err)
	}
	if order, ok := k.Compare(pid, pid); !ok || order != 0 {
		t.Skipf("no kcmp for us: %d, %v", order, ok)
	}
	parent := os.Getppid()
	if order, ok := k.Compare(pid, parent); ok && order == 0 {
		t.Error("we share our memory with the parent")
	}
	if _, ok := k.Compare(pid, tracefs.MaxTID); ok {
		t.Error("compared with no process")
	}
}

// TestKernelOutside: a thread that waits is outside of calls that change memory, one that runs
// is so when it has run for some time since.
func TestKernelOutside(t *testing.T) {
	k, pid := newKernel(t), os.Getpid()
	if _, err := os.ReadFile("/proc/self/syscall"); err != nil {
		t.Skipf("the kernel does not say in which call a thread is: %v", err)
	}
	tid := make(chan int, 2)
	end := make(chan struct{})
	var over atomic.Bool
	defer func() { over.Store(true); close(end) }()
	go func() { // waits in the kernel
		runtime.LockOSThread()
		tid <- unix.Gettid()
		var fds [2]int
		if unix.Pipe(fds[:]) == nil {
			go func() { <-end; unix.Close(fds[1]) }()
			_, _ = unix.Read(fds[0], make([]byte, 1))
		}
	}()
	waits := <-tid
	go func() { // runs
		runtime.LockOSThread()
		tid <- unix.Gettid()
		for !over.Load() {
		}
	}()
	runs := <-tid
	since := space.Monotonic()
	for what, tid := range map[string]int{"waiting": waits, "running": runs} {
		for k.Outside(pid, tid, since) != Elsewhere { // the test ends by its own time limit
			time.Sleep(time.Millisecond)
		}
		t.Logf("the %s thread is outside", what)
	}
	if got := k.Outside(pid, tracefs.MaxTID, since); got != NoThread {
		t.Errorf("no thread: %d", got)
	}
}
