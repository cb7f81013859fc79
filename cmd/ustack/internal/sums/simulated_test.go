//go:build !device && (amd64 || arm64)

package sums

import (
	"io"
	"time"

	"ustack/tracefs"
	"ustack/tracefs/bpffutex"
)

// simulated is a source without a kernel: processes begin and end, and their threads wait at
// futexes. Its time is simulated, and goes on when Next finds nothing.
type simulated struct {
	at      time.Time
	mono    tracefs.Time
	most    int // futexes that are kept apart
	every   time.Duration
	longest time.Duration // that a wait takes
	trigger time.Duration // how often one takes that long; 0 for never
	tick    func()        // each simulated minute
	kept    func() int64  // what the recorder has kept, ever

	began   tracefs.Time
	pending []bpffutex.Wait
	sums    map[bpffutex.Futex]*bpffutex.Sum
	others  bpffutex.Sum
	loss    bpffutex.Loss
	n       int // of simulated processes
	waits   uint64
	time    tracefs.Time
	closed  bool
}

// What is simulated: numbers of processes are among the last that Linux has.
const (
	simBegun    = 1000 * tracefs.Time(time.Second)
	simFirst    = 4000000
	simFutexes  = 16
	simThreads  = 10
	simEvery    = 10 * time.Second // a process begins
	simFrames   = 12
	simBuildIDs = 24
)

func newSimulated(every time.Duration) *simulated {
	return &simulated{at: time.Unix(1800000000, 0), mono: simBegun, began: simBegun, most: 8192, every: every, sums: make(map[bpffutex.Futex]*bpffutex.Sum)}
}

func (s *simulated) now() time.Time                       { return s.at }
func (s *simulated) clock() tracefs.Time                  { return s.mono }
func (s *simulated) Add(int, uint64) error                { return nil }
func (s *simulated) Remove(int) error                     { return nil }
func (s *simulated) Start() error                         { return nil }
func (s *simulated) Stop() error                          { return nil }
func (s *simulated) Wake() error                          { return nil }
func (s *simulated) Close() error                         { s.closed = true; return nil }
func (s *simulated) Waiting(func(bpffutex.Waiting)) error { return nil }
func (s *simulated) Loss() (bpffutex.Loss, error)         { return s.loss, nil }
func (s *simulated) Others() (bpffutex.Sum, error)        { return s.others, nil }

// Next implements source.
func (s *simulated) Next(w *bpffutex.Wait, until time.Time) error {
	for len(s.pending) == 0 {
		if !s.at.Before(until) {
			return io.EOF
		}
		s.step()
	}
	stack, comm := w.Stack[:0], w.Comm[:0]
	*w = s.pending[0]
	w.Stack, w.Comm = append(stack, w.Stack...), append(comm, w.Comm...)
	s.pending = s.pending[:copy(s.pending, s.pending[1:])]
	return nil
}

// step lets the time go on.
func (s *simulated) step() {
	minute := s.mono / tracefs.Time(time.Minute)
	s.at, s.mono = s.at.Add(s.every), s.mono+tracefs.Time(s.every)
	s.n = int((s.mono-s.began)/tracefs.Time(simEvery)) + 1
	s.wait(12*time.Millisecond+time.Duration(s.mono/tracefs.Time(s.every)%7)*time.Millisecond, true)
	for range 3 {
		s.wait(200*time.Microsecond, false)
	}
	if s.trigger > 0 && (s.mono-s.began)%tracefs.Time(s.trigger) == 0 {
		s.wait(s.longest, true)
	}
	if s.tick != nil && s.mono/tracefs.Time(time.Minute) != minute {
		s.tick()
	}
}

// wait is a wait of the process that began last.
func (s *simulated) wait(took time.Duration, long bool) {
	s.waits++
	s.time += tracefs.Time(took)
	pid := int32(simFirst + s.n)
	f := bpffutex.Futex{Addr: 0x7f0000000000 + 64*(s.waits%simFutexes), Memory: uint64(pid) << 12, Born: uint64(simBegun) + uint64(s.n), TGID: pid}
	sum := s.sums[f]
	if sum == nil {
		if len(s.sums) >= s.most {
			s.loss.Apart++
			sum = &s.others
		} else {
			sum = &bpffutex.Sum{Comm: []byte("simulated")}
			s.sums[f] = sum
		}
	}
	sum.Results.Woken++
	sum.Values.Two++
	sum.Slept++
	sum.Time += tracefs.Time(took)
	sum.Wakes++ // by who had the lock
	sum.Woken++
	sum.Seen.Plain, sum.Seen.NoTimeout = true, true
	n := 0
	for t := took; t > 0; t >>= 1 {
		n++
	}
	sum.Buckets[n]++
	if !long {
		return
	}
	sum.Longs++
	w := bpffutex.Wait{Futex: f, From: s.mono - tracefs.Time(took), To: s.mono, TID: pid + int32(s.waits%simThreads), Comm: []byte("thread 1\n"), Val: 2}
	for i := range uint64(simFrames) {
		id := [20]byte{1, byte((i + s.waits) % simBuildIDs)}
		w.Stack = append(w.Stack, bpffutex.Frame{BuildID: id, Number: 0x1000 * (1 + (s.waits+i)%100)})
	}
	s.pending = append(s.pending, w)
}

// Sums implements source.
func (s *simulated) Sums(fn func(bpffutex.Futex, *bpffutex.Sum) error) error {
	for f, sum := range s.sums {
		if err := fn(f, sum); err != nil {
			return err
		}
	}
	return nil
}

// Prune implements source. The last process is alive.
func (s *simulated) Prune(ended func(bpffutex.Futex) bool, fn func(bpffutex.Futex, *bpffutex.Sum)) error {
	for f, sum := range s.sums {
		if f.TGID != int32(simFirst+s.n) && ended(f) {
			delete(s.sums, f)
			fn(f, sum)
		}
	}
	return nil
}

var _ source = (*simulated)(nil)
