package blocked

import (
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"ustack/filemap/bounded"
	"ustack/tracefs/capturetest"
	"ustack/tracefs/perf"
	"ustack/tracefs/perf/perftest"
)

// wait reads a stack until the thread waits.
func wait(t *testing.T, r *Reader, tid, size int) *Stack {
	t.Helper()
	for from := time.Now(); ; {
		s, err := r.Read(tid, size)
		if err == nil {
			return s
		}
		if !errors.Is(err, ErrRunning) && !errors.Is(err, bounded.ErrSlow) || time.Since(from) > 20*time.Second {
			t.Fatal(err)
		}
		time.Sleep(100 * time.Microsecond)
	}
}

// needSyscall skips where the kernel does not have /proc/TID/syscall.
func needSyscall(t *testing.T) {
	t.Helper()
	if _, err := os.Stat("/proc/self/syscall"); err != nil {
		t.Skipf("/proc/TID/syscall is needed (CONFIG_HAVE_ARCH_TRACEHOOK): %v", err)
	}
}

// TestRead reads the stack of a thread of ours that waits for a pipe.
func TestRead(t *testing.T) {
	// A collection makes the stack of a goroutine that waits smaller, and moves it.
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	needSyscall(t)
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pipe[0])
	tid, mark, done := make(chan int), make(chan uint64), make(chan bool)
	go func() {
		runtime.LockOSThread()
		var stack [64]uint64
		for i := range stack {
			stack[i] = 0x600dcafe00000000 + uint64(i)
		}
		tid <- unix.Gettid()
		mark <- uint64(uintptr(unsafe.Pointer(&stack)))
		// Not RawSyscall: the wait would keep a P, and a garbage collection would wait for it.
		_, _, _ = unix.Syscall(unix.SYS_READ, uintptr(pipe[0]), uintptr(unsafe.Pointer(&stack[10])), 8)
		runtime.KeepAlive(&stack)
		done <- true
	}()
	r := NewReader(Options{Wait: 5 * time.Second})
	id, at := <-tid, <-mark
	for _, size := range []int{0, 8, 100, 8 << 10} {
		var s *Stack
		for from := time.Now(); ; {
			if s = wait(t, r, id, size); s.Call == unix.SYS_READ {
				break
			}
			if time.Since(from) > 20*time.Second {
				t.Fatalf("the thread does not read: call %d", s.Call)
			}
			time.Sleep(time.Millisecond) // with one P it may not have got to run
		}
		sp, _ := s.Regs.SP()
		if pc, ok := s.Regs.PC(); !ok || pc == 0 {
			t.Error("no program counter")
		}
		if s.TID != id || s.PID != os.Getpid() || s.ABI != perf.ABI64 || s.Args[0] != uint64(pipe[0]) || s.Args[2] != 8 || s.From >= s.To ||
			s.Started == 0 || len(s.Memory) != size {
			t.Errorf("%d bytes: %+v", size, s)
		}
		for n, want := range map[string][2]uint64{"amd64": {5, uint64(pipe[0])}, "arm64": {0, uint64(pipe[0])}} {
			if got, _ := s.Regs.Get(int(want[0])); n == runtime.GOARCH && got != want[1] {
				t.Errorf("the first argument is %d", got)
			}
		}
		if off := at - sp; size > 1000 {
			for i := range 64 {
				if got := binary.NativeEndian.Uint64(s.Memory[off+8*uint64(i):]); got != 0x600dcafe00000000+uint64(i) {
					t.Errorf("place %d of the stack has %#x", i, got)
				}
			}
		}
	}
	_, _ = unix.Write(pipe[1], make([]byte, 8))
	<-done
	_ = unix.Close(pipe[1])
}

