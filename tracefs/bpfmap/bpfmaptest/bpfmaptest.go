package bpfmaptest

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Maps are the maps of a program that is attached.
type Maps struct {
	// Stacks and Counts are descriptors of the maps. A key of Counts has the stack ID at byte
	// 0 and the process at 4, a value is 8 bytes.
	Stacks, Counts int
}

// Depth is how many frames a stack of the map has at most.
const Depth = 32

// Attach makes maps of the stacks with which the threads of a process enter futex. It skips the
// test if this machine does not let it, and is undone at the end of the test.
func Attach(t testing.TB, tgid int) *Maps {
	t.Helper()
	const entry, entries = 32, 4096
	m := &Maps{}
	m.Stacks = open(t, "making a stack map", unix.BPF_MAP_CREATE, &struct{ kind, key, value, entries, flags uint32 }{
		unix.BPF_MAP_TYPE_STACK_TRACE, 4, Depth * entry, entries, unix.BPF_F_STACK_BUILD_ID})
	m.Counts = open(t, "making a hash map", unix.BPF_MAP_CREATE, &struct{ kind, key, value, entries, flags uint32 }{
		unix.BPF_MAP_TYPE_HASH, 8, 8, entries, 0})
	code, license, log := program(tgid, m.Stacks, m.Counts), []byte("GPL\x00"), make([]byte, 1<<16)
	defer runtime.KeepAlive([][]byte{code, license, log})
	const instructionSize = 8
	loaded := open(t, "loading a program: "+string(log), unix.BPF_PROG_LOAD, &struct {
		kind, count    uint32
		code, license  uint64
		level, size    uint32
		log            uint64
		version, flags uint32
	}{unix.BPF_PROG_TYPE_TRACEPOINT, uint32(len(code) / instructionSize), address(code), address(license), 1, uint32(len(log)), address(log), 0, 0})
	attr := unix.PerfEventAttr{Type: unix.PERF_TYPE_TRACEPOINT, Size: uint32(unsafe.Sizeof(unix.PerfEventAttr{})), Config: tracepoint(t), Sample: 1}
	event, err := unix.PerfEventOpen(&attr, -1, 0, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if err != nil {
		skip(t, "opening the event sys_enter_futex: %v", err)
	}
	t.Cleanup(func() { _ = unix.Close(event) })
	if err := unix.IoctlSetInt(event, unix.PERF_EVENT_IOC_SET_BPF, loaded); err != nil {
		skip(t, "attaching the program: %v", err)
	}
	if err := unix.IoctlSetInt(event, unix.PERF_EVENT_IOC_ENABLE, 0); err != nil {
		t.Fatalf("enabling the event: %v", err)
	}
	return m
}

// Pin gives a map a path, which is gone at the end of the test. The bpf file system that it is
// in is mounted nowhere.
func Pin(t testing.TB, fd int) string {
	t.Helper()
	fs, err := unix.Fsopen("bpf", unix.FSOPEN_CLOEXEC)
	if err != nil {
		skip(t, "opening a bpf file system: %v", err)
	}
	defer unix.Close(fs)
	if err := unix.FsconfigCreate(fs); err != nil {
		skip(t, "making a bpf file system: %v", err)
	}
	mount, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, 0)
	if err != nil {
		skip(t, "mounting a bpf file system: %v", err)
	}
	t.Cleanup(func() { _ = unix.Close(mount) })
	path := fmt.Sprintf("/proc/self/fd/%d/map", mount)
	name := append([]byte(path), 0)
	a := struct {
		path  uint64
		fd    uint32
		flags uint32
	}{address(name), uint32(fd), 0}
	if _, err := bpf(unix.BPF_OBJ_PIN, unsafe.Pointer(&a), unsafe.Sizeof(a)); err != nil {
		t.Fatalf("pinning a map at %s: %v", path, err)
	}
	runtime.KeepAlive(name)
	return path
}

// ID returns the number of a map.
func ID(t testing.TB, fd int) int {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", fd))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if id, ok := strings.CutPrefix(line, "map_id:"); ok {
			n, err := strconv.Atoi(strings.TrimSpace(id))
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatalf("no map_id in %s", b)
	return 0
}

// tracepoint returns the number of the event sys_enter_futex.
func tracepoint(t testing.TB) uint64 {
	t.Helper()
	for _, dir := range []string{"/sys/kernel/tracing", "/sys/kernel/debug/tracing"} {
		b, err := os.ReadFile(dir + "/events/syscalls/sys_enter_futex/id")
		if err != nil {
			continue
		}
		id, err := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	skip(t, "no tracepoint of futex")
	return 0
}

// open does a command that returns a descriptor, which is closed at the end of the test.
func open[A any](t testing.TB, what string, command uintptr, attr *A) int {
	t.Helper()
	fd, err := bpf(command, unsafe.Pointer(attr), unsafe.Sizeof(*attr))
	if err != nil {
		skip(t, "%s: %v", strings.TrimRight(what, "\x00"), err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	return fd
}

func bpf(command uintptr, attr unsafe.Pointer, size uintptr) (int, error) {
	r, _, errno := unix.Syscall(unix.SYS_BPF, command, uintptr(attr), size)
	if errno != 0 {
		return -1, errno
	}
	return int(r), nil
}

func address(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(&b[0]))) }

// skip skips a test that cannot run here. Where live tests must run (USTACK_LIVE=must), it fails.
func skip(t testing.TB, format string, args ...any) {
	t.Helper()
	if os.Getenv("USTACK_LIVE") == "must" {
		t.Fatalf(format, args...)
	}
	t.Skipf(format, args...)
}
