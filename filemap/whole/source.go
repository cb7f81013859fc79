package whole

import (
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"ustack/filemap/blocked"
	"ustack/filemap/bounded"
	"ustack/tracefs"
	"ustack/tracefs/perf"
)

// Keeper holds the tracepoint switched on for perf. The kernel calls the probes of a
// tracepoint in the order in which they came: while it is open, a sample comes before
// the record of a trace that was switched on after it.
type Keeper struct{ fd atomic.Int64 }

// Keep opens a Keeper of a tracepoint.
func Keep(tracepoint uint64) (*Keeper, error) {
	clock, err := perf.ClockID(perf.DefaultClock)
	if err != nil {
		return nil, err
	}
	e := perf.Event{Tracepoint: tracepoint, Clock: clock, Disabled: true}
	fd, err := e.Open(perf.OfThread(0, -1))
	if err != nil {
		return nil, fmt.Errorf("keeping a tracepoint: %w", perf.Refusal(err))
	}
	k := new(Keeper)
	k.fd.Store(int64(fd))
	return k, nil
}

// Close releases the tracepoint. A nil Keeper has none.
func (k *Keeper) Close() error {
	if k == nil {
		return nil
	}
	fd := k.fd.Swap(-1)
	if fd < 0 {
		return nil
	}
	return unix.Close(int(fd))
}

// waitFilter passes the futex calls that can wait: FUTEX_WAIT, WAIT_BITSET, LOCK_PI,
// LOCK_PI2 and WAIT_REQUEUE_PI, with and without FUTEX_PRIVATE_FLAG and
// FUTEX_CLOCK_REALTIME (include/uapi/linux/futex.h). The kernel looks at one after the
// other: wakeups, of which there are as many, are sorted out first.
func waitFilter() string {
	const private, realtime = 128, 256
	var list []string
	for _, cmd := range [...]int{0, 9, 6, 13, 11} {
		for _, flags := range [...]int{private, private | realtime, 0, realtime} {
			list = append(list, "op=="+strconv.Itoa(cmd|flags))
		}
	}
	return "op!=129&&op!=1&&(" + strings.Join(list, "||") + ")"
}

// SourceOptions are what a Source samples.
type SourceOptions struct {
	Options
	// Threads are those to sample, and what they start, as they are now; it returns
	// nil for all.
	Threads func() []int
	// PerSecond bounds the samples of a second, 0 for no bound: above it, sampling
	// pauses. So it does if the trace is read late because there are many.
	PerSecond int
	// BufferKB is the room of the trace on each CPU.
	BufferKB int
	// Releases bounds the copies of stacks of calls that let others go on, of a second:
	// 0 for none.
	Releases int
	Sys      string // see perf.SamplerOptions
	// Ahead reads the stack of a thread that waits, see blocked.Reader: those of Threads
	// are unwound before sampling begins. It is nil if they are not.
	Ahead func(tid, size int) (*blocked.Stack, error)
}

// Source samples waits and gives batches their whole stacks.
type Source struct {
	*Stage
	opt     SourceOptions
	sampler *perf.Sampler
	pace    pace
	err     error
	rested  tracefs.Time
	lost    atomic.Uint64
	total   atomic.Uint64
	pauses  atomic.Uint64
	bytes   atomic.Int64 // of a copy
	fixed   bool         // that stays
	calls   *bounded.Calls
	held    bool // a thread is in the middle of an exec that does not end: all are sampled
}

