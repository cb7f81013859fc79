package instance

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// RawPipe is the trace_pipe_raw files of all CPUs: the sub-buffers of the ring
// buffer as they are. Reading takes them out of the buffer, so there should be
// no Pipe. While it is open the kernel refuses to remove the instance.
type RawPipe struct {
	reading
	name string
	cpus []rawCPU
	poll []unix.PollFd // all CPUs and the wake-up
}

// rawCPU is the file of one CPU.
type rawCPU struct {
	cpu int32
	fd  int
}

// RawPipe opens trace_pipe_raw of all CPUs there may be, also of those that are
// not online.
func (i *Instance) RawPipe() (*RawPipe, error) {
	p := &RawPipe{name: i.dir.path("per_cpu")}
	// A wait is for a record, not for a part of the buffer that is full (Linux 5.0).
	if i.dir.has("buffer_percent") {
		if err := i.write("buffer_percent", "0"); err != nil {
			return nil, fmt.Errorf("setting up the reading of raw pages: %w", err)
		}
	}
	if err := p.reading.begin(i, p.open); err != nil {
		return nil, fmt.Errorf("opening trace_pipe_raw of the CPUs: %w", err)
	}
	return p, nil
}

func (p *RawPipe) open() error {
	cpus, err := perCPU(p.in.dir)
	if err != nil {
		return err
	}
	for _, cpu := range cpus {
		fd, err := p.add(p.fileOf(cpu))
		if err != nil {
			return fmt.Errorf("opening %s: %w", p.fileOf(cpu), err)
		}
		p.cpus = append(p.cpus, rawCPU{int32(cpu), fd})
		p.poll = append(p.poll, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
	}
	p.poll = append(p.poll, unix.PollFd{Fd: int32(p.wake), Events: unix.POLLIN})
	return nil
}

func (p *RawPipe) fileOf(cpu int) string {
	return dir(p.name).path("cpu" + strconv.Itoa(cpu) + "/trace_pipe_raw")
}

// perCPU lists the CPUs that an instance has buffers of, in order.
func perCPU(d dir) ([]int, error) {
	entries, err := os.ReadDir(d.path("per_cpu"))
	if err != nil {
		return nil, err
	}
	var cpus []int
	for _, e := range entries {
		digits, ok := strings.CutPrefix(e.Name(), "cpu")
		if cpu, err := strconv.Atoi(digits); ok && err == nil {
			cpus = append(cpus, cpu)
		}
	}
	slices.Sort(cpus)
	return cpus, nil
}

// Name returns the folder with the files.
func (p *RawPipe) Name() string { return p.name }

// CPUs are the numbers of the CPUs, in order.
func (p *RawPipe) CPUs() []int32 {
	out := make([]int32, len(p.cpus))
	for i := range p.cpus {
		out[i] = p.cpus[i].cpu
	}
	return out
}

// Read takes the next sub-buffer of the CPU with this index in CPUs, of which
// page must have the size. What is being written is taken up to where it is. It
// never waits: 0 is for nothing there now. It returns os.ErrClosed once the pipe
// is closed.
func (p *RawPipe) Read(index int, page []byte) (int, error) {
	p.using.Lock()
	defer p.using.Unlock()
	if p.closed.Load() {
		return 0, p.fail(index, os.ErrClosed)
	}
	for {
		// As in Pipe.read, the scheduler of Go need not know.
		n, _, e := unix.RawSyscall(unix.SYS_READ, uintptr(p.cpus[index].fd),
			uintptr(unsafe.Pointer(unsafe.SliceData(page))), uintptr(len(page)))
		switch e {
		case 0:
			return int(n), nil
		case unix.EINTR:
		case unix.EAGAIN:
			return 0, nil
		default:
			return 0, p.fail(index, e)
		}
	}
}

func (p *RawPipe) fail(index int, err error) error {
	return fmt.Errorf("reading %s: %w", p.fileOf(int(p.cpus[index].cpu)), err)
}

// Ended reports whether tracing was stopped: what Read gives from then on is all
// there is.
func (p *RawPipe) Ended() bool { return p.ended.Load() }

// Wait waits until there is something to read on some CPU, at most for so long
// (for ever if that is negative), and reports whether there is. The end of
// tracing and Close end it, too.
func (p *RawPipe) Wait(d time.Duration) (bool, error) {
	if p.ended.Load() { // Rest may have taken the kick
		return true, nil
	}
	ready, err := p.wait(p.poll, d)
	return ready || p.ended.Load(), err
}

// Rest waits for so long, whatever comes meanwhile, but for the end of tracing
// and Close.
func (p *RawPipe) Rest(d time.Duration) error {
	_, err := p.wait(p.poll[len(p.cpus):], d)
	return err
}

func (p *RawPipe) wait(fds []unix.PollFd, d time.Duration) (bool, error) {
	p.using.Lock()
	defer p.using.Unlock()
	if p.closed.Load() {
		return true, nil
	}
	var limit *unix.Timespec
	if d >= 0 {
		ts := unix.NsecToTimespec(int64(d))
		limit = &ts
	}
	n, err := unix.Ppoll(fds, limit, nil)
	if err == unix.EINTR {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("waiting for %s: %w", p.name, err)
	}
	p.calm(fds[len(fds)-1])
	return n > 0, nil
}
