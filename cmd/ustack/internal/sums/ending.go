//go:build !device && (amd64 || arm64)

package sums

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"ustack/cmd/ustack/internal/signals"
)

// patience is how long to wait for the command to end: Ctrl-C is for it, too.
const patience = time.Second

// over reports whether there is a reason to end.
func (s *session) over() bool {
	select {
	case <-s.stop:
		return true
	default:
	}
	if !s.end.IsZero() && s.clock.now().After(s.end) {
		return true
	}
	if s.child != nil {
		return s.childEnded(0)
	}
	return len(s.opt.PIDs) > 0 && !s.anyLeft()
}

// take has the reader look at once for the first signal, and ends the program with the second one: the
// kernel removes the programs then.
func (s *session) take() {
	select {
	case <-s.signals:
		close(s.stop)
		_ = s.source.Wake() // else it looks later
	case <-s.quit:
		return
	}
	select {
	case sig := <-s.signals:
		s.opt.Exit(signals.Base + int(sig.(syscall.Signal)))
	case <-s.quit:
	}
}

// anyLeft reports whether one of the processes that were named, or of their children then, has
// not ended. The ones that have are no longer looked at: their number can be another's.
func (s *session) anyLeft() bool {
	left := s.alive[:0]
	for _, p := range s.alive {
		if !p.ended() {
			left = append(left, p)
			continue
		}
		_ = unix.Close(p.fd)
		if err := s.source.Remove(p.pid); err != nil {
			s.say("%v", err)
		}
	}
	s.alive = left
	return len(left) > 0
}

// childEnded reports whether the command has ended, or does so within a time.
func (s *session) childEnded(within time.Duration) bool {
	select {
	case <-s.child.Done():
		return true
	case <-time.After(within):
		return false
	}
}
