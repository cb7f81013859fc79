package doctor

import (
	"errors"
	"fmt"
	"strings"

	"ustack/filemap/facts"
	"ustack/filemap/procmap"
	"ustack/filemap/sideband"
	"ustack/filemap/tasks"
	"ustack/tracefs/perf"
)

// mappingChecks make the checks of the group Mappings.
type mappingChecks struct{ *Findings }

// all checks how it becomes known what processes have mapped.
func (f mappingChecks) all() []Check {
	list := []Check{f.band()}
	if f.Tracing != nil {
		list = append(list, f.scheduler())
	}
	list = append(list, f.processes(), f.source(), buildIDs(), f.anonymous())
	return inGroup(Mappings, list)
}

// band checks the side band of perf.
func (f mappingChecks) band() Check {
	b := &f.Facts.Band
	c := Check{Name: sideband.Name}
	switch {
	case b.Err != nil:
		c.State, c.Found, c.Fix = Missing, oneLine(b.Err), f.bandFix()
		// live takes the same decision.
		c.Required = !sideband.Unavailable(b.Err)
		c.Without = tasks.Name + ": files are late, and " + tasks.Limit
		if c.Required {
			c.Without = "live works with --mappings=query"
		}
		return c
	case b.RingSize < sideband.DefaultRing:
		c.State, c.Fix = Limited, f.moreMemory()
		c.Without = "records are lost sooner when many processes map code at once; files are late then"
	case len(b.Unseen) > 0 && f.Tracing != nil:
		c.State = Limited
		c.Without = "all files are late: the tracepoints of these cannot be used: " + strings.Join(b.Unseen, ", ")
	case !b.BuildIDs:
		c.State = Limited
		c.Without = "build IDs are read from the files, where these are provably the ones that were mapped"
	case b.CompatUnseen:
		c.State = Limited
		c.Without = "a 64-bit program that calls mremap, munmap or brk as a 32-bit one (int 0x80), or by the x32 ABI, may show an old file: " +
			"kprobes (CONFIG_KPROBE_EVENTS) or raw_syscalls:sys_enter are missing, or cannot be used"
	}
	ids := "with build IDs"
	if !b.BuildIDs {
		ids = "without build IDs (they need Linux 5.12, and before 6.12 no memfd_secret(2): the two crash it)"
	}
	c.Found = fmt.Sprintf("%d CPUs, %d KiB each, %s", b.CPUs, b.RingSize>>10, ids)
	return c
}

// bandFix returns what would give us a side band.
func (f mappingChecks) bandFix() string {
	switch err := f.Facts.Band.Err; {
	case errors.Is(err, perf.ErrMemory):
		return f.moreMemory()
	case !errors.Is(err, perf.ErrDenied):
		return ""
	}
	if fix := f.install(); fix != "" {
		return fix
	}
	return f.lessParanoid()
}

// moreMemory lets perf lend each user as much for each CPU as is wanted, or
// twice as much if others have taken that.
func (f *Findings) moreMemory() string {
	const enough = sideband.DefaultRing>>10 + 4
	return fmt.Sprintf("sysctl -w %s=%d", facts.PerfMlock, max(enough, 2*f.Facts.Sysctls[facts.PerfMlock]))
}

// lessParanoid lets all users watch CPUs, if that is not so and is all that is
// in the way: seccomp filters of containers forbid perf_event_open altogether.
func (f *Findings) lessParanoid() string {
	if f.Facts.Sysctls[facts.PerfParanoid] <= 0 || f.Facts.Rights.Filtered {
		return ""
	}
	return "sysctl -w " + facts.PerfParanoid + "=0"
}

// scheduler checks the events that are used in place of the side band.
func (f mappingChecks) scheduler() Check {
	c := Check{Name: "scheduler events", Found: "in place of the side band, if need be"}
	if f.Scheduler != nil {
		c.State, c.Found = Missing, oneLine(f.Scheduler)
		c.Without = "live uses the side band, and has no fallback"
		c.Required = sideband.Unavailable(f.Facts.Band.Err)
	}
	return c
}

// processes checks whether all can be read.
func (f mappingChecks) processes() Check {
	n := &f.Facts.Counts
	c := Check{Name: "processes", Required: true}
	if err := errors.Join(f.Facts.SourceErr, f.Facts.WalkErr); err != nil {
		c.State, c.Found = Missing, oneLine(err)
		return c
	}
	c.Found = fmt.Sprintf("%d could be read, %d have no memory to read", n.Processes, n.NoMemory)
	if n.Denied > 0 {
		c.State, c.Fix = Limited, f.install()
		c.Found = fmt.Sprintf("%d could be read, %d may not be read by us", n.Processes, n.Denied)
		c.Without = "of the others, only mappings made during the trace are known"
	}
	return c
}

// source checks how mappings are read.
func (f mappingChecks) source() Check {
	c := Check{Name: "PROCMAP_QUERY", Found: "the kernel answers single questions"}
	if f.Facts.Source != procmap.Ioctl {
		c.State, c.Found = Missing, "the kernel has none (Linux 6.11), or a filter forbids it"
		c.Without = "the text of /proc/PID/maps is read, which is slower"
	}
	return c
}

// buildIDs says where build IDs come from: see procmap's identify.go. It is the
// same on all kernels, and worth a line where others ask theirs.
func buildIDs() Check {
	return Check{Name: "build IDs", Found: "read from the files; PROCMAP_QUERY is never asked for them: " +
		"programs can map files that crash Linux 6.12 to 6.18, or hang their readers"}
}

// anonymous checks names of memory without a file.
func (f mappingChecks) anonymous() Check {
	c := Check{Name: "names of anonymous memory", Found: "the kernel keeps them"}
	if !f.Facts.AnonNames {
		c.State, c.Found = Missing, "the kernel keeps none (CONFIG_ANON_VMA_NAME)"
		c.Without = "frames in such memory are [anon], not [anon:NAME]"
	}
	return c
}

// oneLine returns an error, with what was joined in one line.
func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }
