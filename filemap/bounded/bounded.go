// Package bounded makes calls that can stay in the kernel for as long as another
// party likes. A file of a file system in user space (FUSE), or of a server that
// does not answer, does that to whoever opens, reads or only looks at it. Any
// user can mount one in a user namespace of their own and map its files.
package bounded

import (
	"errors"
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
	return &Calls{wait: wait, left: waits * wait, filled: time.Now()}
}

// Do calls fn in a goroutine of its own and waits for it. After an error fn may
// still run, or run later: it must use no memory that the caller uses again.
func (c *Calls) Do(fn func()) error {
	start := time.Now()
	if !c.mayBegin(start) {
		return ErrRefused
	}
	done, given := make(chan struct{}), false // given up: under c.mu
	go func() {
		fn()
		c.mu.Lock()
		defer c.mu.Unlock()
		if given {
			c.slow--
		}
		close(done)
	}()
	timer := time.NewTimer(c.wait)
	defer timer.Stop()
	select {
	case <-done:
		c.charge(time.Since(start))
		return nil
	case <-timer.C:
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left -= time.Since(start)
	select {
	case <-done:
		return nil
	default:
	}
	given = true
	c.slow++
	return ErrSlow
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
