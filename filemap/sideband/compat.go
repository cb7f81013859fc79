package sideband

import (
	"slices"

	"ustack/filemap/compat"
	"ustack/tracefs"
	"ustack/tracefs/perf"
)

// A 64-bit process of x86 can enter the kernel as a 32-bit one does (int 0x80). The
// tracepoints of system calls leave such calls out (arch_trace_is_compat_syscall in
// arch/x86/include/asm/ftrace.h), and the tracepoint of all calls does not say which
// kind they are, and slows each of them. But the kernel has separate functions for
// them, and a kprobe there costs nothing until one is called. Only a kernel without
// kprobes needs that tracepoint, see rawCalls.

// compatCalls are the functions of 32-bit system calls that move or remove code, say where the
// heap is, which brk unmaps, or what a child does not get (arch/x86/entry/syscalls/syscall_32.tbl).
// mmap is among them, as perf reports what was mapped, and not an mmap that fails when it has
// unmapped what was there. shmdt is not: it takes away memory that is no file. A call has one of
// several functions.
var compatCalls = [...][]string{
	{"__ia32_sys_mremap"}, {"__ia32_sys_munmap"}, {"__ia32_sys_brk"}, {"__ia32_sys_prctl"},
	{"__ia32_sys_mmap_pgoff"}, {"__ia32_compat_sys_ia32_mmap", "__ia32_compat_sys_x86_mmap"}, // Linux 5.8
	{"__ia32_sys_madvise"}, {"__ia32_sys_process_madvise", "__ia32_compat_sys_process_madvise"}, // 5.10 has a function of its own
	{"__ia32_compat_sys_io_setup"}, {"__ia32_sys_io_destroy"},
}

// findProbes looks for the probes that openCompat needs.
func (rs *rings) findProbes() {
	if len(rs.opt.Tracepoints) == 0 {
		return // no name is sure
	}
	if rs.x32 = compat.X32(); !compat.Int80() {
		return
	}
	var err error
	rs.probe, err = perf.ProbeType(rs.opt.Sys)
	rs.raw = err != nil
}

// openCompat opens kprobes at the functions, whose records go to the soft ring of a
// CPU, nil if it has none.
func (rs *rings) openCompat(soft *ring) {
	if rs.probe == 0 {
		return
	}
	for _, names := range compatCalls {
		opened := soft != nil && slices.ContainsFunc(names, func(name string) bool {
			return soft.add(rs.compatEvent(soft, name), perf.OnCPU(soft.CPU)) == nil
		})
		rs.compatUnseen = rs.compatUnseen || !opened
	}
}

// compatEvent returns a kprobe, not yet enabled.
func (rs *rings) compatEvent(r *ring, function string) *perf.Event {
	return &perf.Event{Probe: rs.probe, Function: function, Raw: true, Disabled: true, CountLost: r.features.lost,
		Clock: rs.clock, Wakeup: r.Size() / 4}
}

// isCompat reports whether a sample is of a kprobe: its number is of no tracepoint that
// is open.
func (rs *rings) isCompat(r *perf.Record, tp *Tracepoint) bool {
	const number = 2 // bytes
	return tp == nil && rs.probe != 0 && len(r.Raw) >= number
}

// CompatUnseen reports whether 32-bit system calls of 64-bit processes go unseen: the
// kernel takes them and has neither kprobes nor raw_syscalls:sys_enter for us.
func (b *Band) CompatUnseen() bool { return b.rings.compatUnseen }

// compat notes that a process changes its mappings by a 32-bit system call. Its
// arguments are unknown, so none of its mappings is sure from then on.
func (h *History) compat(pid int, t tracefs.Time) {
	if s := h.Spaces.Space(pid); s != nil {
		if v := s.At(t); v != nil && v.Unseen {
			return // a 32-bit process, say
		}
	}
	h.log.compat(pid, t)
	h.each(pid, func(pid int) { h.Spaces.Unseen(pid, t) })
}
