package perfdata

import (
	"math/bits"

	"golang.org/x/sys/unix"
)

// sample is a decoded sample. Its slices lie in the record.
type sample struct {
	ip, period uint64
	time       uint64 // as it is in the file
	pid, tid   int32
	cpu        int32 // -1 if the sample does not have it
	user       bool  // the thread was in user space
	chained    bool  // there is a call chain
	// kernel and chain are the parts of the call chain, words in the order of the file.
	kernel, chain []byte
	// cookie is of the request for a deferred stack, if deferred.
	cookie   uint64
	deferred bool
	// raw is the record of a tracepoint.
	raw []byte
	// abi and regs are the registers of user space, in the order of their bits, stack is
	// the copy of the stack, as far as it was filled.
	abi         uint64
	regs, stack []byte
}

// Marks in a call chain (enum perf_callchain_context): what addresses follow.
const (
	contextMax          = ^uint64(4094) // this and above are marks
	contextUser         = ^uint64(511)
	contextUserDeferred = ^uint64(639)
	contextKernel       = ^uint64(127)
)

// decode decodes a sample of an event. It reports false if the sample is malformed.
func (s *sample) decode(o order, a *attr, h header, b []byte) bool {
	l := &a.sample
	if len(b) < l.variable {
		return false
	}
	s.reset(h)
	if l.ip >= 0 {
		s.ip = o.u64(b[l.ip:])
	}
	if l.tid >= 0 {
		s.pid, s.tid = int32(o.u32(b[l.tid:])), int32(o.u32(b[l.tid+4:]))
	}
	if l.time >= 0 {
		s.time = o.u64(b[l.time:])
	}
	if l.cpu >= 0 {
		s.cpu = int32(o.u32(b[l.cpu:]) & (1<<31 - 1))
	}
	if l.period >= 0 {
		s.period = o.u64(b[l.period:])
	}
	if a.usual() {
		return s.decodeUsual(o, a, b[l.variable:])
	}
	f := fields{order: o, rest: b[l.variable:]}
	if a.has(unix.PERF_SAMPLE_READ) {
		f.skipRead(a.readFormat)
	}
	if a.has(unix.PERF_SAMPLE_CALLCHAIN) {
		s.chained = true
		s.callChain(o, f.words(f.word64()))
	}
	if a.has(unix.PERF_SAMPLE_RAW) {
		s.raw = f.take(uint64(f.word32()))
	}
	if a.has(unix.PERF_SAMPLE_BRANCH_STACK) {
		f.skipBranches(a.branchType)
	}
	if a.has(unix.PERF_SAMPLE_REGS_USER) {
		if s.abi = f.word64(); s.abi != 0 {
			s.regs = f.words(uint64(bits.OnesCount64(a.regsUser)))
		}
	}
	if a.has(unix.PERF_SAMPLE_STACK_USER) {
		s.takeCopy(&f)
	}
	return !f.bad
}

// reset prepares for the next sample. It does not clear all at once, which takes longer.
func (s *sample) reset(h header) {
	s.ip, s.period, s.time, s.pid, s.tid, s.cpu = 0, 0, 0, 0, 0, -1
	s.user = h.misc&unix.PERF_RECORD_MISC_CPUMODE_MASK == unix.PERF_RECORD_MISC_USER
	s.chained, s.deferred, s.cookie, s.abi = false, false, 0, 0
	s.kernel, s.chain, s.raw, s.regs, s.stack = nil, nil, nil, nil, nil
}

// usual reports whether samples have nothing of variable size but a call chain and the record
// of a tracepoint, as most have.
func (a *attr) usual() bool {
	return a.sampleType&(unix.PERF_SAMPLE_READ|unix.PERF_SAMPLE_BRANCH_STACK|unix.PERF_SAMPLE_REGS_USER|unix.PERF_SAMPLE_STACK_USER) == 0
}

