package perfdata

import (
	"math/bits"

	"golang.org/x/sys/unix"
)

// attr is an event of the file (struct perf_event_attr).
type attr struct {
	typ                  uint32
	config               uint64
	sampleType           uint64
	readFormat           uint64
	flags                uint64 // the bit fields, the first one is bit 0
	branchType           uint64
	regsUser             uint64
	stackUser            uint32
	clockID              int32
	name                 string
	sample               layout
	id, idFromEnd, timed int // see place
}

// Bits of attr.flags.
const (
	flagSampleIDAll = 1 << 18
	flagClockID     = 1 << 25
	flagBuildID     = 1 << 34
)

// Sizes of struct perf_event_attr: the first one that was published, and a bound.
const (
	minAttr = 64
	maxAttr = 4096
)

// parseAttr reads an attribute. Older kernels have shorter ones: what they lack is zero.
func parseAttr(o order, b []byte) (a attr, ok bool) {
	if len(b) < minAttr {
		return a, false
	}
	if size := int(o.u32(b[4:])); size >= minAttr && size < len(b) {
		b = b[:size]
	}
	var whole [112]byte
	copy(whole[:], b)
	b = whole[:]
	a = attr{
		typ: o.u32(b), config: o.u64(b[8:]), sampleType: o.u64(b[24:]), readFormat: o.u64(b[32:]), flags: o.u64(b[40:]),
		branchType: o.u64(b[72:]), regsUser: o.u64(b[80:]), stackUser: o.u32(b[88:]), clockID: int32(o.u32(b[92:])),
	}
	if o.big { // bit fields begin at the other end
		a.flags = bits.Reverse64(a.flags)
	}
	a.place()
	return a, true
}

func (a *attr) has(what uint64) bool { return a.sampleType&what != 0 }

// place finds where the number of the event stands: in a sample from its beginning on, in
// other records from their end on, in bytes; -1 if it is not there
// (__evsel__calc_id_pos in tools/perf/util/evsel.c). timed is where the time is, from
// the end on, 0 for nowhere.
func (a *attr) place() {
	a.sample = newLayout(a.sampleType)
	a.id, a.idFromEnd, a.timed = a.sample.id, -1, 0
	end := 0
	for _, part := range [...]uint64{unix.PERF_SAMPLE_IDENTIFIER, unix.PERF_SAMPLE_CPU, unix.PERF_SAMPLE_STREAM_ID,
		unix.PERF_SAMPLE_ID, unix.PERF_SAMPLE_TIME} {
		if !a.has(part) {
			continue
		}
		end += 8
		switch {
		case part == unix.PERF_SAMPLE_IDENTIFIER, part == unix.PERF_SAMPLE_ID && a.idFromEnd < 0:
			a.idFromEnd = end
		case part == unix.PERF_SAMPLE_TIME:
			a.timed = end
		}
	}
	if a.flags&flagSampleIDAll == 0 {
		a.idFromEnd, a.timed = -1, 0
	}
}

// trailer is the common end of records that are no samples (sample_id_all).
func (a *attr) trailer() int {
	if a.flags&flagSampleIDAll == 0 {
		return 0
	}
	const parts = unix.PERF_SAMPLE_TID | unix.PERF_SAMPLE_TIME | unix.PERF_SAMPLE_ID | unix.PERF_SAMPLE_STREAM_ID |
		unix.PERF_SAMPLE_CPU | unix.PERF_SAMPLE_IDENTIFIER
	return 8 * bits.OnesCount64(a.sampleType&parts)
}

// layout is where the parts of a sample are that have a fixed place, in bytes from its
// beginning on; -1 for none. The others begin at variable.
type layout struct {
	ip, tid, time, id, cpu, period int
	variable                       int
}

// newLayout lays out samples (perf_output_sample in kernel/events/core.c).
func newLayout(sampleType uint64) layout {
	l := layout{ip: -1, tid: -1, time: -1, id: -1, cpu: -1, period: -1, variable: headerSize}
	skipped := -1
	for _, part := range [...]struct {
		is uint64
		at *int
	}{
		{unix.PERF_SAMPLE_IDENTIFIER, &l.id}, {unix.PERF_SAMPLE_IP, &l.ip}, {unix.PERF_SAMPLE_TID, &l.tid},
		{unix.PERF_SAMPLE_TIME, &l.time}, {unix.PERF_SAMPLE_ADDR, &skipped}, {unix.PERF_SAMPLE_ID, &l.id},
		{unix.PERF_SAMPLE_STREAM_ID, &skipped}, {unix.PERF_SAMPLE_CPU, &l.cpu}, {unix.PERF_SAMPLE_PERIOD, &l.period},
	} {
		if sampleType&part.is == 0 {
			continue
		}
		if part.at != &l.id || l.id < 0 {
			*part.at = l.variable
		}
		l.variable += 8
	}
	return l
}

// clocks are the trace clocks of the clocks that perf can be told to use
// (perf_event_set_clock in kernel/events/core.c).
var clocks = map[int32]string{
	unix.CLOCK_MONOTONIC: "mono", unix.CLOCK_MONOTONIC_RAW: "mono_raw", unix.CLOCK_BOOTTIME: "boot", unix.CLOCK_TAI: "tai",
	unix.CLOCK_REALTIME: "realtime",
}

// clockPerf is ftrace's name of the clock that perf has without -k.
const clockPerf = "perf"

// clock returns the name of the clock of an event's times: without another one it is the
// trace clock perf.
func (a *attr) clock() string {
	if a.flags&flagClockID == 0 {
		return clockPerf
	}
	return clocks[a.clockID]
}
