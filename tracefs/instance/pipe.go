package instance

import (
	"fmt"
	"io"
	"os"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Start switches tracing on.
func (i *Instance) Start() error {
	i.run.Lock()
	defer i.run.Unlock()
	if err := i.write("tracing_on", "1"); err != nil {
		return fmt.Errorf("starting to trace: %w", err)
	}
	i.state = started
	for r := range i.readers {
		r.ended.Store(false)
	}
	return nil
}

// Stop switches tracing off. Pipes give the rest of the buffer and then end.
func (i *Instance) Stop() error {
	i.run.Lock()
	defer i.run.Unlock()
	if err := i.write("tracing_on", "0"); err != nil {
		return fmt.Errorf("stopping to trace: %w", err)
	}
	i.state = stopped
	for r := range i.readers {
		r.ended.Store(true)
		r.kick()
	}
	return nil
}

// Pipe is an open trace_pipe: the records of all CPUs in the order of time, as
// text. Reading takes them out of the buffer. While it is open the kernel
// refuses to remove the instance.
//
// The end: after Stop, Read gives the rest of the buffer and then io.EOF. (The
// kernel itself ends a blocking read so, a non-blocking one never.) Another process
// that writes to tracing_on does not end it.
type Pipe struct {
	reading
	name string
	fd   int
}

// Pipe opens trace_pipe. Only one should be open: another one misses the
// records that it reads.
func (i *Instance) Pipe() (*Pipe, error) {
	p := &Pipe{name: i.dir.path("trace_pipe")}
	if err := p.reading.begin(i, p.open); err != nil {
		return nil, fmt.Errorf("opening %s: %w", p.name, err)
	}
	return p, nil
}

func (p *Pipe) open() (err error) {
	p.fd, err = p.add(p.name)
	return err
}

// Name returns the path of the pipe.
func (p *Pipe) Name() string { return p.name }

// kernelRead is how much room a read should have: the kernel gives whole
// records, at most this much at once (include/linux/trace_seq.h).
const kernelRead = 8 << 10

// maxRead bounds what Read collects, so that records do not wait while others
// come.
const maxRead = 64 << 10

// Read implements io.Reader. It waits for the first record, and takes as many
// more as are there and fit. It returns os.ErrClosed when the pipe is closed,
// also while it waits.
func (p *Pipe) Read(b []byte) (int, error) {
	p.using.Lock()
	defer p.using.Unlock()
	for n := 0; ; {
		if p.closed.Load() {
			return n, p.fail(os.ErrClosed)
		}
		ended := p.ended.Load() // before it is found empty
		m, err := p.read(b[n:])
		switch {
		case err == unix.EINTR:
		case m > 0:
			n += m
			if len(b)-n < kernelRead || n >= maxRead {
				return n, nil
			}
		case n > 0:
			return n, nil // an error comes again
		case err == unix.EAGAIN && ended:
			return 0, io.EOF
		case len(b) == 0:
			return 0, nil
		case err == nil && ended:
			return 0, io.EOF
		case err == nil || err == unix.EAGAIN: // another reader may have emptied the buffer
			if hungUp, err := p.poll(-1); err != nil || hungUp {
				return 0, p.end(err)
			}
		default:
			return 0, p.fail(err)
		}
	}
}

// read reads the text that is there. The kernel makes it then, which takes it
// more time than the scheduler of Go grants a system call: it would start
// another thread for each. But it never waits, so the scheduler need not know.
func (p *Pipe) read(b []byte) (int, error) {
	if len(b) == 0 {
		return unix.Read(p.fd, b)
	}
	n, _, e := unix.RawSyscall(unix.SYS_READ, uintptr(p.fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)))
	if e != 0 {
		return -1, e
	}
	return int(n), nil
}

func (p *Pipe) end(err error) error {
	if err == nil {
		return io.EOF
	}
	return p.fail(err)
}

func (p *Pipe) fail(err error) error { return fmt.Errorf("reading %s: %w", p.name, err) }

// Wait waits until Read would return something, at most for so long, and
// reports whether it would.
func (p *Pipe) Wait(d time.Duration) (bool, error) {
	p.using.Lock()
	defer p.using.Unlock()
	if p.closed.Load() || p.ended.Load() {
		return true, nil
	}
	fds := p.pollFds()
	if _, err := pollFor(fds[:], max(d, 0)); err != nil {
		return false, p.fail(err)
	}
	p.calm(fds[1])
	return fds[0].Revents != 0 || p.closed.Load() || p.ended.Load(), nil
}

func (p *Pipe) pollFds() [2]unix.PollFd {
	return [2]unix.PollFd{{Fd: int32(p.fd), Events: unix.POLLIN}, {Fd: int32(p.wake), Events: unix.POLLIN}}
}

// poll waits for something to read, or a kick. hungUp: there was a writer, and
// it wrote nothing.
func (p *Pipe) poll(ms int) (hungUp bool, err error) {
	fds := p.pollFds()
	_, err = unix.Poll(fds[:], ms)
	if err == unix.EINTR {
		return false, nil
	}
	p.calm(fds[1])
	return fds[0].Revents&(unix.POLLHUP|unix.POLLIN) == unix.POLLHUP, err
}