// decodeUsual decodes what a usual sample has after the fixed part.
func (s *sample) decodeUsual(o order, a *attr, b []byte) bool {
	if a.has(unix.PERF_SAMPLE_CALLCHAIN) {
		if len(b) < 8 {
			return false
		}
		n := o.u64(b)
		if b = b[8:]; n > uint64(len(b))/8 {
			return false
		}
		s.chained = true
		s.callChain(o, b[:8*n])
		b = b[8*n:]
	}
	if a.has(unix.PERF_SAMPLE_RAW) {
		if len(b) < 4 {
			return false
		}
		n := uint64(o.u32(b))
		if b = b[4:]; n > uint64(len(b)) {
			return false
		}
		s.raw = b[:n:n]
	}
	return true
}

// skipRead passes over PERF_SAMPLE_READ (perf_output_read in kernel/events/core.c).
func (f *fields) skipRead(format uint64) {
	times := uint64(bits.OnesCount64(format & (unix.PERF_FORMAT_TOTAL_TIME_ENABLED | unix.PERF_FORMAT_TOTAL_TIME_RUNNING)))
	each := 1 + uint64(bits.OnesCount64(format&(unix.PERF_FORMAT_ID|unix.PERF_FORMAT_LOST)))
	if format&unix.PERF_FORMAT_GROUP == 0 {
		f.words(times + each)
		return
	}
	n := f.word64()
	f.words(times)
	if n > uint64(len(f.rest)) {
		f.bad = true
		return
	}
	f.words(n * each)
}

// Bits of branch_sample_type that add to the branches of a sample.
const (
	branchHWIndex  = 1 << 17
	branchCounters = 1 << 19
)

// skipBranches passes over PERF_SAMPLE_BRANCH_STACK.
func (f *fields) skipBranches(branchType uint64) {
	n, each := f.word64(), uint64(3)
	if branchType&branchHWIndex != 0 {
		f.word64()
	}
	if branchType&branchCounters != 0 {
		each++
	}
	if n > uint64(len(f.rest)) {
		f.bad = true
		return
	}
	f.words(n * each)
}

// takeCopy takes PERF_SAMPLE_STACK_USER: the size of the room, the room, and how much of it
// is filled.
func (s *sample) takeCopy(f *fields) {
	room := f.word64()
	if room == 0 {
		return
	}
	b := f.take(room)
	filled := f.word64()
	if f.bad || filled > room {
		f.bad = true
		return
	}
	s.stack = b[:filled]
}

// callChain finds the parts of a call chain. Addresses of guests and hypervisors belong to
// none.
func (s *sample) callChain(o order, b []byte) {
	context := contextKernel
	if s.user {
		context = contextUser
	}
	for len(b) >= 8 {
		if v := o.u64(b); v >= contextMax {
			context, b = v, b[8:]
			if v == contextUserDeferred && len(b) >= 8 {
				s.cookie, s.deferred, b = o.u64(b), true, b[8:]
			}
			continue
		}
		n := 8
		for n < len(b) && o.u64(b[n:]) < contextMax {
			n += 8
		}
		switch context {
		case contextKernel:
			s.kernel = b[:n:n]
		case contextUser:
			s.chain = b[:n:n]
		}
		b = b[n:]
	}
}

// abi64 is PERF_SAMPLE_REGS_ABI_64: the registers are those of a 64-bit thread.
const abi64 = 2

// copied reports whether the sample of an event is of a thread whose stack was copied.
func (s *sample) copied(a *attr) bool { return a.has(unix.PERF_SAMPLE_STACK_USER) }

// Copy is what a sample has of a thread in user space, to be unwound. Its slices are valid
// during the call.
type Copy struct {
	PID, TID int32
	Time     uint64
	// Values are the registers with a bit in Mask, the lowest bit first
	// (arch/*/include/uapi/asm/perf_regs.h).
	Mask   uint64
	Values []uint64
	// Stack is a copy of the stack from the stack pointer on.
	Stack []byte
	// Wide: the thread has 64 bits.
	Wide bool
}