// TestEndOfStack: reading ends where the memory does.
func TestEndOfStack(t *testing.T) {
	page := os.Getpagesize()
	mem, err := unix.Mmap(-1, 0, 4*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(mem) }()
	if err := unix.Mprotect(mem[2*page:], unix.PROT_NONE); err != nil {
		t.Fatal(err)
	}
	mem[page] = 7
	at := uint64(uintptr(unsafe.Pointer(&mem[page-100])))
	for size, want := range map[int]int{0: 0, 50: 50, 100: 100, 101: 101, page: page, MaxSize: page + 100} {
		if b, err := memory(os.Getpid(), at, size); err != nil || len(b) != want || size > 100 && b[100] != 7 {
			t.Errorf("%d bytes: %d, %v", size, len(b), err)
		}
	}
	if b, err := memory(os.Getpid(), uint64(uintptr(unsafe.Pointer(&mem[3*page]))), 100); err != nil || len(b) != 0 {
		t.Errorf("no memory: %d bytes, %v", len(b), err)
	}
}

// TestNeverTorn: a thread that writes to its stack and sleeps, again and again, is read
// while it sleeps or not at all.
func TestNeverTorn(t *testing.T) {
	capturetest.SkipShort(t)
	needSyscall(t)
	tid := make(chan int)
	var stop atomic.Bool
	ended := make(chan bool)
	const places = 1024
	at := make(chan uint64, 1)
	go func() {
		runtime.LockOSThread()
		defer close(ended)
		tid <- unix.Gettid()
		var stack [places]uint64
		at <- uint64(uintptr(unsafe.Pointer(&stack)))
		pause := unix.Timespec{Nsec: 200_000}
		for i := uint64(1); !stop.Load(); i++ {
			for range 5 {
				for k := range stack {
					stack[k] = i
				}
			}
			_, _, _ = unix.Syscall(unix.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&pause)), 0, 0) // others of ours may run
		}
		runtime.KeepAlive(&stack)
	}()
	r := NewReader(Options{Wait: 5 * time.Second})
	id, addr := <-tid, <-at
	read, refused := 0, 0
	for from := time.Now(); read < 500 && time.Since(from) < 30*time.Second || refused == 0 && time.Since(from) < time.Second; {
		time.Sleep(50 * time.Microsecond) // with one P the thread would not get to run
		s, err := r.Read(id, 32<<10)
		if err != nil {
			refused++
			continue
		}
		sp, _ := s.Regs.SP()
		off := addr - sp
		if s.Call != unix.SYS_NANOSLEEP || off+8*places > uint64(len(s.Memory)) {
			continue // it waits for something else
		}
		read++
		first := binary.NativeEndian.Uint64(s.Memory[off:])
		for k := range uint64(places) {
			if got := binary.NativeEndian.Uint64(s.Memory[off+8*k:]); got != first {
				t.Fatalf("place %d is of round %d, the first one of %d", k, got, first)
			}
		}
	}
	stop.Store(true)
	<-ended
	t.Logf("%d read, %d refused", read, refused)
	if read == 0 {
		t.Error("no stack was read")
	}
}

// TestRunning: a thread that runs has no stack to read.
func TestRunning(t *testing.T) {
	needSyscall(t)
	r := NewReader(Options{Wait: 5 * time.Second})
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	tid := unix.Gettid()
	result := make(chan error)
	var over atomic.Bool
	go func() {
		_, err := r.Read(tid, 100)
		over.Store(true)
		result <- err
	}()
	for !over.Load() { // another thread reads
	}
	// It may have been taken off its CPU all the time, which is as good.
	if err := <-result; err != nil && !errors.Is(err, ErrRunning) {
		t.Error(err)
	}
}

// TestKernelThread: a thread of the kernel has no stack in user space.
func TestKernelThread(t *testing.T) {
	needSyscall(t)
	const kthreadd = 2
	if comm, err := os.ReadFile("/proc/2/comm"); err != nil || string(comm) != "kthreadd\n" {
		t.Skip("the thread 2 is not the kernel's")
	}
	if _, err := NewReader(Options{Wait: 5 * time.Second}).Read(kthreadd, 100); !errors.Is(err, ErrKernel) && !errors.Is(err, os.ErrPermission) {
		t.Error(err)
	}
}

