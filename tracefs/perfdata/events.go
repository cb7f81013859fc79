package perfdata

import (
	"fmt"
	"math"
	"strconv"

	"golang.org/x/sys/unix"
)

// events are the events of a file.
type events struct {
	order
	list []*attr
	byID map[uint64]*attr
	// cpus are the CPUs of events by their numbers: without those that follow threads to any CPU.
	cpus map[uint64]int32
	// recent has the events of the numbers that were looked up last: a map is slower.
	recent [64]known
}

type known struct {
	id   uint64
	attr *attr
}

// Bounds: perf opens each event on each CPU.
const (
	maxEvents = 1 << 14
	maxIDs    = 1 << 22
)

var errTooMany = fmt.Errorf("%w: more than %d events, or %d numbers of events", ErrFormat, maxEvents, maxIDs)

// add adds an event with its numbers.
func (e *events) add(a attr, ids []byte) error {
	if len(e.list) >= maxEvents || len(e.byID)+len(ids)/8 > maxIDs {
		return errTooMany
	}
	p := &a
	e.list = append(e.list, p)
	if e.byID == nil {
		e.byID = make(map[uint64]*attr)
	}
	for ; len(ids) >= 8; ids = ids[8:] {
		e.byID[e.u64(ids)] = p
	}
	clear(e.recent[:])
	return nil
}

// of returns the event of a record, nil if it has none. Events without a number are all
// like the first one (evlist__event2evsel in tools/perf/util/evlist.c).
func (e *events) of(h header, b []byte) *attr {
	if len(e.list) == 0 {
		return nil
	}
	first := e.list[0]
	if len(e.list) == 1 && h.typ == unix.PERF_RECORD_SAMPLE {
		return first
	}
	at := first.id
	if h.typ != unix.PERF_RECORD_SAMPLE {
		if at = -1; first.idFromEnd > 0 {
			at = len(b) - first.idFromEnd
		}
	}
	if at < headerSize || at+8 > len(b) {
		return first
	}
	id := e.u64(b[at:])
	if id == 0 {
		return first // what perf has made itself
	}
	slot := &e.recent[id%uint64(len(e.recent))]
	if slot.attr == nil || slot.id != id {
		a := e.byID[id]
		if a == nil {
			return nil
		}
		*slot = known{id, a}
	}
	return slot.attr
}

// place reads PERF_RECORD_ID_INDEX: entries of a number, an index, a CPU and a thread.
func (e *events) place(rec []byte) {
	const entry = 32
	v := fields{order: e.order, rest: rec[headerSize:]}
	for n := v.word64(); n > 0 && len(v.rest) >= entry && len(e.cpus) < maxIDs; n-- {
		id, _, cpu, _ := v.word64(), v.word64(), v.word64(), v.word64()
		if cpu > math.MaxInt32 { // -1 for any
			continue
		}
		if e.cpus == nil {
			e.cpus = make(map[uint64]int32)
		}
		e.cpus[id] = int32(cpu)
	}
}

// cpuOf returns the CPU of the event whose number stands in b at a place, -1 if it is not known.
func (e *events) cpuOf(b []byte, at int) int32 {
	if at < 0 || at+8 > len(b) {
		return -1
	}
	if cpu, ok := e.cpus[e.u64(b[at:])]; ok {
		return cpu
	}
	return -1
}

// when returns the time of a record, 0 if it has none.
func (e *events) when(h header, b []byte) uint64 {
	a := e.of(h, b)
	if a == nil {
		return 0
	}
	at := a.sample.time
	if h.typ != unix.PERF_RECORD_SAMPLE {
		if at = -1; a.timed > 0 {
			at = len(b) - a.timed
		}
	}
	if at < headerSize || at+8 > len(b) {
		return 0
	}
	return e.u64(b[at:])
}

// clock returns the clock of all events, "" if they have several, or one of no trace.
func (e *events) clock() string {
	clock := ""
	for i, a := range e.list {
		if i > 0 && a.clock() != clock {
			return ""
		}
		clock = a.clock()
	}
	return clock
}

// hardware and software are the names of generic events (enum perf_hw_id and
// perf_sw_ids), as perf list has them.
var (
	hardware = [...]string{"cycles", "instructions", "cache-references", "cache-misses", "branches", "branch-misses",
		"bus-cycles", "stalled-cycles-frontend", "stalled-cycles-backend", "ref-cycles"}
	software = [...]string{"cpu-clock", "task-clock", "page-faults", "context-switches", "cpu-migrations", "minor-faults",
		"major-faults", "alignment-faults", "emulation-faults", "dummy", "bpf-output", "cgroup-switches"}
)

// text returns the name of an event that is no tracepoint.
func (a *attr) text() string {
	switch {
	case a.name != "":
		return a.name
	case a.typ == unix.PERF_TYPE_HARDWARE && a.config < uint64(len(hardware)):
		return hardware[a.config]
	case a.typ == unix.PERF_TYPE_SOFTWARE && a.config < uint64(len(software)):
		return software[a.config]
	}
	return "event-" + strconv.FormatUint(uint64(a.typ), 10) + "-" + strconv.FormatUint(a.config, 16)
}
