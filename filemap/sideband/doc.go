// Package sideband keeps address spaces exact in time: the kernel reports every
// executable mapping, exec, fork and exit on every CPU when it happens, through
// perf_event_open(2), by the clock that the trace has.
//
//	band, err := sideband.Open(space.New(), sideband.Options{Clock: "mono"})
//	…
//	counts, err := band.Refresh(reader) // before tracing is switched on
//	for each batch of trace records {
//		drained, err := band.Drain()
//		if drained.Doubt {
//			counts, err = band.Refresh(reader)
//		}
//		place, ok := band.History.Lookup(tid, address, time)
//	}
//
// Changes that the kernel reports, and others:
//
//   - mmap, mprotect to executable, brk, the vDSO: reported with the whole VMA, after
//     it was merged with its neighbours. Only executable memory is asked for.
//   - munmap, mmap of other memory over it, mremap, shmdt: not reported by perf, but
//     by tracepoints of the system calls (Options.Tracepoints), whose records
//     come in the same rings. The range that they take away is unknown from the
//     entry of the call on, until it is mapped or read again; the range that mremap
//     moved is known at its new place from its return on, if nothing else changed
//     meanwhile.
//   - The tracepoints leave out 32-bit system calls. The mappings of a 32-bit process
//     are never sure (space.Version.Unseen), nor are a 64-bit process's once it calls
//     what changes them that way (int 0x80, see compatCalls), which kprobes report, or
//     else the tracepoint of all system calls, but for brk and mmap; there no file is
//     sure that these could reach. Without either such a call goes unseen (Band.CompatUnseen). So it is
//     with calls of the x32 ABI, which only the tracepoint of all system calls reports.
//   - mprotect without PROT_EXEC: not reported. The file there is still the same,
//     and no code runs there meanwhile.
//   - Names are paths from the root of the process that maps
//     (perf_event_mmap_event in kernel/events/core.c calls d_path as that
//     process). /proc/PID/maps shows them from the reader's root, if that leads
//     there: for a process in a chroot the two differ, /bin/x here and
//     /srv/jail/bin/x there; for one in a mount namespace with another root, a
//     container, they do not.
//   - A file that has a build ID comes with it, and then without device, inode
//     and generation, whose room it takes. A file that has none, whose note
//     was not in memory when it was mapped, or is in no segment of notes (the
//     Go linker's), comes with device and inode; its ID is then read from the
//     file, if it is proven to be the mapped one still.
//   - Between an exec and the first instruction of the program the process has
//     the registers of the program before. The tracepoint sched_process_exec
//     shows when that is over.
//   - Names of anonymous memory (PR_SET_VMA_ANON_NAME): a tracepoint reports the
//     call, and the process is asked for the name at once.
//   - [vsyscall], which is no mapping of a process: readings find it.
//   - A process that shares its memory with another one (CLONE_VM without
//     CLONE_THREAD; vfork until the exec): the tracepoint task_newtask reports it.
//     All of them have what one of them maps; one that ends leaves the others
//     theirs.
//   - A fork is reported after the memory was copied: it is unknown whether the
//     child has what another thread maps between the call (tracepoints of fork,
//     clone and clone3) and the record.
//   - PIDs are numbers in our own PID namespace. Processes outside of it are
//     left out.
package sideband
