package openfile

import (
	"math"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Begin is a time before all paths of a live trace were read from the kernel, by which CheckOwner
// sees whether a file has changed since. It is by the wall clock, as the times of files are: once
// that was set, it shows nothing any more. Nil shows nothing.
type Begin struct {
	at time.Time
	// clock can be read from once the wall clock was set, and stays so (timerfd_poll in
	// fs/timerfd.c). A sleep of the machine counts for that.
	clock *os.File
	files mappedFiles
}

// BeginAt returns the Begin of a time by the wall clock, nil if that cannot be watched.
func BeginAt(t time.Time) *Begin {
	fd, err := unix.TimerfdCreate(unix.CLOCK_REALTIME, unix.TFD_CLOEXEC)
	if err != nil {
		return nil
	}
	b := &Begin{at: t, clock: os.NewFile(uintptr(fd), "clock")} // is closed once it is unused
	never := unix.ItimerSpec{Value: unix.Timespec{Sec: math.MaxInt32 << 2}}
	if unix.TimerfdSettime(fd, unix.TFD_TIMER_ABSTIME|unix.TFD_TIMER_CANCEL_ON_SET, &never, nil) != nil {
		_ = b.clock.Close()
		return nil
	}
	b.files.begin()
	return b
}

// Shows reports whether a file that was last changed at a time, by its file system, surely was not
// changed since the Begin.
func (b *Begin) Shows(changed time.Time) bool {
	return b != nil && ChangedBefore(changed, b.at) && !has(b.clock, unix.POLLIN)
}

// has reports whether there are events at a file that poll(2) waits for, true if unknown.
func has(f *os.File, events int16) bool {
	c, err := f.SyscallConn()
	if err != nil {
		return true
	}
	var n int
	gone := c.Control(func(fd uintptr) {
		for n, err = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: events}}, 0); err == unix.EINTR; {
			n, err = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: events}}, 0)
		}
	})
	return gone != nil || err != nil || n != 0
}
