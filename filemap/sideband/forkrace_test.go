package sideband

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ustack/filemap/procmap"
	"ustack/tracefs/capturetest"
)

// TestForkWhileMapping: a thread maps one file over another while another thread
// forks. The kernel copies the memory before it reports the fork, so what was mapped
// in between is not the child's.
func TestForkWhileMapping(t *testing.T) {
	forks := 200
	if capturetest.Brief() {
		forks = 50
	}
	b, r := openBand(t, Options{})
	library, dir := mappedLibrary(t), t.TempDir()
	var fds [2]uintptr
	for i, name := range []string{"one", "other"} {
		copyFile(t, library, filepath.Join(dir, name))
		f, err := os.Open(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		fds[i] = f.Fd()
	}
	const rx, private = unix.PROT_READ | unix.PROT_EXEC, unix.MAP_PRIVATE
	addr, _, e := unix.Syscall6(unix.SYS_MMAP, 0, page, rx, private, fds[0], 0)
	if e != 0 {
		t.Fatal(e)
	}
	var stop, busy atomic.Bool
	var round, mapped atomic.Int64 // counts of forks: the one that is to come, and that was mapped for
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		for ; !stop.Load(); time.Sleep(50 * time.Microsecond) {
			now := round.Load()
			if mapped.Load() == now {
				continue
			}
			for i := 1; i <= swaps && busy.Load(); i++ {
				_, _, _ = unix.RawSyscall6(unix.SYS_MMAP, addr, page, rx, private|unix.MAP_FIXED, fds[i%2], 0)
				mapped.Store(now)
			}
		}
	}()
	defer func() { stop.Store(true); <-done }()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	named, wrong, lost := 0, 0, 0
	for range forks {
		busy.Store(true)
		for now := round.Add(1); mapped.Load() != now; {
			runtime.Gosched()
		}
		pid, end := forked(t)
		busy.Store(false)
		at := b.Now()
		has := fileAt(t, pid, uint64(addr))
		d, err := b.Drain()
		if err != nil || d.Malformed > 0 {
			t.Fatal(d, err)
		}
		if d.Doubt { // others start programs all the time, and this test waited for a CPU
			lost++
			end()
			makeGood(t, b, r)
			continue
		}
		p, ok := b.History.Lookup(pid, uint64(addr), at)
		if !ok && b.History.Spaces.Space(pid).At(at).Knows(uint64(addr)) {
			t.Errorf("the child is known to have nothing where it has %s", has)
		}
		if ok && !p.Late {
			named++
			if p.Mapping.File.Name != has {
				wrong++
			}
		}
		end()
	}
	t.Logf("%d of %d children named, %d wrong, %d where records were lost", named, forks, wrong, lost)
	if lost == forks {
		t.Error("records were lost each time")
	}
	if wrong > 0 {
		t.Errorf("%d of %d files are wrong", wrong, named)
	}
}

const swaps = 100 // for each fork at most: records must not be lost

// forked is paused, with an end that comes with the test at the latest: what is left has
// the events of the side band open for ever.
func forked(t *testing.T) (pid int, end func()) {
	t.Helper()
	pid = forkPaused(t)
	end = sync.OnceFunc(func() {
		err := unix.Kill(pid, unix.SIGKILL)
		for first := true; first && err == nil || err == unix.EINTR; first = false {
			_, err = unix.Wait4(pid, nil, 0, nil)
		}
		if err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(end)
	return pid, end
}

// forkPaused forks the calling thread; the child does nothing.
//
//go:norace
func forkPaused(t *testing.T) int {
	syscall.ForkLock.Lock()
	defer syscall.ForkLock.Unlock()
	pid, _, e := unix.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	if pid == 0 && e == 0 {
		for {
			_, _, _ = unix.RawSyscall6(unix.SYS_PPOLL, 0, 0, 0, 0, 0, 0)
		}
	}
	if e != 0 {
		t.Fatal(e)
	}
	return int(pid)
}

// fileAt is the file that a process has at an address.
func fileAt(t *testing.T, pid int, addr uint64) string {
	r, err := procmap.NewReader(procmap.Options{})
	if err != nil {
		t.Fatal(err)
	}
	h, err := r.Open(pid)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	m, ok, err := h.At(addr)
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	return strings.Clone(m.Name)
}