// clone makes a process with a number, or any if that is 0. It waits for ever.
func clone(tid int) (int, syscall.Errno) {
	set := int32(tid)
	args := struct{ flags, pidfd, child, parent, exit, stack, size, tls, set, sets, cgroup uint64 }{exit: uint64(unix.SIGCHLD)}
	if tid != 0 {
		args.set, args.sets = uint64(uintptr(unsafe.Pointer(&set))), 1
	}
	pid, _, e := syscall.RawSyscall(unix.SYS_CLONE3, uintptr(unsafe.Pointer(&args)), unsafe.Sizeof(args), 0)
	if pid == 0 && e == 0 {
		for {
			_, _, _ = syscall.RawSyscall6(unix.SYS_PPOLL, 0, 0, 0, 0, 0, 0)
		}
	}
	runtime.KeepAlive(&set)
	return int(pid), e
}

func kill(t *testing.T, pid int) {
	t.Helper()
	var status unix.WaitStatus
	if err := unix.Kill(pid, unix.SIGKILL); err != nil {
		t.Error(err)
	}
	for {
		if _, err := unix.Wait4(pid, &status, 0, nil); err != unix.EINTR {
			return
		}
	}
}

// TestEnded: of a thread that has ended there is no stack, nor is that of another one with
// its number taken for it.
func TestEnded(t *testing.T) {
	needSyscall(t)
	r := NewReader(Options{Wait: 5 * time.Second})
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	pid, e := clone(0)
	if e != 0 {
		t.Skipf("clone3 is needed: %v", e)
	}
	first := wait(t, r, pid, 100)
	old, err := r.open(pid)
	if err != nil {
		t.Fatal(err)
	}
	defer old.close()
	kill(t, pid)
	if _, err := r.Read(pid, 100); !errors.Is(err, ErrEnded) {
		t.Errorf("a thread that has ended: %v", err)
	}
	time.Sleep(20 * time.Millisecond) // starts are counted in ticks
	again, e := clone(pid)
	if e != 0 {
		t.Skipf("the right to choose PIDs is needed (CAP_CHECKPOINT_RESTORE): %v", e)
	}
	if again != pid {
		t.Fatalf("PID %d in place of %d", again, pid)
	}
	defer kill(t, again)
	second := wait(t, r, again, 100)
	if second.Started == first.Started {
		t.Errorf("both started at %d", first.Started)
	}
	if _, err := old.stack(100); !errors.Is(err, ErrEnded) {
		t.Errorf("another thread with the number: %v", err)
	}
}

