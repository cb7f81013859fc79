package perfdata

import (
	"fmt"
	"math/rand/v2"

	"golang.org/x/sys/unix"

	"ustack/tracefs/perfdata/perfdatatest"
)

// pokeFormat is that of a tracepoint, number 300.
const pokeFormat = `name: poke
ID: 300
format:
	field:unsigned short common_type;	offset:0;	size:2;	signed:0;
	field:unsigned char common_flags;	offset:2;	size:1;	signed:0;
	field:unsigned char common_preempt_count;	offset:3;	size:1;	signed:0;
	field:int common_pid;	offset:4;	size:4;	signed:1;

	field:u64 number;	offset:8;	size:8;	signed:0;

print fmt: "number=%llu", REC->number
`

// sampleParts are parts of samples that tests have, in any mixture, beside those that are
// always there.
var sampleParts = []uint64{unix.PERF_SAMPLE_ADDR, unix.PERF_SAMPLE_ID, unix.PERF_SAMPLE_STREAM_ID, unix.PERF_SAMPLE_PERIOD,
	unix.PERF_SAMPLE_READ, unix.PERF_SAMPLE_BRANCH_STACK, unix.PERF_SAMPLE_REGS_USER, unix.PERF_SAMPLE_STACK_USER}

// modelEvent is an event of a model: a tracepoint, or cycles.
type modelEvent struct {
	perfdatatest.Attr
	raw bool
}

// model makes files whose records are known.
type model struct {
	perfdatatest.File
	rng    *rand.Rand
	events []modelEvent
	number uint64
	lines  []string // expected, in order of time
}

// newModel makes two events whose samples have parts that seed decides about.
func newModel(seed uint64, big bool) *model {
	m := &model{rng: rand.New(rand.NewPCG(seed, 1))}
	m.Big = big
	for i := range uint64(2) {
		e := modelEvent{raw: i == 0}
		e.IDs = []uint64{100 + 10*i, 101 + 10*i}
		e.SampleType = unix.PERF_SAMPLE_IDENTIFIER | unix.PERF_SAMPLE_IP | unix.PERF_SAMPLE_TID | unix.PERF_SAMPLE_TIME |
			unix.PERF_SAMPLE_CPU | unix.PERF_SAMPLE_CALLCHAIN
		for _, p := range sampleParts {
			if m.rng.IntN(2) == 0 {
				e.SampleType |= p
			}
		}
		e.Flags = flagSampleIDAll
		e.ReadFormat = uint64(m.rng.IntN(32))
		e.Regs, e.StackBytes = 0xff0fff, 64
		e.BranchType = uint64(m.rng.IntN(2)) * branchHWIndex
		if e.raw {
			e.Type, e.Config = unix.PERF_TYPE_TRACEPOINT, 300
			e.SampleType |= unix.PERF_SAMPLE_RAW
		}
		m.events = append(m.events, e)
		m.Attrs = append(m.Attrs, e.Attr)
	}
	m.Features = map[int][]byte{perfdatatest.FeatureTracingData: m.Formats(map[string][]string{"test": {pokeFormat}})}
	return m
}

// sample adds a sample with a chain.
func (m *model) sample(e *modelEvent, tid int32, cpu uint32, t uint64, chain []uint64) {
	has := func(p uint64) bool { return e.SampleType&p != 0 }
	id := e.IDs[m.rng.IntN(len(e.IDs))]
	b := m.Bytes(id, uint64(0x1000), tid, tid, t)
	if has(unix.PERF_SAMPLE_ADDR) {
		b = append(b, m.Bytes(uint64(7))...)
	}
	if has(unix.PERF_SAMPLE_ID) {
		b = append(b, m.Bytes(id)...)
	}
	if has(unix.PERF_SAMPLE_STREAM_ID) {
		b = append(b, m.Bytes(uint64(9))...)
	}
	b = append(b, m.Bytes(cpu, uint32(0))...)
	period := uint64(0)
	if has(unix.PERF_SAMPLE_PERIOD) {
		period = 1 + m.number
		b = append(b, m.Bytes(period)...)
	}
	if has(unix.PERF_SAMPLE_READ) {
		b = append(b, m.read(e)...)
	}
	const user = ^uint64(511)
	b = append(b, m.Bytes(uint64(len(chain)+1), user, chain)...)
	m.number++
	if e.raw {
		b = append(b, m.Bytes(uint32(20), uint16(300), "\x00\x00", tid, m.number, uint32(0))...)
	}
	if has(unix.PERF_SAMPLE_BRANCH_STACK) {
		b = append(b, m.Bytes(uint64(1))...)
		if e.BranchType&branchHWIndex != 0 {
			b = append(b, m.Bytes(uint64(5))...)
		}
		b = append(b, m.Bytes(uint64(1), uint64(2), uint64(3))...)
	}
	if has(unix.PERF_SAMPLE_REGS_USER) {
		b = append(b, m.Bytes(uint64(2), make([]byte, 8*20))...)
	}
	if has(unix.PERF_SAMPLE_STACK_USER) {
		b = append(b, m.Bytes(uint64(16), make([]byte, 16), uint64(8))...)
	}
	m.Add(unix.PERF_RECORD_SAMPLE, unix.PERF_RECORD_MISC_USER, b)
	what := fmt.Sprintf("poke: number=%d", m.number)
	if !e.raw {
		what = fmt.Sprintf("cycles: ip=0x1000 period=%d", period)
	}
	m.lines = append(m.lines, m.head(tid, cpu, t)+what, m.head(tid, cpu, t)+"<user stack trace>")
	for _, a := range chain {
		m.lines = append(m.lines, fmt.Sprintf(" =>  <%016x>", a))
	}
}

