package perfdata

import (
	"errors"
	"fmt"
	"io"
	"math"

	"golang.org/x/sys/unix"

	"ustack/tracefs"
	"ustack/tracefs/binary"
	"ustack/tracefs/perf"
)

// Source reads the samples of a file as the records of a trace, in order of time: each the
// event and its stacks, in the words that ftrace has for them. It implements input.Reader.
type Source struct {
	file    *File
	in      *ordered
	printer *binary.Foreign
	tasks   tasks
	spaces  *spaces // nil if there are no numbers, or before the first record
	sample  sample
	record  perf.Record
	at      binary.Moment
	counts  counts
	losses  losses
	mounts  mounts
	ended   bool
	plain   bool // no numbers of spaces are needed
	unwind  func(*Copy) []tracefs.Frame
	copy    Copy
}

// counts are what is reported at the end.
type counts struct {
	malformed  int64
	firstBad   error
	unknown    int64 // samples of events that the file does not describe
	throttled  int64
	notUnwound int64 // samples with a copy of the stack
	withoutCPU int64
	filtered   uint64
}

// Source reads the file from its beginning. It calls read with the number of bytes read,
// for progress; read may be nil.
func (f *File) Source(opt binary.Options, read func(int)) *Source {
	s := &Source{file: f, in: newOrdered(f, read), tasks: newTasks(), plain: opt.NoTemplates}
	s.losses.events = &f.events
	k := f.kernel
	k.Names = &s.tasks
	s.printer = binary.NewForeign(&k, opt)
	return s
}

// Unwind has stacks of samples that have no call chain, but a copy of the stack, found by a
// function, which returns the frames. It must be called before the first Next.
func (s *Source) Unwind(by func(*Copy) []tracefs.Frame) { s.unwind = by }

// Next implements input.Reader. The error after the last batch is that of the file.
func (s *Source) Next(b *tracefs.Batch) error {
	b.Reset()
	if s.spaces == nil && !s.plain { // only now: File.SideBand, which finds them, is mostly called in between
		s.spaces = s.file.changes()
	}
	s.printer.Begin(b)
	for !s.ended && !s.printer.Full(b) {
		rec, h, err := s.in.next()
		if err != nil {
			s.ended = true
			s.lostLast(b)
			s.printer.End(b)
			return s.end(err)
		}
		s.take(b, h, rec)
	}
	s.printer.End(b)
	return nil
}

// end returns the error of the file, io.EOF if there is none.
func (s *Source) end(err error) error {
	s.in.close()
	if err == io.EOF {
		err = nil
	}
	if n := s.counts.malformed; n > 0 {
		err = errors.Join(err, fmt.Errorf("%d records are left out, the first one: %w", n, s.counts.firstBad))
	}
	if err = errors.Join(err, s.file.err); err != nil {
		return err
	}
	return io.EOF
}

// take prints a record, or notes what it says.
func (s *Source) take(b *tracefs.Batch, h header, rec []byte) {
	switch h.typ {
	case unix.PERF_RECORD_SAMPLE:
		a := s.file.events.of(h, rec)
		switch {
		case a == nil:
			s.counts.unknown++
		case !s.sample.decode(s.file.order, a, h, rec):
			s.bad(h)
		default:
			if s.sample.cpu < 0 {
				s.sample.cpu = s.file.events.cpuOf(rec, a.id)
			}
			s.sample.time = uint64(s.file.time(s.sample.time))
			s.print(b, a)
		}
	case recordDeferred:
		if !s.deferred(b, h, rec) {
			s.bad(h)
		}
	case unix.PERF_RECORD_THROTTLE:
		s.counts.throttled++
		s.lost(b, h, rec)
	case unix.PERF_RECORD_NAMESPACES:
		a := s.file.events.of(h, rec)
		if a == nil || len(rec)-headerSize < a.trailer() || !s.mounts.add(s.file.order, rec[headerSize:len(rec)-a.trailer()]) {
			s.bad(h)
		}
	default:
		s.other(b, h, rec)
	}
}

// bad counts a record that is left out.
func (s *Source) bad(h header) {
	if s.counts.malformed++; s.counts.firstBad == nil {
		s.counts.firstBad = fmt.Errorf("%w: a record of type %d and %d bytes", ErrFormat, h.typ, h.size)
	}
}

// other takes a record about mappings, names, threads or losses.
func (s *Source) other(b *tracefs.Batch, h header, rec []byte) {
	r := &s.record
	ok, bad := s.file.sideBand(h, rec, r)
	if bad {
		s.bad(h)
	}
	if !ok {
		return
	}
	switch r.Type {
	case unix.PERF_RECORD_LOST, unix.PERF_RECORD_LOST_SAMPLES:
		s.loss(b, r)
	case unix.PERF_RECORD_COMM:
		s.tasks.called(int32(r.TID), string(r.Name))
		s.printer.Renamed(int32(r.TID))
	case unix.PERF_RECORD_FORK:
		s.tasks.forked(int32(r.ParentTID), int32(r.TID))
		s.printer.Renamed(int32(r.TID))
	}
}

// loss takes the record of a loss.
func (s *Source) loss(b *tracefs.Batch, r *perf.Record) {
	s.losses.note(r)
	switch {
	case r.Misc&miscFiltered != 0:
		s.counts.filtered += r.Lost
	case !atEnd(r):
		s.printer.Lost(b, int32(r.CPU), r.Lost)
	}
}

