package blocked

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"ustack/tracefs"
)

// ErrBusy: the stack was not read, as reading took too much time, or too many were asked
// for.
var ErrBusy = errors.New("too many stacks to read")

// QueueOptions are how a Queue reads.
type QueueOptions struct {
	// Read reads size bytes of the stack of a thread, as Reader.Read does.
	Read func(tid, size int) (*Stack, error)
	// Now is the time by CLOCK_MONOTONIC.
	Now func() tracefs.Time
}

// Bounds of what a Queue does: anyone's programs can wait as often as they like.
const (
	maxAsks = 1 << 12
	// maxReads is how many stacks are read a second, of some 60 us each, and maxBytes
	// how much; in a tenth of the time at once.
	maxReads, maxBytes = 4000, 64 << 20
	// firstSize and mostSize are how much of a stack is read, in bytes.
	firstSize, mostSize = 16 << 10, 256 << 10
	// tries is how often a thread is looked at that runs, again after tryAgain: it may
	// be on its way to the place where it waits.
	tries    = 3
	tryAgain = tracefs.Time(time.Millisecond)
)

// Queue reads stacks when they are due, one after the other, in a goroutine of its own.
type Queue struct {
	opt  QueueOptions
	size atomic.Int64

	mu   sync.Mutex
	asks []*Ask // by the time at which they are due
	wake chan struct{}
	quit chan struct{}
	once sync.Once

	// Of the goroutine that reads.
	reads  int // that are left
	bytes  int
	filled tracefs.Time // when both were reckoned
}

// Ask is a stack that is to be read.
type Ask struct {
	tid    int
	due    tracefs.Time
	tries  int
	over   atomic.Bool
	result atomic.Pointer[result]
}

type result struct {
	stack *Stack
	err   error
}

// Cancel has the stack not be read, if that has not begun.
func (a *Ask) Cancel() { a.over.Store(true) }

// Result returns the stack, or why there is none, see Reader.Read and ErrBusy. done is
// false before that is known.
func (a *Ask) Result() (s *Stack, done bool, err error) {
	r := a.result.Load()
	if r == nil {
		return nil, false, nil
	}
	return r.stack, true, r.err
}

// NewQueue returns a queue, which is to be closed.
func NewQueue(opt QueueOptions) *Queue {
	q := &Queue{opt: opt, wake: make(chan struct{}, 1), quit: make(chan struct{}), reads: maxReads / burst, bytes: maxBytes / burst, filled: opt.Now()}
	q.size.Store(firstSize)
	go q.run()
	return q
}

// Close ends the reading. A nil Queue has ended.
func (q *Queue) Close() {
	if q != nil {
		q.once.Do(func() { close(q.quit) })
	}
}

// Grow has more of the stacks be read than size, which was too little.
func (q *Queue) Grow(size int) {
	if size < mostSize {
		q.size.CompareAndSwap(int64(size), int64(min(2*size, mostSize)))
	}
}

// Ask has a stack be read at a time, no earlier than those that were asked for before.
func (q *Queue) Ask(tid int, due tracefs.Time) *Ask {
	a := &Ask{tid: tid, due: due}
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.asks) >= maxAsks {
		a.result.Store(&result{err: ErrBusy})
		return a
	}
	q.add(a)
	return a
}

func (q *Queue) add(a *Ask) {
	if q.asks = append(q.asks, a); len(q.asks) == 1 {
		select {
		case q.wake <- struct{}{}:
		default:
		}
	}
}

func (q *Queue) run() {
	for {
		a := q.next()
		wake, timer := q.wake, (<-chan time.Time)(nil)
		if a != nil {
			d := time.Duration(a.due - q.opt.Now())
			if d <= 0 {
				q.answer(a)
				continue
			}
			wake, timer = nil, time.After(d)
		}
		select {
		case <-q.quit:
			return
		case <-wake:
		case <-timer:
			q.answer(a)
		}
	}
}

// next takes the first ask out that is not over, nil if there is none.
func (q *Queue) next() *Ask {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.asks) > 0 {
		a := q.asks[0]
		q.asks[0] = nil
		if q.asks = q.asks[1:]; !a.over.Load() {
			return a
		}
	}
	q.asks = nil
	return nil
}

// answer reads a stack.
func (q *Queue) answer(a *Ask) {
	size := int(q.size.Load())
	if a.over.Load() || !q.may(q.opt.Now(), size) {
		a.result.Store(&result{err: ErrBusy})
		return
	}
	s, err := q.opt.Read(a.tid, size)
	if a.tries++; errors.Is(err, ErrRunning) && a.tries < tries && !a.over.Load() {
		a.due = q.opt.Now() + tryAgain
		q.mu.Lock()
		defer q.mu.Unlock()
		q.add(a)
		return
	}
	a.result.Store(&result{s, err})
}

// burst is in which part of a second all may be read that is left over from before.
const burst = 10

// may reports whether a stack may be read now, and counts it.
func (q *Queue) may(now tracefs.Time, size int) bool {
	const second, step = tracefs.Time(time.Second), tracefs.Time(time.Second / maxReads)
	if passed := min(now-q.filled, second); passed >= step {
		q.filled = now
		q.reads = min(maxReads/burst, q.reads+int(passed*maxReads/second))
		q.bytes = min(maxBytes/burst, q.bytes+int(passed*maxBytes/second))
	}
	if q.reads <= 0 || q.bytes < size {
		return false
	}
	q.reads--
	q.bytes -= size
	return true
}
