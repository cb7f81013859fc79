// Package compat says by which other ABIs a 64-bit process of x86 can enter this kernel: the
// tracepoints of system calls leave such calls out (arch_trace_is_compat_syscall in
// arch/x86/include/asm/ftrace.h).
package compat

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// X32Bit is set in the numbers of calls of the x32 ABI (__X32_SYSCALL_BIT in
// arch/x86/include/uapi/asm/unistd.h), and of no others.
const X32Bit = 1 << 30

// Int80 reports whether it may be by int 0x80, as 32-bit processes do: CONFIG_IA32_EMULATION has a
// file for its vDSO (arch/x86/entry/vdso/vdso32-setup.c). Where /proc/sys cannot be looked at, it may.
func Int80() bool {
	if runtime.GOARCH != "amd64" {
		return false
	}
	if _, err := os.Stat("/proc/sys/abi"); err != nil {
		return true
	}
	_, err := os.Stat("/proc/sys/abi/vsyscall32")
	return !errors.Is(err, fs.ErrNotExist)
}

// X32 reports whether it may be by the x32 ABI (CONFIG_X86_X32_ABI; Debian's kernels have to be
// booted with syscall.x32=y).
func X32() bool { return runtime.GOARCH == "amd64" && (filtered() || X32Works()) }

// X32Works tries a call of the x32 ABI, unless a filter of system calls could kill this process.
func X32Works() bool {
	if runtime.GOARCH != "amd64" || filtered() {
		return false
	}
	_, _, err := unix.RawSyscall(unix.SYS_GETPID|X32Bit, 0, 0, 0)
	return err == 0
}

// filtered reports whether this process has a filter of system calls (seccomp), or may have
// one.
func filtered() bool {
	text, err := os.ReadFile("/proc/self/status")
	return err != nil || bytes.Contains(text, []byte("\nSeccomp:\t")) && !bytes.Contains(text, []byte("\nSeccomp:\t0\n"))
}
