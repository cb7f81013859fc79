package perftrace

import (
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"ustack/tracefs"
	tracebinary "ustack/tracefs/binary"
	"ustack/tracefs/perf"
)

// Sampler reads the rings: *perf.Sampler, but for tests.
type Sampler interface {
	ReadSome(until tracefs.Time, take func(*perf.StackSample) bool, lost func(perf.Loss)) (more bool)
	Unreported(lost func(perf.Loss))
	Now() tracefs.Time
	RingSize() int
	Counts() perf.SampleCounts
	Close() error
}

// Options are how a Trace reads.
type Options struct {
	tracebinary.Options
	// Leave reports whether records of a process are left out. nil leaves out none.
	Leave func(pid int) bool
	// Twice is set if threads can be sampled by two events at once (perf.Sampler.Watch).
	Twice bool
	// Pause is how long there may be nothing before a batch says so, once.
	Pause time.Duration
}

// Trace reads the rings of all CPUs as one trace. It implements input.ReadCloser: Next is
// for one goroutine; the others may be called by any.
type Trace struct {
	opt     Options
	printer *tracebinary.Foreign
	twice   twice
	addrs   []byte // of a stack
	at      tracebinary.Moment
	pace    pace
	bytes   int64
	short   int64 // samples without a whole record of a tracepoint

	woken atomic.Bool

	mu       sync.Mutex // guards what follows
	in       Sampler
	stopped  bool // nothing more is sampled
	finished bool // and all losses have been reported
	closed   bool
}

// moment is how long a record may take from its time stamp until it can be read, in
// nanoseconds.
const moment = tracefs.Time(time.Millisecond)

// New reads what a sampler samples, and closes it in the end. The kernel's Names are those of
// the threads.
func New(k *tracebinary.Kernel, in Sampler, opt Options) *Trace {
	t := &Trace{opt: opt, in: in, printer: tracebinary.NewForeign(k, opt.Options)}
	t.twice.on = opt.Twice
	t.pace = newPace(in.RingSize(), opt.Pause)
	return t
}

// Next implements input.Reader. It waits for records; a batch without one is marked as
// Paused.
func (t *Trace) Next(b *tracefs.Batch) error {
	b.Reset()
	t.printer.Begin(b)
	defer t.printer.End(b)
	for t.pace.begin(); ; t.pace.rest() {
		ended, err := t.fill(b)
		switch {
		case err != nil:
			return err
		case !b.Empty():
			t.pace.came()
			return nil
		case ended:
			return io.EOF
		case t.woken.Swap(false) || t.pace.paused():
			b.Paused = true
			return nil
		}
	}
}

// fill takes what there is into a batch. ended is the end of the trace.
func (t *Trace) fill(b *tracefs.Batch) (ended bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return false, fmt.Errorf("reading the rings of perf: %w", os.ErrClosed)
	}
	until, stopped := t.in.Now(), t.stopped
	if !stopped {
		until -= moment
	}
	lost := func(l perf.Loss) { t.printer.Lost(b, int32(l.CPU), l.Records) }
	t.pace.more = t.in.ReadSome(until, func(s *perf.StackSample) bool {
		t.print(b, s)
		return !t.printer.Full(b)
	}, lost)
	t.bytes = int64(t.in.Counts().Bytes)
	if !stopped || t.pace.more {
		return false, nil
	}
	if !t.finished {
		t.finished = true
		t.in.Unreported(lost)
	}
	return true, nil
}

// print prints a sample: the event with its stack or the request for it, or a stack that has
// come later.
func (t *Trace) print(b *tracefs.Batch, s *perf.StackSample) {
	if t.opt.Leave != nil && t.opt.Leave(s.PID) || t.twice.again(s) {
		return
	}
	t.at = tracebinary.Moment{CPU: int32(s.CPU), Time: uint64(s.Time), TID: int32(s.TID), PID: int32(s.PID), Raw: s.Raw}
	if s.Late {
		t.printer.UserStack(b, &t.at, &tracebinary.UserStack{Addrs: t.words(s.Chain), Deferred: true, Cookie: s.Cookie})
		return
	}
	switch {
	case !t.printer.Tracepoint(b, &t.at):
		t.short++
	case s.Deferred:
		t.printer.Cookie(b, &t.at, s.Cookie)
	case len(s.Chain) > 0:
		t.printer.UserStack(b, &t.at, &tracebinary.UserStack{Addrs: t.words(s.Chain)})
	}
}

// words returns addresses as the kernel writes them, up to a return address of 0: ftrace ends
// stacks there, too.
func (t *Trace) words(addrs []uint64) []byte {
	t.addrs = t.addrs[:0]
	for _, a := range addrs {
		if a == 0 {
			break
		}
		t.addrs = binary.NativeEndian.AppendUint64(t.addrs, a)
	}
	return t.addrs
}

// End notes that nothing more is sampled: Next returns what there is, then io.EOF.
func (t *Trace) End() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stopped = true
}

// Hold calls a function that uses the sampler while Next does not.
func (t *Trace) Hold(do func() error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return os.ErrClosed
	}
	return do()
}

// Wake has Next return soon.
func (t *Trace) Wake() { t.woken.Store(true) }

// Size returns how many bytes of samples have been read. It is for the goroutine of Next.
func (t *Trace) Size() int64 { return t.bytes }

// Notes are remarks about the trace, for its end. They are for the goroutine of Next.
func (t *Trace) Notes() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	list := slices.Clone(t.printer.Notes())
	if n := t.in.Counts().Malformed; n > 0 {
		list = append(list, fmt.Sprintf("%d records of perf cannot be read, and are left out", n))
	}
	if t.short > 0 {
		list = append(list, fmt.Sprintf("%d samples have no whole record of their tracepoint, and are left out", t.short))
	}
	return list
}

// Close implements input.ReadCloser. Next returns an error then.
func (t *Trace) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil
	}
	t.closed = true
	return t.in.Close()
}
