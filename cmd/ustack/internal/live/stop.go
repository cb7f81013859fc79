package live

import (
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"ustack/cmd/ustack/internal/signals"
)

// stopper ends a session: when a signal comes, the time is over, or the traced
// processes have ended. The first reason stops the tracing, so that the rest of
// the buffer comes out; a second signal takes the instance down at once.
type stopper struct {
	s       *session
	signals chan os.Signal
	quit    chan struct{}
	once    sync.Once
	armed   sync.Once

	reason   chan struct{} // closed when there is nothing more to trace
	finished sync.Once

	typed atomic.Bool // SIGINT has come
}

// newStopper begins to listen.
func newStopper(s *session) *stopper {
	st := &stopper{s: s, signals: make(chan os.Signal, 4), quit: make(chan struct{}), reason: make(chan struct{})}
	signal.Notify(st.signals, append(signals.Hangup(), syscall.SIGINT, syscall.SIGTERM)...)
	return st
}

// patience returns how long to wait for the command to end: Ctrl-C is for it
// too.
func (st *stopper) patience() time.Duration {
	if st.typed.Load() {
		return time.Second
	}
	return 0
}

// end stops listening.
func (st *stopper) end() {
	st.once.Do(func() {
		signal.Stop(st.signals)
		close(st.quit)
	})
}

// arm waits for the reasons to stop, once tracing is on.
func (st *stopper) arm() {
	st.armed.Do(func() { go st.wait() })
}

func (st *stopper) wait() {
	whole := false
	defer st.unless(&whole)
	st.watch()
	reason := st.reason
	stopped, signalled := false, false
	for {
		select {
		case sig := <-st.signals:
			st.typed.CompareAndSwap(false, sig == syscall.SIGINT)
			if signalled {
				st.s.close()
				st.s.opt.Exit(signals.Base + int(sig.(syscall.Signal)))
			}
			signalled = true // the end of the command, by the same Ctrl-C, may have come first
		case <-reason:
			reason = nil
		case <-st.quit:
			whole = true
			return
		}
		if !stopped {
			stopped = true
			if err := st.s.stopTracing(); err != nil {
				st.s.opt.Reporter.complain(err)
				st.s.close() // the reader ends with an error then
			}
		}
	}
}

// finish stops the tracing as the first signal does.
func (st *stopper) finish() { st.finished.Do(func() { close(st.reason) }) }

// watch waits until the time is over or the traced processes have ended.
func (st *stopper) watch() {
	if d := st.s.opt.Duration; d > 0 {
		time.AfterFunc(d, st.finish)
	}
	if c := st.s.child; c != nil {
		go func() {
			<-c.done
			st.finish()
		}()
	}
	if len(st.s.opt.PIDs) > 0 {
		go func() {
			waitForAll(st.s.opt.PIDs)
			st.finish()
		}()
	}
}

// waitForAll waits until all processes have ended.
func waitForAll(pids []int) {
	for _, pid := range pids {
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			waitSlowly(pid) // Linux 5.2 and before
			continue
		}
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		for {
			if _, err := unix.Poll(fds, -1); err != unix.EINTR {
				break
			}
		}
		_ = unix.Close(fd)
	}
}

func waitSlowly(pid int) {
	const pause = 100 * time.Millisecond
	for unix.Kill(pid, 0) != unix.ESRCH {
		time.Sleep(pause)
	}
}

// unless takes the instance down if a step did not end: a bug of ours is about
// to take us down.
func (st *stopper) unless(whole *bool) {
	if !*whole {
		_ = remove(st.s.tracer, st.s.beside.instance()) // a bug is reported
	}
}
