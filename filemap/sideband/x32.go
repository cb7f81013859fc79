package sideband

import (
	"fmt"
	"strings"

	"ustack/filemap/compat"
)

// A 64-bit process of x86 can also make system calls of the x32 ABI, where the kernel has it
// (compat.X32). The tracepoints of
// system calls leave these out, too, and their functions are those of 64-bit calls. So the
// tracepoint of all calls reports them, raw_syscalls:sys_enter: their numbers have a bit of
// their own.

// x32Calls are the numbers of those that change what is mapped, or make a process, without
// the bit (arch/x86/entry/syscalls/syscall_64.tbl): mmap, munmap, brk, mremap, madvise, shmat,
// clone, fork, vfork, shmdt, prctl, io_destroy, clone3, process_madvise, io_setup.
var x32Calls = [...]int{9, 11, 12, 25, 28, 30, 56, 57, 58, 67, 157, 207, 435, 440, 543}

// compatFilter has the kernel report calls by raw_syscalls:sys_enter that other tracepoints
// do not.
func (rs *rings) compatFilter() string {
	var list []string
	if rs.raw {
		list = append(list, rawFilter)
	}
	if rs.x32 {
		for _, n := range x32Calls {
			list = append(list, fmt.Sprintf("id == %d", n|compat.X32Bit))
		}
	}
	return strings.Join(list, " || ")
}