// TestRead32: a 32-bit thread has the registers of its machine.
func TestRead32(t *testing.T) {
	needSyscall(t)
	if runtime.GOARCH != "amd64" {
		t.Skip("the program is for amd64")
	}
	name := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(name, perftest.Program32(), 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(name)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if err := cmd.Start(); err != nil {
		t.Skipf("a kernel that runs 32-bit programs is needed: %v", err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	s := wait(t, NewReader(Options{Wait: 5 * time.Second}), cmd.Process.Pid, 64)
	const read = 3 // its number for i386
	ebp, _ := s.Regs.Get(5)
	edx, _ := s.Regs.Get(2)
	if s.Call != read || s.ABI != perf.ABI32 || s.Regs.Machine != perf.I386 || ebp != perftest.EBP32 || edx != 1 {
		t.Errorf("%+v", s)
	}
	if len(s.Memory) < 4 || binary.NativeEndian.Uint32(s.Memory) != perftest.Stack32 {
		t.Errorf("its stack begins with %x", s.Memory)
	}
}

// silentMemory is memory that userfaultfd(2) serves, and nothing answers for it.
func silentMemory(t *testing.T, size int) []byte {
	t.Helper()
	mem, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	fd, _, e := unix.Syscall(unix.SYS_USERFAULTFD, unix.O_CLOEXEC|unix.O_NONBLOCK, 0, 0)
	if e != 0 {
		t.Skipf("userfaultfd is needed: %v", e)
	}
	t.Cleanup(func() { _ = unix.Munmap(mem) })
	t.Cleanup(func() { _ = unix.Close(int(fd)) }) // ends all that waits
	const (
		uffdioAPI, uffdioRegister = 0xc018aa3f, 0xc020aa00
		missing                   = 1
	)
	api := [3]uint64{0xaa}
	if _, _, e := unix.Syscall(unix.SYS_IOCTL, fd, uffdioAPI, uintptr(unsafe.Pointer(&api))); e != 0 {
		t.Skipf("userfaultfd is needed: %v", e)
	}
	register := [4]uint64{uint64(uintptr(unsafe.Pointer(&mem[0]))), uint64(size), missing}
	if _, _, e := unix.Syscall(unix.SYS_IOCTL, fd, uffdioRegister, uintptr(unsafe.Pointer(&register))); e != 0 {
		t.Skipf("userfaultfd is needed: %v", e)
	}
	return mem
}

// TestHanging: a stack in memory that does not answer is given up, is not tried again,
// and does not keep others from being read.
func TestHanging(t *testing.T) {
	needSyscall(t)
	const size = 16 << 10
	mem := silentMemory(t, size)
	// A process in our memory whose stack that is: its first step there waits.
	top := uintptr(unsafe.Pointer(&mem[size/2]))
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	pid, _, e := syscall.RawSyscall6(syscall.SYS_CLONE, unix.CLONE_VM|uintptr(syscall.SIGCHLD), top, 0, 0, 0, 0)
	if e != 0 {
		t.Fatal(e)
	}
	t.Cleanup(func() { kill(t, int(pid)) })
	r := NewReader(Options{Wait: 200 * time.Millisecond})
	for from := time.Now(); ; {
		_, err := r.Read(int(pid), 1000)
		if errors.Is(err, bounded.ErrSlow) {
			break
		}
		if !errors.Is(err, ErrRunning) || time.Since(from) > 20*time.Second {
			t.Fatalf("a hanging stack: %v", err)
		}
	}
	from := time.Now()
	for range 1000 {
		if _, err := r.Read(int(pid), 1000); !errors.Is(err, bounded.ErrSlow) {
			t.Fatalf("again: %v", err)
		}
	}
	t.Logf("1,000 more readings took %v", time.Since(from))
	other := exec.Command("sleep", "1000")
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = other.Process.Kill()
		_ = other.Wait()
	}()
	wait(t, r, other.Process.Pid, 1000)
}

// TestParse: what the files have.
func TestParse(t *testing.T) {
	c, err := parseCall("202 0x1 0x2 0x3 0x4 0x5 0x6 0x7ffd00 0x401000\n")
	if want := (call{202, [6]uint64{1, 2, 3, 4, 5, 6}, 0x7ffd00, 0x401000}); err != nil || c != want {
		t.Errorf("%+v, %v", c, err)
	}
	c, err = parseCall("-1 0x7ffd00 0x401000\n")
	if want := (call{number: -1, sp: 0x7ffd00, pc: 0x401000}); err != nil || c != want {
		t.Errorf("%+v, %v", c, err)
	}
	if _, err := parseCall("running\n"); !errors.Is(err, ErrRunning) {
		t.Error(err)
	}
	for _, text := range []string{"", "1 2", "x 0x1 0x2", "-1 0x1 y", "1 2 3 4 5 6 7 8 9 10"} {
		if c, err := parseCall(text); err == nil {
			t.Errorf("%q is %+v", text, c)
		}
	}
	for _, text := range []string{"", "Tgid:\t5\n", "Tgid:\tx\nvoluntary_ctxt_switches:\t1\nnonvoluntary_ctxt_switches:\t1\n"} {
		if s, err := parseStatus([]byte(text)); err == nil {
			t.Errorf("%q is %+v", text, s)
		}
	}
}

// BenchmarkRead reads the stack of a thread that waits.
func BenchmarkRead(b *testing.B) {
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	time.Sleep(100 * time.Millisecond)
	r := NewReader(Options{})
	for b.Loop() {
		if _, err := r.Read(cmd.Process.Pid, 8<<10); err != nil && !errors.Is(err, ErrRunning) {
			b.Fatal(err)
		}
	}
}
