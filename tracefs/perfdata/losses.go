package perfdata

import (
	"maps"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"ustack/tracefs"
	"ustack/tracefs/perf"
)

// losses are the records that did not fit into rings, by CPU. The kernel writes how many (LOST) with
// the next record that fits, so none for those at the end. But it counts all of them, for each event,
// and perf writes the counters at its end (LOST_SAMPLES without a time, perf 6.1 on Linux 6.0): what
// the counters have and the records have not was lost after the last record of the CPU.
type losses struct {
	events *events
	byCPU  map[uint32]*ringLoss
}

type ringLoss struct{ recorded, counted uint64 }

// maxRings bounds the CPUs.
const maxRings = 1 << 13

// miscFiltered is PERF_RECORD_MISC_LOST_SAMPLES_BPF: these are samples that perf record --filter
// has left out.
const miscFiltered = 1 << 15

// atEnd reports whether a record has the counters of the end.
func atEnd(r *perf.Record) bool { return r.Type == unix.PERF_RECORD_LOST_SAMPLES && r.Time == 0 }

// note notes a record if it is one of a loss.
func (l *losses) note(r *perf.Record) {
	if r.Type != unix.PERF_RECORD_LOST && !atEnd(r) || r.Misc&miscFiltered != 0 {
		return
	}
	cpu := r.CPU
	if len(l.events.cpus) == 0 { // counters have no CPU then
		cpu = 0
	}
	of := l.byCPU[cpu]
	if of == nil {
		if len(l.byCPU) >= maxRings {
			return
		}
		if l.byCPU == nil {
			l.byCPU = make(map[uint32]*ringLoss)
		}
		of = new(ringLoss)
		l.byCPU[cpu] = of
	}
	if atEnd(r) {
		of.counted += r.Lost
	} else {
		of.recorded += r.Lost
	}
}

// last passes what was lost after the last records, by CPU.
func (l *losses) last(take func(cpu int32, n uint64)) {
	for _, cpu := range slices.Sorted(maps.Keys(l.byCPU)) {
		if of := l.byCPU[cpu]; of.counted > of.recorded {
			take(int32(cpu), of.counted-of.recorded)
		}
	}
}

// unrecorded returns the record of losses after the last records, and false if there are none.
func (l *losses) unrecorded(from tracefs.Time) (r perf.Record, ok bool) {
	r = perf.Record{Type: unix.PERF_RECORD_LOST, LostFrom: from, Time: latestTime}
	l.last(func(_ int32, n uint64) { r.Lost += n })
	return r, r.Lost > 0
}

// switched reports whether perf has written several files, one after the other: the counters in the
// last one have the losses of all.
func (f *File) switched() bool {
	return slices.ContainsFunc(f.args, func(arg string) bool { return strings.HasPrefix(arg, "--switch-o") })
}
