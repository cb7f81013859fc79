package perf_test

import (
	"encoding/binary"
	"errors"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"ustack/tracefs/instance"
	"ustack/tracefs/perf"
	"ustack/tracefs/syscalls"
)

// tracepoint is the number of an event of this kernel.
func tracepoint(t testing.TB, system, name string) uint64 {
	t.Helper()
	root, err := instance.Find("")
	if err == nil {
		var id uint64
		if id, err = root.ID(instance.Event{System: system, Name: name}); err == nil {
			return id
		}
	}
	t.Skipf("the tracepoint %s:%s is needed: %v", system, name, err)
	return 0
}

// openSampler opens a sampler, if it may be had.
func openSampler(t testing.TB, opt perf.SamplerOptions) *perf.Sampler {
	t.Helper()
	s, err := perf.OpenSampler(opt)
	if errors.Is(err, perf.ErrDenied) || errors.Is(err, perf.ErrUnsupported) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// word is a futex of the test.
var word uint32

// futex makes a call that returns at once: the futex has another value.
func futex(op, val int) {
	_, _, _ = unix.RawSyscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(&word)), uintptr(op), uintptr(val), 0, 0, 0)
}

// argument registers of a system call, by their DWARF numbers: the second and the third.
func arguments(t testing.TB) (op, val int) {
	switch runtime.GOARCH {
	case "amd64":
		return 4, 1 // rsi, rdx
	case "arm64":
		return 1, 2
	}
	t.Skip("no registers are known of", runtime.GOARCH)
	return 0, 0
}

// TestSampler samples calls of our own thread: their registers are the arguments, the
// filter holds, the stack is our memory, the times are those of the calls.
func TestSampler(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	opReg, valReg := arguments(t)
	for name, threads := range map[string][]int{"machine": nil, "thread": {unix.Gettid()}} {
		for _, bytes := range []int{0, 512, 8 << 10} {
			id := tracepoint(t, "syscalls", "sys_enter_futex")
			s := openSampler(t, perf.SamplerOptions{StackBytes: bytes, Threads: threads, CallChain: 127,
				Tracepoints: []perf.Tracepoint{{ID: id, Filter: "val > 3000000 && val < 4000000 && op == 128"}}})
			const op, calls, first = 128, 100, 3_000_001 // not what the tests of package join call at the same time
			var mark [4]uint64                           // on the stack
			from := s.Now()
			for i := range calls {
				mark[1] = 0x600dcafe00000000 + uint64(i)
				futex(op, first+i)
				futex(op, 1+i)
				futex(0, first+i)
			}
			n := 0
			until := s.Read(func(sample *perf.StackSample) {
				if sample.TID != unix.Gettid() {
					return
				}
				op, _ := sample.Regs.Get(opReg)
				val, _ := sample.Regs.Get(valReg)
				if sample.PID != os.Getpid() || op != 128 || val != uint64(first+n) || sample.ABI != perf.ABI64 ||
					sample.Time < from || sample.Tracepoint != id || sample.CPU >= perf.MaxCPUs {
					t.Fatalf("%s, %d: sample %d is %+v", name, bytes, n, sample)
				}
				sp, _ := sample.Regs.SP()
				pc, _ := sample.Regs.PC()
				if len(sample.Chain) == 0 || sample.Chain[0] != pc || len(sample.Chain) > s.CallChain() {
					t.Fatalf("%s, %d: at %#x, with the call chain %#x", name, bytes, pc, sample.Chain)
				}
				if bytes > 0 {
					at := uint64(uintptr(unsafe.Pointer(&mark[1]))) - sp
					if at+8 > uint64(len(sample.Stack)) || len(sample.Stack) > bytes || sample.Short != (len(sample.Stack) < bytes) {
						t.Fatalf("%s, %d: %d bytes of stack", name, bytes, len(sample.Stack))
					}
					if got := binary.NativeEndian.Uint64(sample.Stack[at:]); got != 0x600dcafe00000000+uint64(n) {
						t.Fatalf("%s, %d: sample %d has %#x on its stack", name, bytes, n, got)
					}
				}
				n++
			}, func(l perf.Loss) { t.Logf("%+v", l) })
			if n != calls || until < from {
				t.Errorf("%s, %d: %d samples, until %d", name, bytes, n, until)
			}
			runtime.KeepAlive(&mark)
		}
	}
}

// TestSamplerInherits: threads that a sampled thread starts are sampled.
func TestSamplerInherits(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	id := tracepoint(t, "syscalls", "sys_enter_getpgid")
	s := openSampler(t, perf.SamplerOptions{StackBytes: 64, Threads: []int{unix.Gettid()}, Tracepoints: []perf.Tracepoint{{ID: id}}})
	child, _, e := syscall.RawSyscall6(syscall.SYS_CLONE, uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0)
	if e != 0 {
		t.Fatal(e)
	}
	if child == 0 {
		_, _, _ = syscall.RawSyscall(syscall.SYS_GETPGID, 0, 0, 0)
		_, _, _ = syscall.RawSyscall(syscall.SYS_EXIT_GROUP, 0, 0, 0)
	}
	var status unix.WaitStatus
	if _, err := unix.Wait4(int(child), &status, 0, nil); err != nil {
		t.Fatal(err)
	}
	n := 0
	s.Read(func(sample *perf.StackSample) { n++ }, func(perf.Loss) {})
	if n != 1 {
		t.Errorf("%d samples", n)
	}
}

// TestWaitFilter: the kernel takes the filter for calls that can wait, and samples these.
func TestWaitFilter(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	opReg, valReg := arguments(t)
	s := openSampler(t, perf.SamplerOptions{Threads: []int{unix.Gettid()},
		Tracepoints: []perf.Tracepoint{{ID: tracepoint(t, "syscalls", "sys_enter_futex"), Filter: syscalls.WaitFilter()}}})
	const val = 1000007
	for _, op := range []int{0, 1, 128, 129, 256, 3, 9, 128 + 9 + 256, 10, 7} {
		futex(op, val)
	}
	var got []uint64
	s.Read(func(sample *perf.StackSample) {
		if v, _ := sample.Regs.Get(valReg); v == val {
			op, _ := sample.Regs.Get(opReg)
			got = append(got, op)
		}
	}, func(perf.Loss) {})
	if want := []uint64{0, 128, 256, 9, 128 + 9 + 256}; !slices.Equal(got, want) {
		t.Errorf("operations %d", got)
	}
}

// TestSamplerRefused: why there is no sampler.
func TestSamplerRefused(t *testing.T) {
	if _, err := perf.OpenSampler(perf.SamplerOptions{Clock: "local"}); !errors.Is(err, perf.ErrClock) {
		t.Errorf("clock local: %v", err)
	}
	id := tracepoint(t, "syscalls", "sys_enter_futex")
	openSampler(t, perf.SamplerOptions{Tracepoints: []perf.Tracepoint{{ID: id}}})
	if _, err := perf.OpenSampler(perf.SamplerOptions{Threads: []int{1 << 22}, Tracepoints: []perf.Tracepoint{{ID: id}}}); !errors.Is(err, perf.ErrNoThreads) {
		t.Errorf("no threads: %v", err)
	}
	if _, err := perf.OpenSampler(perf.SamplerOptions{Tracepoints: []perf.Tracepoint{{ID: id, Filter: "nonsense > 1"}}}); err == nil || !strings.Contains(err.Error(), "filter") {
		t.Errorf("a filter of nonsense: %v", err)
	}
}