// head is what stands before the body of a record.
func (m *model) head(tid int32, cpu uint32, t uint64) string {
	us := (t + 500) / 1000
	return fmt.Sprintf("%16s-%-7d [%03d] .....%6d.%06d: ", fmt.Sprintf("task%d", tid), tid, cpu, us/1e6, us%1e6)
}

// read returns PERF_SAMPLE_READ.
func (m *model) read(e *modelEvent) []byte {
	each, times := 1, 0
	for _, p := range []uint64{unix.PERF_FORMAT_ID, unix.PERF_FORMAT_LOST} {
		if e.ReadFormat&p != 0 {
			each++
		}
	}
	for _, p := range []uint64{unix.PERF_FORMAT_TOTAL_TIME_ENABLED, unix.PERF_FORMAT_TOTAL_TIME_RUNNING} {
		if e.ReadFormat&p != 0 {
			times++
		}
	}
	if e.ReadFormat&unix.PERF_FORMAT_GROUP == 0 {
		return make([]byte, 8*(each+times))
	}
	return append(m.Bytes(uint64(2)), make([]byte, 8*(2*each+times))...)
}

// trailer is the end of records that are no samples, of the first event.
func (m *model) trailer(tid int32, cpu uint32, t uint64) []byte {
	return m.trailerOf(&m.events[0], m.events[0].IDs[0], tid, cpu, t)
}

// trailerOf is the end of records of an event with a number.
func (m *model) trailerOf(e *modelEvent, id uint64, tid int32, cpu uint32, t uint64) []byte {
	b := m.Bytes(tid, tid, t)
	if e.SampleType&unix.PERF_SAMPLE_ID != 0 {
		b = append(b, m.Bytes(id)...)
	}
	if e.SampleType&unix.PERF_SAMPLE_STREAM_ID != 0 {
		b = append(b, m.Bytes(uint64(9))...)
	}
	if e.SampleType&unix.PERF_SAMPLE_CPU != 0 {
		b = append(b, m.Bytes(cpu, uint32(0))...)
	}
	return append(b, m.Bytes(id)...)
}

// comm adds the name of a thread, as perf makes it of /proc.
func (m *model) comm(tid int32) {
	m.Add(unix.PERF_RECORD_COMM, 0, tid, tid, perfdatatest.Name(fmt.Sprintf("task%d", tid)), m.trailer(0, 0, 0))
}

// fill adds records of some rounds, in which each CPU's records come one after the other.
// Samples of one round overlap those of the next one in time, and no more.
func (m *model) fill(rounds int) {
	const cpus, threads, length = 3, 5, 1000000
	for tid := range int32(threads) {
		m.comm(tid + 1)
	}
	type made struct {
		lines []string
		time  uint64
	}
	var all []made
	last := make([]uint64, cpus)
	for round := range uint64(rounds) {
		for cpu := range uint32(cpus) {
			end := (round + 1) * length
			last[cpu] = max(last[cpu], end-length)
			for range m.rng.IntN(4) {
				last[cpu] += 1 + m.rng.Uint64N(length/4)
				chain := make([]uint64, 1+m.rng.IntN(4))
				for i := range chain {
					chain[i] = 0x400000 + m.rng.Uint64N(8)
				}
				n := len(m.lines)
				m.sample(&m.events[m.rng.IntN(2)], 1+m.rng.Int32N(threads), cpu, last[cpu], chain)
				all = append(all, made{time: last[cpu], lines: m.lines[n:len(m.lines):len(m.lines)]})
			}
		}
		m.Add(perfdatatest.Round, 0)
	}
	m.lines = nil
	for len(all) > 0 { // the earliest one first; of the same time the one that came first
		first := 0
		for i := range all {
			if all[i].time < all[first].time {
				first = i
			}
		}
		m.lines = append(m.lines, all[first].lines...)
		all = append(all[:first:first], all[first+1:]...)
	}
}
