package sideband

import (
	"encoding/binary"
	"os"

	"golang.org/x/sys/unix"

	"ustack/filemap/compat"
	"ustack/filemap/procmap"
	"ustack/filemap/space"
	"ustack/tracefs/perf"
)

// Without kprobes, 32-bit system calls of 64-bit processes are seen by the tracepoint of all
// calls, raw_syscalls:sys_enter. It gives the number of a call only: a 64-bit process can
// call what has that number with 64 bits. So only numbers are recorded that are rare there,
// and the arguments have to be those of the 32-bit call.
//
// brk is not among them: its number is that of recvfrom(2). It unmaps what is in the heap,
// and a 32-bit call can only name an end below 4 GiB, so only a heap that begins there is
// affected. Nor is mmap, which unmaps what was there if it fails: its numbers are those of
// chmod(2) and lgetxattr(2). It can name a range that ends below 8 GiB. Where a process maps a
// file in either, none of its files is sure.

// rawCalls are the numbers of munmap, mremap, prctl, madvise, io_setup, io_destroy and
// process_madvise for 32-bit processes (arch/x86/entry/syscalls/syscall_32.tbl). They are also
// the numbers of fchmod, acct, iopl, restart_syscall, mq_getsetattr, kexec_load and
// process_madvise (syscall_64.tbl).
const (
	rawUnmap, rawMove, rawControl  = 91, 163, 172
	rawAdvise, rawRing, rawRingEnd = 219, 245, 246
	rawAdviseAny                   = 440

	// rawFilter compares the numbers of frequent calls, read and futex say, with two or three others.
	rawFilter = "(id > 90 && id < 173 && (id == 91 || id == 163 || id == 172)) || (id > 218 && (id == 219 || id == 245 || id == 246 || id == 440))"
)

// low is where the addresses end that a 32-bit call can name, rangeReach where the ranges do.
const low, rangeReach = 1 << 32, 2 * low

// isRawCompat reports whether a record of raw_syscalls:sys_enter is of a call of the x32 ABI,
// or may be of one of the 32-bit calls: a descriptor, a path or a level is no address of a page.
// A 32-bit call ignores the upper halves of its arguments, which can be anything.
func isRawCompat(raw []byte, tp *Tracepoint) bool {
	const argSize, args = 8, 4 // of include/trace/events/syscalls.h: they follow the number
	at := tp.fields[0].Offset
	if at+argSize*(1+args) > len(raw) {
		return true // not the form that is known
	}
	number := binary.NativeEndian.Uint64(raw[at:])
	arg := func(i int) uint32 { return uint32(binary.NativeEndian.Uint64(raw[at+i*argSize:])) }
	first, second := arg(1), arg(2)
	page := first%uint32(os.Getpagesize()) == 0
	switch number {
	case rawUnmap:
		const mode = 1<<16 - 1 // of fchmod; what is in the lowest pages is no code
		return page && (first > 0 || second > mode)
	case rawMove, rawRingEnd:
		return page
	case rawControl:
		return first == unix.PR_SET_MM
	case rawAdvise:
		return page && arg(3) == unix.MADV_DONTFORK
	case rawRing:
		return second > 0
	case rawAdviseAny:
		return arg(4) == unix.MADV_DONTFORK
	}
	return number&^(compat.X32Bit-1) == compat.X32Bit
}

// heaped notes that a process maps a file as code where brk may unmap it unseen. The end of
// its heap is unknown if the process is from before the trace, say.
func heaped(b *Band, r *perf.Record, m *procmap.Mapping) {
	end, known := b.calls.heaps.top[r.PID]
	if !known {
		end = low + heapReach
	}
	if !b.rings.raw || !m.Kind.HasFile() || m.Start >= max(rangeReach, end) {
		return
	}
	sp := b.History.Spaces.Space(r.PID)
	if sp.Loading(r.Time, r.Time+1) || !b.rings.reportsLoaded() && ofProgram(sp.At(r.Time), m) {
		return // below the heap
	}
	b.History.compat(r.PID, r.Time)
}

// ofProgram reports whether a file is the first one of which a process has mapped code.
func ofProgram(v *space.Version, m *procmap.Mapping) bool {
	if v != nil {
		for known := range v.Mappings.All() {
			if known.File.Kind.HasFile() && (known.File.Inode != m.Inode || known.File.Dev != m.Dev) {
				return false
			}
		}
	}
	return true
}

// inHeap reports whether one of the mappings of code that a process was found to have, in
// order, may be in a heap that begins below 4 GiB. The lowest one is the program's then. Its
// segments are of one file, each as far from its offset as the others; what is not like that
// was mapped later. Where the heap ends is unknown.
func inHeap(ms []procmap.Mapping) bool {
	for i := range ms {
		m, program := &ms[i], &ms[0]
		segment := program.Start < low && m.Inode == program.Inode && m.Dev == program.Dev && m.Start-m.Offset == program.Start-program.Offset
		if m.Start < low+heapReach && m.Kind.HasFile() && !segment {
			return true
		}
	}
	return false
}
