package sideband

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// A 64-bit process of x86 can also make system calls of the x32 ABI, where the kernel has it
// (CONFIG_X86_X32_ABI; Debian's has to be booted with syscall.x32=y). The tracepoints of
// system calls leave these out, too, and their functions are those of 64-bit calls. So the
// tracepoint of all calls reports them, raw_syscalls:sys_enter: their numbers have a bit of
// their own.

// x32Bit is set in the numbers of these calls (__X32_SYSCALL_BIT in
// arch/x86/include/uapi/asm/unistd.h).
const x32Bit = 1 << 30

// x32Calls are the numbers of those that change what is mapped, or make a process, without
// the bit (arch/x86/entry/syscalls/syscall_64.tbl): mmap, munmap, brk, mremap, madvise, shmat,
// clone, fork, vfork, shmdt, prctl, io_destroy, clone3, process_madvise, io_setup.
var x32Calls = [...]int{9, 11, 12, 25, 28, 30, 56, 57, 58, 67, 157, 207, 435, 440, 543}

// mayBeX32 reports whether a process can make such calls.
func mayBeX32() bool { return runtime.GOARCH == "amd64" && (filtered() || x32Works()) }

// x32Works tries one. A filter of system calls could kill ustack.
func x32Works() bool {
	if filtered() {
		return false
	}
	_, _, err := unix.RawSyscall(unix.SYS_GETPID|x32Bit, 0, 0, 0)
	return err == 0
}

// filtered reports whether this process has a filter of system calls (seccomp), or may have
// one.
func filtered() bool {
	text, err := os.ReadFile("/proc/self/status")
	return err != nil || bytes.Contains(text, []byte("\nSeccomp:\t")) && !bytes.Contains(text, []byte("\nSeccomp:\t0\n"))
}

// compatFilter has the kernel report calls by raw_syscalls:sys_enter that other tracepoints
// do not.
func (rs *rings) compatFilter() string {
	var list []string
	if rs.raw {
		list = append(list, rawFilter)
	}
	if rs.x32 {
		for _, n := range x32Calls {
			list = append(list, fmt.Sprintf("id == %d", n|x32Bit))
		}
	}
	return strings.Join(list, " || ")
}
