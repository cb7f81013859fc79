package instance

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// reading is the common part of all readers of an instance: the open files, and
// a way to end it from outside, also while it waits.
type reading struct {
	in   *Instance
	fds  []int
	wake int // eventfd: look at closed and ended again

	using  sync.Mutex // held while fds are in use
	closed atomic.Bool
	ended  atomic.Bool // tracing was stopped: when nothing is left, that is the end
	once   sync.Once
	done   func() // before the files are closed, nil for nothing
	err    error  // of Close
}

// begin opens the files, and lets the instance know.
func (r *reading) begin(i *Instance, open func() error) error {
	i.run.Lock()
	defer i.run.Unlock()
	i.mu.RLock()
	defer i.mu.RUnlock()
	if i.removed {
		return ErrRemoved
	}
	r.in = i
	var err error
	if r.wake, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return fmt.Errorf("making an eventfd: %w", err)
	}
	r.fds = append(r.fds, r.wake)
	if err := open(); err != nil {
		return errors.Join(err, r.release())
	}
	r.ended.Store(i.state == stopped)
	i.readers[r] = struct{}{}
	return nil
}

// add opens a file, which is closed with the others.
func (r *reading) add(name string) (int, error) {
	defer dir(name).raise(".").Lower()
	for {
		fd, err := unix.Open(name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		if err == unix.EINTR {
			continue
		}
		if err == nil {
			r.fds = append(r.fds, fd)
		}
		return fd, err
	}
}

// closeReaders ends all reading.
func (i *Instance) closeReaders() {
	i.run.Lock()
	var open []*reading
	for r := range i.readers {
		open = append(open, r)
	}
	i.run.Unlock()
	for _, r := range open {
		_ = r.Close() // of reading; there is nothing to lose
	}
}

// kick makes a reader look at closed and ended.
func (r *reading) kick() {
	one := [8]byte{1}
	_, _ = unix.Write(r.wake, one[:]) // EAGAIN: it has been kicked often enough
}

// calm takes kicks back. They carry no other information.
func (r *reading) calm(wake unix.PollFd) {
	if wake.Revents&unix.POLLIN != 0 {
		var count [8]byte
		_, _ = unix.Read(r.wake, count[:])
	}
}

// Close ends reading, at once, and closes the files. It may be called by any
// goroutine and again.
func (r *reading) Close() error {
	r.once.Do(func() {
		r.closed.Store(true)
		r.kick()
		r.using.Lock()
		defer r.using.Unlock()
		r.in.run.Lock() // Stop kicks the readers it finds: none that is closed
		defer r.in.run.Unlock()
		delete(r.in.readers, r)
		r.err = r.release()
	})
	return r.err
}

// release closes the descriptors.
func (r *reading) release() error {
	if r.done != nil {
		r.done()
	}
	var errs []error
	for _, fd := range r.fds {
		if err := unix.Close(fd); err != nil {
			errs = append(errs, os.NewSyscallError("close", err))
		}
	}
	r.fds = nil
	return errors.Join(errs...)
}
