package tasks

import (
	"os"

	"golang.org/x/sys/unix"

	"ustack/filemap/compat"
	"ustack/tracefs"
)

// A 64-bit process of x86 can enter the kernel as a 32-bit one does (int 0x80), or by the x32 ABI.
// The tracepoints of system calls leave these out (arch_trace_is_compat_syscall in
// arch/x86/include/asm/ftrace.h); the one of all calls has them, by number, and does not say which
// kind they are. So those are taken whose numbers are rare as 64-bit ones, with arguments that the
// 64-bit calls of these numbers do not have. Not seen are: 32-bit brk, remap_file_pages and io_destroy,
// whose numbers are not rare, and a program that hides: what its registers have above their lower
// halves, which the kernel ignores, can make it look like the 64-bit call.

// Numbers of 32-bit calls (arch/x86/entry/syscalls/syscall_32.tbl). As 64-bit ones they are chmod,
// fchmod, setresuid, capget, acct and lgetxattr; the last three are none.
const (
	oldMap32, unmap32, ipc32, protect32, move32, map32 = 90, 91, 117, 125, 163, 192
	pkeyProtect32, attach32, detach32                  = 380, 397, 398

	foreignFilter = "id == 90 || id == 91 || id == 117 || id == 125 || id == 163 || id == 192 || id == 380 || id == 397 || id == 398 || id >= 0x40000000"
)

// argsField is the field that has the arguments, an array.
const argsField = "args"

func foreignSpecs() []spec {
	if !compat.Int80() && !compat.X32() {
		return nil // the tracepoint would cost time for nothing
	}
	s := spec{kind: Foreign, system: "raw_syscalls", event: "sys_enter", filter: foreignFilter, fields: []string{"id", argsField}}
	return []spec{s.rare()}
}

// isForeign reports whether a record of the tracepoint of all calls is of a call that can change
// code and that no other tracepoint reports.
func isForeign(e *Event) bool {
	const low = 1 << 32 // where the values end that a 32-bit call has
	number, a := e.Args[0], e.Args[1:]
	page := uint64(os.Getpagesize())
	place := a[0] > 0 && a[0] < low && a[0]%page == 0
	switch number {
	case oldMap32:
		return a[0] > 0 && a[0] < low // the arguments are in memory
	case unmap32, move32:
		return place
	case protect32:
		return place && a[1] < low && a[2]&unix.PROT_EXEC != 0
	case map32:
		const types = unix.MAP_SHARED | unix.MAP_PRIVATE
		return a[0] < low && a[1] < low && a[2] < low && a[3] < low && a[3]&types != 0 &&
			(a[2]&unix.PROT_EXEC != 0 || a[3]&unix.MAP_FIXED != 0)
	case ipc32:
		const call, attach, detach = 1<<16 - 1, 21, 22 // include/uapi/linux/ipc.h
		return a[0] < low && (a[0]&call == attach || a[0]&call == detach)
	case pkeyProtect32, attach32, detach32:
		return true
	}
	return number&compat.X32Bit != 0 && int64(number) > 0
}

// foreign notes such a call: nothing is known of the memory from then on, until the process
// executes another program.
func (k *known) foreign(m *memory, at tracefs.Time) {
	k.count(m, at)
	if m.blind {
		return
	}
	m.blind, m.answer = true, nil
	for _, pid := range m.pids {
		k.spaces.Lose(pid, at)
		k.keeps.each(func(s stays) { s.end(pid, at) })
	}
	delete(k.todo, m)
}