// OpenSource begins to sample. There must be a Keeper of the tracepoint.
func OpenSource(opt SourceOptions) (*Source, error) {
	s := &Source{opt: opt, calls: bounded.New(0)}
	s.Stage, s.pace.late = New(opt.Options), lateFor(opt.BufferKB)
	if threads := opt.Threads(); opt.Ahead != nil && len(threads) <= maxThreads {
		s.ahead(threads, opt.Ahead)
	}
	if err := s.open(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	s.wakes.perSecond, s.wakes.open = opt.Releases, s.openReleases
	s.wakes.start()
	return s, nil
}

// maxThreads bounds the threads that are sampled one by one: each needs a descriptor a
// CPU.
const maxThreads = 64

func (s *Source) open() error {
	threads := s.opt.Threads()
	if len(threads) > maxThreads || s.held {
		threads = nil
	}
	opt := perf.SamplerOptions{
		Tracepoints: []perf.Tracepoint{{ID: s.opt.Tracepoint, Filter: waitFilter()}},
		Threads:     threads, StackBytes: s.growth.size, RingSize: ringFor(s.growth.size, runtime.NumCPU()), Sys: s.opt.Sys,
	}
	calls := opt.Tracepoints
	if s.opt.Ticks > 0 {
		opt.Tracepoints = s.withTicks(calls)
	}
	sampler, err := s.sample(opt)
	if err != nil && s.opt.Ticks > 0 { // too many files, say
		s.opt.Ticks, opt.Tracepoints = 0, calls
		sampler, err = s.sample(opt)
	}
	if err != nil {
		return err
	}
	if s.sampler = sampler; s.pace.paused {
		s.pace.paused = false
		s.rests.end(s.opt.Now())
	}
	s.bytes.Store(int64(s.growth.size))
	return nil
}

// Read takes the samples until now, and returns when that was. It must come before the
// changes of mappings until then are taken.
func (s *Source) Read() tracefs.Time {
	s.rest()
	if s.sampler == nil {
		return s.opt.Now()
	}
	n := 0
	s.wakes.read(s.Sample)
	until := s.sampler.Read(func(p *perf.StackSample) {
		n++
		s.Sample(p)
	}, func(l perf.Loss) { s.lost.Add(l.Records) })
	s.total.Add(uint64(n))
	s.pace.sampled, s.pace.until = s.pace.sampled+n, until
	return until
}

// restEvery is how long a file that no stack leads through stays open, at least; twice as
// long at most.
const restEvery = 3 * tracefs.Time(time.Second)

// rest closes the files that no stack leads through, now and then.
func (s *Source) rest() {
	if now := s.opt.Now(); now-s.rested >= restEvery {
		s.rested = now
		s.Rest()
	}
}

// Give gives stacks of a batch the frames that samples prove, see Stage.Batch.
func (s *Source) Give(b *tracefs.Batch, samplesUntil tracefs.Time) {
	s.Batch(b, samplesUntil)
	s.grow()
	last := lastTime(b)
	s.bound(last)
	s.boundReleases(last)
}

// lastTime returns when the last record of a batch was written, 0 if unknown.
func lastTime(b *tracefs.Batch) tracefs.Time {
	for i := len(b.Records) - 1; i >= 0; i-- {
		if t, ok := b.Exact(&b.Records[i]); ok {
			return t
		}
	}
	return 0
}

// grow copies more of the stacks, if that is too little.
func (s *Source) grow() {
	if s.sampler == nil || s.fixed || !s.growth.due() {
		return
	}
	before := s.growth
	s.growth = before.grown()
	if s.reopen(); s.fixed {
		s.growth = before
	}
}

// reopen begins anew, with another size. Both sample for a moment: of two samples of one
// call, one is refused.
func (s *Source) reopen() {
	old := s.sampler
	err := s.open()
	s.sampler, old = old, s.sampler
	s.Read()
	if err == nil {
		s.sampler, old = old, s.sampler
	} else {
		s.fixed, old = true, nil // it goes on as it was
	}
	if old != nil {
		err = errors.Join(err, old.Close())
	}
	s.err = errors.Join(s.err, err)
}

// Again begins anew, for the threads that are traced now: the kernel has taken events from some.
func (s *Source) Again() {
	if s.sampler != nil && !s.pace.paused {
		s.reopen()
	}
	if s.wakes.sampler != nil && !s.wakes.paused {
		s.wakes.reopen(func() { s.wakes.read(s.Sample) })
	}
}

// bound pauses sampling while there are too many. last is when the last record that was
// read was written, 0 if unknown.
func (s *Source) bound(last tracefs.Time) {
	if s.opt.PerSecond <= 0 || s.sampler == nil {
		return
	}
	now, late := s.opt.Now(), tracefs.Time(0)
	if last > 0 {
		late = now - last
	}
	switch was := s.pace.paused; {
	case s.pace.step(now, late, s.opt.PerSecond/windows) == was:
	case was:
		s.err = s.sampler.Resume()
		s.rests.end(s.opt.Now())
	default:
		s.rests.begin(now)
		s.err = s.sampler.Pause()
		s.pauses.Add(1)
	}
}

// Sampled is how sampling went.
type Sampled struct {
	Samples, Lost, Pauses uint64
	Missed                uint64 // waits without a sample that began while sampling had paused
	StackBytes            int    // of a copy
	Releases              ReleasesSampled
}

// Sampled returns how sampling went so far.
func (s *Source) Sampled() Sampled {
	return Sampled{s.total.Load(), s.lost.Load(), s.pauses.Load(), s.Counts().Missed, int(s.bytes.Load()), s.wakes.counts()}
}

// Err is why sampling has ended early, nil if it has not.
func (s *Source) Err() error { return errors.Join(s.err, s.wakes.err) }

// Close ends sampling. A nil Source has ended.
func (s *Source) Close() error {
	if s == nil {
		return nil
	}
	var err error
	if s.sampler != nil {
		err = s.sampler.Close()
		s.sampler = nil
	}
	s.Stage.Close()
	return errors.Join(err, s.wakes.close())
}
