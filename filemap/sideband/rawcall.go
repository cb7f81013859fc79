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
// affected. Where a process maps a file there, or in the heap, none of its files is sure.

// rawCalls are the numbers of munmap, mremap and prctl for 32-bit processes
// (arch/x86/entry/syscalls/syscall_32.tbl). They are also the numbers of fchmod, acct and
// iopl (syscall_64.tbl).
const (
	rawUnmap, rawMove, rawControl = 91, 163, 172

	rawFilter = "id == 91 || id == 163 || id == 172"
)

// low is where the addresses end that a 32-bit call can name.
const low = 1 << 32

// isRawCompat reports whether a record of raw_syscalls:sys_enter is of a call of the x32 ABI,
// or of one of the 32-bit calls: the first argument is a descriptor, a path or a level where
// it is of the 64-bit one.
func isRawCompat(raw []byte, tp *Tracepoint) bool {
	const argSize, args = 8, 2 // of include/trace/events/syscalls.h: they follow the number
	at := tp.fields[0].Offset
	if at+argSize*(1+args) > len(raw) {
		return true // not the form that is known
	}
	word := func(i int) uint64 { return binary.NativeEndian.Uint64(raw[at+i*argSize:]) }
	first, second := word(1), word(2)
	switch word(0) {
	default:
		return word(0)&^(compat.X32Bit-1) == compat.X32Bit
	case rawUnmap:
		mode := uint64(1<<16 - 1) // of fchmod; what is in the lowest pages is no code
		return first < low && first%uint64(os.Getpagesize()) == 0 && (first > 0 || second > mode)
	case rawMove:
		return first < low
	case rawControl:
		return first == unix.PR_SET_MM
	}
}

// heaped notes that a process maps a file as code where brk may unmap it unseen. The end of
// its heap is unknown if the process is from before the trace, say.
func heaped(b *Band, r *perf.Record, m *procmap.Mapping) {
	end, known := b.calls.heaps.top[r.PID]
	if !known {
		end = low + heapReach
	}
	if !b.rings.raw || !m.Kind.HasFile() || m.Start >= max(low, end) {
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