// lostLast prints what was lost after the last records. Of the last one of several files of perf
// record --switch-output it is not known how many.
func (s *Source) lostLast(b *tracefs.Batch) {
	s.losses.last(func(cpu int32, n uint64) {
		if s.file.switched() {
			n = 0
		}
		s.printer.Lost(b, cpu, n)
	})
}

// lost notes that the kernel has stopped to take samples for a while, as there were too
// many: how many are missing is not known.
func (s *Source) lost(b *tracefs.Batch, h header, rec []byte) {
	a := s.file.events.of(h, rec)
	if a == nil || len(rec)-headerSize < a.trailer() {
		return
	}
	s.record = perf.Record{}
	s.file.trailer(a, rec[len(rec)-a.trailer():], &s.record)
	s.printer.Lost(b, int32(s.record.CPU), 0)
}

// print prints a sample: the event, its stack in the kernel, and its stack in user space
// or the request for it.
func (s *Source) print(b *tracefs.Batch, a *attr) {
	x := &s.sample
	if x.cpu < 0 {
		s.counts.withoutCPU++
		x.cpu = 0
	}
	at := &s.at // field by field: a whole one would be copied
	at.CPU, at.Time, at.TID, at.PID, at.Raw = x.cpu, x.time, x.tid, x.pid, x.raw
	if a.typ != unix.PERF_TYPE_TRACEPOINT {
		at.Raw = nil
	}
	if !s.printer.Tracepoint(b, &s.at) {
		s.printer.Event(b, &s.at, a.text(), x.ip, x.period)
	}
	if len(x.kernel) > 0 {
		s.printer.KernelStack(b, &s.at, x.kernel)
	}
	switch {
	case x.deferred:
		s.printer.Cookie(b, &s.at, x.cookie)
	case len(x.chain) > 0:
		s.user(b, &binary.UserStack{Addrs: x.chain})
	case len(x.regs) > 0 && x.copied(a):
		s.unwound(b, a)
	case !x.chained && x.user:
		s.user(b, &binary.UserStack{Addrs: s.file.order.word(x.ip)})
	}
}

// unwound prints the stack of a sample with registers and a copy.
func (s *Source) unwound(b *tracefs.Batch, a *attr) {
	x := &s.sample
	s.copy = Copy{PID: x.pid, TID: x.tid, Time: x.time, Mask: a.regsUser, Values: s.copy.Values[:0], Stack: x.stack, Wide: x.abi == abi64}
	for v := x.regs; len(v) >= 8; v = v[8:] {
		s.copy.Values = append(s.copy.Values, s.file.order.u64(v))
	}
	var frames []tracefs.Frame
	if s.unwind != nil {
		frames = s.unwind(&s.copy)
	}
	if len(frames) == 0 {
		s.counts.notUnwound++
		return
	}
	s.printer.UnwoundStack(b, &s.at, frames)
}

// user prints a stack of the moment.
func (s *Source) user(b *tracefs.Batch, stack *binary.UserStack) {
	if s.spaces != nil {
		stack.Space = s.spaces.of(s.at.PID, s.at.Time)
	}
	s.printer.UserStack(b, &s.at, stack)
}

// deferred prints a stack that was unwound on return to user space
// (PERF_RECORD_CALLCHAIN_DEFERRED: cookie, number, addresses).
func (s *Source) deferred(b *tracefs.Batch, h header, rec []byte) bool {
	a := s.file.events.of(h, rec)
	if a == nil || len(rec)-headerSize < a.trailer() {
		return false
	}
	r := &s.record
	*r = perf.Record{}
	end := len(rec) - a.trailer()
	s.file.trailer(a, rec[end:], r)
	v := fields{order: s.file.order, rest: rec[headerSize:end]}
	cookie := v.word64()
	addrs := v.words(v.word64())
	if v.bad {
		return false
	}
	s.at = binary.Moment{CPU: int32(r.CPU), Time: uint64(r.Time), TID: int32(r.TID), PID: int32(r.PID)}
	s.user(b, &binary.UserStack{Addrs: addrs, Deferred: true, Cookie: cookie})
	return true
}

// Notes are remarks about the file and how its records were printed, for when all are
// read.
func (s *Source) Notes() []string {
	list := append([]string(nil), s.file.Notes...)
	list = append(list, s.in.notes()...)
	for _, c := range [...]struct {
		n    int64
		what string
	}{
		{s.counts.unknown, "samples are of events that the file does not describe, and are left out"},
		{s.counts.throttled, "times the kernel stopped to take samples of an event, as there were too many"},
		{s.counts.notUnwound, "samples have a copy of the stack of which no frame was found, and no call chain"},
		{s.counts.withoutCPU, "samples do not say on which CPU they were taken, which is shown as CPU 0"},
		{int64(min(s.counts.filtered, math.MaxInt64)), "samples were left out by the filter of perf record, as it was asked to"},
	} {
		if c.n > 0 {
			list = append(list, fmt.Sprintf("%d %s", c.n, c.what))
		}
	}
	for _, note := range [...]string{s.mounts.note(), s.file.wall.note()} {
		if note != "" {
			list = append(list, note)
		}
	}
	return append(list, s.printer.Notes()...)
}

// Clock returns the name of the trace clock, "" if unknown.
func (s *Source) Clock() string { return s.file.Clock() }
