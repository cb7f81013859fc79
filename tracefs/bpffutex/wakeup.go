//go:build !device && (amd64 || arm64)

package bpffutex

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// wakeup waits until a time, or until the kernel wakes the reader of a ring buffer, or now does. The runtime
// waits with all else that it waits for: while a thread is in a system call that blocks, as in
// epoll_wait of package ringbuf, the runtime looks at it up to 50,000 times a second, which took
// more than a quarter of the CPU time of this source.
type wakeup struct {
	file *os.File
	conn syscall.RawConn
	last time.Time   // when the reader was woken
	over atomic.Bool // the time has come early: see now
}

// newWakeup returns a wakeup for the map with a file descriptor.
func newWakeup(fd int) (*wakeup, error) {
	own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("duplicating a file descriptor: %w", err)
	}
	if err := unix.SetNonblock(own, true); err != nil { // else the runtime does not poll it
		_ = unix.Close(own)
		return nil, fmt.Errorf("setting O_NONBLOCK: %w", err)
	}
	w := &wakeup{file: os.NewFile(uintptr(own), "ring buffer")}
	if w.conn, err = w.file.SyscallConn(); err != nil {
		return nil, errors.Join(err, w.close())
	}
	return w, nil
}

// soonest is how soon the reader is woken again: each new futex wakes it, and a program can have any
// number of them.
const soonest = 10 * time.Millisecond

// now has wait return, this time or next time, as if its time had come.
func (w *wakeup) now() error {
	w.over.Store(true)
	return w.file.SetReadDeadline(time.Unix(1, 0))
}

// wait returns at a time, which has come then, or when the kernel has woken the reader. It does not
// wait if there is something to read: what came after the last look may have been the reason to wake
// it.
func (w *wakeup) wait(until time.Time, pending func() bool) (come bool, err error) {
	if err := w.file.SetReadDeadline(until); err != nil {
		return false, err
	}
	if w.over.Swap(false) {
		return true, nil
	}
	waited := false
	err = w.conn.Read(func(uintptr) bool {
		done := waited || pending()
		waited = true
		return done
	})
	if errors.Is(err, os.ErrDeadlineExceeded) {
		w.over.Store(false)
		return true, nil
	}
	if now := time.Now(); now.Sub(w.last) < soonest {
		time.Sleep(min(soonest-now.Sub(w.last), until.Sub(now)))
	}
	w.last = time.Now()
	return false, err
}

func (w *wakeup) close() error { return w.file.Close() }
