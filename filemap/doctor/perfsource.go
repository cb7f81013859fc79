//go:build !device

package doctor

import (
	"errors"

	"ustack/filemap/sideband"
	"ustack/tracefs/instance"
	"ustack/tracefs/perf"
	"ustack/tracefs/privilege"
)

// perfSource checks whether live --source=perf works.
func (f rightChecks) perfSource() []Check {
	c := Check{Name: "perf source", Found: "live, futex --live and record can trace with perf alone (--source=perf)"}
	limited := func(found, fix string) []Check {
		c.State, c.Found, c.Fix = Limited, found, fix
		c.Without = "no --source=perf; the other sources do without"
		return []Check{c}
	}
	err := f.Facts.Band.Err
	denied := errors.Is(err, perf.ErrDenied)
	switch {
	case denied && !f.Facts.Band.Own:
		return limited("perf is denied: it needs CAP_PERFMON, and CAP_DAC_READ_SEARCH to read tracefs", mappingChecks(f).bandFix())
	case err != nil && !denied:
		return limited("there is no "+sideband.Name+" to follow mappings with", "")
	case errors.Is(f.TracingErr, instance.ErrNoTracefs):
		return limited("the numbers of events are in tracefs, which is not mounted", "")
	case f.Tracing == nil || !f.eventsReadable():
		return limited("tracefs has the numbers of events, and we may not read it", "mount -o remount,gid=GROUP,mode=750 "+privilege.Quote(f.tracefs()))
	case denied:
		c.State, c.Fix = Limited, mappingChecks(f).bandFix()
		c.Found = "--source=perf can trace system calls of processes of our own, with -p or as a command"
		c.Without = "no other events and no other processes with --source=perf, and files are late"
		return []Check{c}
	}
	return []Check{c}
}

// eventsReadable reports whether the files are readable that list the events.
func (f rightChecks) eventsReadable() bool {
	n := 0
	for i := range f.Tracing.Files {
		if file := &f.Tracing.Files[i]; file.Readable && (file.Name == "available_events" || file.Name == "events") {
			n++
		}
	}
	return n == 2
}

// tracefs is where tracefs is mounted.
func (f rightChecks) tracefs() string {
	if f.Tracing != nil {
		return f.Tracing.Path
	}
	return "/sys/kernel/tracing"
}
