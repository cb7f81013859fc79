// Package bounded makes calls that can stay in the kernel for as long as another
// party likes: opening, reading or only stat(2) of a file of a FUSE file system, or
// of a network file system whose server does not answer. Any user can mount one in
// a user namespace of their own and map its files.
package bounded

import (
	"errors"
	"runtime"
	"sync"
	"time"
)

// Errors of Do. The call has no result then.
var (
	// ErrSlow: the call did not come back in time. It goes on, alone.
	ErrSlow = errors.New("no answer in time")
	// ErrRefused: the call was not made, too many before it were slow.
	ErrRefused = errors.New("not tried: too many others gave no answer in time")
)

// Defaults and bounds.
const (
	// DefaultWait is how long a call may take. A disk that has to wake up, or a
	// busy file server, needs less.
	DefaultWait = time.Second
	// maxSlow bounds the calls that have not come back: each has a thread.
	maxSlow = 8
	// share is the part of all time that slow calls may take (1/share), once
	// they have used up what they may take at first: waits × DefaultWait.
	share, waits = 10, 10
	// free is what a call may take without being counted.
	free = time.Millisecond
)

// Calls makes calls, and waits for each only so long. It may be used by several
// goroutines. The zero value is not ready: see New.
type Calls struct {
	wait time.Duration
	idle *pool

	mu     sync.Mutex
	slow   int           // calls that have not come back
	left   time.Duration // what calls may take, negative if they took more
	filled time.Time     // when left was reckoned
}

// New returns Calls that wait for at most this long each, DefaultWait if 0.
func New(wait time.Duration) *Calls {
	if wait <= 0 {
		wait = DefaultWait
	}
	c := &Calls{wait: wait, left: waits * wait, filled: time.Now(), idle: new(pool)}
	runtime.AddCleanup(c, (*pool).end, c.idle)
	return c
}

// Do calls fn in another goroutine and waits for it. After an error fn may
// still run, or run later: it must use no memory that the caller uses again.
func (c *Calls) Do(fn func()) error {
	start := time.Now()
	if !c.mayBegin(start) {
		return ErrRefused
	}
	w := c.idle.take()
	w.calls <- call{fn, c}
	w.timer.Reset(c.wait)
	select {
	case <-w.done:
	case <-w.timer.C:
		if c.giveUp(w, start) {
			return ErrSlow
		}
		<-w.done
	}
	w.timer.Stop()
	c.idle.keep(w)
	c.charge(time.Since(start))
	return nil
}

// giveUp leaves the call of a worker alone, unless it came back at the last moment.
func (c *Calls) giveUp(w *worker, start time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if w.back {
		return false
	}
	c.left -= time.Since(start)
	c.slow++
	w.givenUp = true
	return true
}

// comeBack notes that the call of a worker has come back, and reports whether its
// caller waits for that.
func (c *Calls) comeBack(w *worker) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if w.givenUp {
		c.slow--
		return false
	}
	w.back = true
	return true
}

// mayBegin reports whether one more call may be made.
func (c *Calls) mayBegin(now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left = min(waits*c.wait, c.left+now.Sub(c.filled)/share)
	c.filled = now
	return c.slow < maxSlow && c.left > 0
}

// charge counts what a call took.
func (c *Calls) charge(took time.Duration) {
	if took < free {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left -= took
}
