package perf

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// Poll waits until one of the descriptors is readable, at most for d. It may be
// called by another goroutine than the one that reads the rings. A CPU that went
// offline makes it return at once, until its ring is closed.
func Poll(fds []int, d time.Duration) error {
	list := make([]unix.PollFd, len(fds))
	for i, fd := range fds {
		list[i] = unix.PollFd{Fd: int32(fd), Events: unix.POLLIN}
	}
	if _, err := unix.Poll(list, int(d/time.Millisecond)); err != nil && err != unix.EINTR {
		return fmt.Errorf("waiting for perf records: %w", err)
	}
	return nil
}
