package doctor

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"ustack/filemap/facts"
	"ustack/filemap/sideband"
	"ustack/tracefs/perf"
)

// limitChecks make the checks of the group Limits.
type limitChecks struct{ *Findings }

// all checks settings, and resources that are needed.
func (f limitChecks) all() []Check {
	var list []Check
	if value, known := f.Facts.Sysctls[facts.PerfParanoid]; known {
		list = append(list, f.paranoid(value))
	}
	if value, known := f.Facts.Sysctls[facts.PerfMlock]; known {
		list = append(list, f.mlock(value))
	}
	if value, known := f.Facts.Sysctls[facts.PtraceScope]; known {
		list = append(list, f.ptraceScope(value))
	}
	list = append(list, f.lockedMemory(), f.openFiles(), f.memory())
	return inGroup(Limits, list)
}

// mainlineParanoid is the highest level that is the kernel's own (Documentation/admin-guide/
// sysctl/kernel.rst). At 3 the kernels of Debian and Ubuntu refuse perf to CAP_PERFMON, too.
const mainlineParanoid = 2

func (f limitChecks) paranoid(value int) Check {
	c := Check{Name: facts.PerfParanoid, Found: fmt.Sprint(value)}
	switch {
	case value <= 0:
		c.Found += ": all users may watch CPUs"
	case f.Facts.Band.Err == nil:
		c.Found += ", of no concern: we have the capability"
	case errors.Is(f.Facts.Band.Err, perf.ErrDenied):
		c.State, c.Found = Limited, c.Found+": not every user may watch CPUs"
		c.Without = "the perf side band needs CAP_PERFMON"
		if value > mainlineParanoid {
			c.Without = "the perf side band needs CAP_SYS_ADMIN, or CAP_PERFMON at 2 or less"
		}
		c.Fix = f.lessParanoid()
	}
	return c
}

// mlock checks what perf lends each user for each CPU, perf_mmap in
// kernel/events/core.c.
func (f limitChecks) mlock(value int) Check {
	c := Check{Name: facts.PerfMlock, Found: fmt.Sprintf("%d KiB for each CPU", value)}
	if f.lacksMemory() {
		c.State, c.Without, c.Fix = Limited, "the rings of the side band are smaller than they should be", f.moreMemory()
	}
	return c
}

// lacksMemory reports whether perf had not as much memory for us as we want.
func (f *Findings) lacksMemory() bool {
	b := &f.Facts.Band
	return b.Err == nil && b.RingSize < sideband.DefaultRing || errors.Is(b.Err, perf.ErrMemory)
}

// ptraceScope: a command is held at its first instruction by PTRACE_TRACEME.
// Reading mappings is of no concern to Yama (yama_ptrace_access_check).
func (f limitChecks) ptraceScope(value int) Check {
	const admin, none = 2, 3
	c := Check{Name: facts.PtraceScope, Found: fmt.Sprint(value)}
	switch {
	case value >= none:
		c.State, c.Found = Limited, c.Found+": no process may be traced until the kernel is booted again"
		c.Without = "live takes no command, but -p"
	case value == admin && !f.Facts.Rights.Has(unix.CAP_SYS_PTRACE):
		c.State, c.Found = Limited, c.Found+": a command can be started for tracing with CAP_SYS_PTRACE only"
		c.Without, c.Fix = "live takes no command, but -p", "sysctl -w "+facts.PtraceScope+"=1"
	}
	return c
}

func (f limitChecks) lockedMemory() Check {
	return Check{Name: "locked memory", Found: amount(f.Facts.Limits.LockedMemory, 1<<10, " KiB") + ", beside perf's own allowance"}
}

// spareFiles is more than live has open, beside the side band.
const spareFiles = 64

func (f limitChecks) openFiles() Check {
	have := f.Facts.Limits.OpenFiles
	c := Check{Name: "open files", Found: amount(have, 1, "")}
	if need := uint64(f.Facts.Band.CPUs*sideband.FilesPerCPU + spareFiles); have > 0 && have < need {
		c.State, c.Found = Limited, c.Found+fmt.Sprintf("; %d would do", need)
		c.Without = "live may run out of them, and ends then"
		c.Fix = fmt.Sprintf("ulimit -n %d", need)
	}
	return c
}

func amount(n, unit uint64, name string) string {
	switch n {
	case 0:
		return "unknown"
	case facts.NoLimit:
		return "no limit"
	}
	return fmt.Sprintf("%d%s", n/unit, name)
}

// memory checks free memory. The ring buffer of the trace is what the kernel
// chooses, some 1.4 MB for each CPU.
func (f limitChecks) memory() Check {
	const own, buffer = 52 << 10, 1408 // KiB
	have := f.Facts.MemAvailable
	c := Check{Name: "memory", Found: amount(have, 1<<10, " MiB") + " available"}
	if need := uint64(own + f.Facts.Band.CPUs*(buffer+2*sideband.DefaultRing>>10)); have > 0 && have < need {
		c.State = Limited
		c.Found += fmt.Sprintf("; live may need %d MiB", need>>10)
		c.Without = "live may be killed when memory runs out; its instance goes with the next run"
	}
	return c
}
