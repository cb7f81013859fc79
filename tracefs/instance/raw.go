package instance

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// RawPipe is the trace_pipe_raw files of all CPUs: the sub-buffers of the ring
// buffer as they are, mapped where the kernel can do that, else read. Reading takes
// them out of the buffer, so there should be no Pipe. While it is open the kernel
// refuses to remove the instance.
type RawPipe struct {
	reading
	name   string
	subbuf int
	cpus   []rawCPU
	poll   []unix.PollFd // all CPUs and the wakeup
}

// rawCPU is the file of one CPU.
type rawCPU struct {
	cpu    int32
	fd     int
	mapped *mappedCPU // nil if it is read
	page   []byte     // that was read
}

// RawOptions configure a RawPipe.
type RawOptions struct {
	// Subbuf is the size of a sub-buffer in bytes.
	Subbuf int
	// Copy has the kernel copy them, also where they could be mapped.
	Copy bool
}

// RawPipe opens trace_pipe_raw of all possible CPUs, also of CPUs that are offline.
func (i *Instance) RawPipe(opt RawOptions) (*RawPipe, error) {
	p := &RawPipe{name: i.dir.path("per_cpu"), subbuf: opt.Subbuf}
	// A wait is for a record, not for a part of the buffer that is full (Linux 5.0).
	if i.dir.has("buffer_percent") {
		if err := i.write("buffer_percent", "0"); err != nil {
			return nil, fmt.Errorf("setting up the reading of raw pages: %w", err)
		}
	}
	if err := p.reading.begin(i, func() error { return p.open(opt.Copy) }); err != nil {
		return nil, fmt.Errorf("opening trace_pipe_raw of the CPUs: %w", err)
	}
	return p, nil
}

func (p *RawPipe) open(copied bool) error {
	p.done = p.unmap
	cpus, err := perCPU(p.in.dir)
	if err != nil {
		return err
	}
	for _, cpu := range cpus {
		fd, err := p.add(p.fileOf(cpu))
		if err != nil {
			return fmt.Errorf("opening %s: %w", p.fileOf(cpu), err)
		}
		c := rawCPU{cpu: int32(cpu), fd: fd}
		if !copied {
			c.mapped, _ = mapCPU(fd) // an old kernel, a CPU that is off: it is read
		}
		if c.mapped != nil && c.mapped.subbuf != p.subbuf {
			c.mapped.unmap()
			return fmt.Errorf("CPU %d has sub-buffers of %d bytes in place of %d", cpu, c.mapped.subbuf, p.subbuf)
		}
		p.cpus = append(p.cpus, c)
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
	names, err := d.list("per_cpu")
	if err != nil {
		return nil, err
	}
	var cpus []int
	for _, name := range names {
		digits, ok := strings.CutPrefix(name, "cpu")
		if cpu, err := strconv.Atoi(digits); ok && err == nil {
			cpus = append(cpus, cpu)
		}
	}
	slices.Sort(cpus)
	return cpus, nil
}

// Name returns the directory of the files.
func (p *RawPipe) Name() string { return p.name }

// CPUs returns the numbers of the CPUs, in order.
func (p *RawPipe) CPUs() []int32 {
	out := make([]int32, len(p.cpus))
	for i := range p.cpus {
		out[i] = p.cpus[i].cpu
	}
	return out
}

// FDs returns the files of the CPUs that have a buffer, to be polled without the lock that
// Wait holds meanwhile; none if the pipe is closed.
func (p *RawPipe) FDs() (fds []int) {
	p.using.Lock()
	defer p.using.Unlock()
	if p.closed.Load() {
		return nil
	}
	for _, f := range p.poll[:len(p.cpus)] {
		if f.Fd >= 0 {
			fds = append(fds, int(f.Fd))
		}
	}
	return fds
}

// unmap gives the memory back.
func (p *RawPipe) unmap() {
	for i := range p.cpus {
		if m := p.cpus[i].mapped; m != nil {
			m.unmap()
		}
	}
}

// Overrun returns how many records of a CPU had been written over at its last
// Next; ok is false where that is not known, because the buffer is not mapped.
func (p *RawPipe) Overrun(index int) (n uint64, ok bool) {
	m := p.cpus[index].mapped
	if m == nil {
		return 0, false
	}
	return m.overrun(), true
}

// Filled returns how many bytes of records are in the buffer of a CPU. It needs no Hold.
func (p *RawPipe) Filled(cpu int32) (uint64, error) {
	text, err := dir(p.name).read("cpu" + strconv.Itoa(int(cpu)) + "/stats")
	if err != nil {
		return 0, fmt.Errorf("reading the statistics of CPU %d: %w", cpu, err)
	}
	s, err := parseStats(text)
	if err != nil {
		return 0, fmt.Errorf("reading the statistics of CPU %d: %w", cpu, err)
	}
	return s.Bytes, nil
}

// Mapped returns how many CPUs have a mapped buffer.
func (p *RawPipe) Mapped() (n int) {
	for i := range p.cpus {
		if p.cpus[i].mapped != nil {
			n++
		}
	}
	return n
}

// Hold keeps the pipe open until Release, for Next and for the pages that it
// gives. It reports false if the pipe is closed.
func (p *RawPipe) Hold() bool {
	p.using.Lock()
	if p.closed.Load() {
		p.using.Unlock()
		return false
	}
	return true
}

// Release is the end of Hold.
func (p *RawPipe) Release() { p.using.Unlock() }

// Next takes the last data of the CPU with this index in CPUs as read, and returns
// the sub-buffer with the next data. It never waits. fresh means that it is another
// sub-buffer, or another part of one; without it, it is the one that was there
// before, which may have grown. nil is for nothing.
func (p *RawPipe) Next(index int) (page []byte, fresh bool, err error) {
	c := &p.cpus[index]
	if c.mapped != nil {
		if page, fresh, err = c.mapped.next(c.fd); err != nil {
			err = p.fail(index, err)
		}
		return page, fresh, err
	}
	if c.page == nil {
		c.page = make([]byte, p.subbuf)
	}
	for {
		// As in Pipe.read, the scheduler of Go need not know.
		n, _, e := unix.RawSyscall(unix.SYS_READ, uintptr(c.fd), uintptr(unsafe.Pointer(unsafe.SliceData(c.page))), uintptr(len(c.page)))
		if e == unix.EINTR {
			continue
		}
		if e != 0 {
			return nil, false, p.refused(index, e)
		}
		p.off(index, false)
		return c.page[:n], n > 0, nil
	}
}

// refused interprets the error of reading a CPU. One that was offline when the
// instance was made has no buffer (ring_buffer_alloc_read_page).
func (p *RawPipe) refused(index int, e unix.Errno) error {
	p.off(index, e == unix.ENODEV)
	if e == unix.ENODEV || e == unix.EAGAIN {
		return nil
	}
	return p.fail(index, e)
}

// off notes whether a CPU has no buffer: poll reports it as ready at once, so it
// is not polled (a negative number is left out).
func (p *RawPipe) off(index int, off bool) {
	fd := int32(p.cpus[index].fd)
	if off {
		fd = -1
	}
	p.poll[index].Fd = fd
}

// allOn reports whether all CPUs have a buffer.
func (p *RawPipe) allOn() bool {
	return !slices.ContainsFunc(p.poll, func(f unix.PollFd) bool { return f.Fd < 0 })
}

// lookAgain is how often a CPU that is offline is looked for.
const lookAgain = time.Second

func (p *RawPipe) fail(index int, err error) error {
	return fmt.Errorf("reading %s: %w", p.fileOf(int(p.cpus[index].cpu)), err)
}

// Ended reports whether tracing was stopped: no more records come than Next
// gives from then on.
func (p *RawPipe) Ended() bool { return p.ended.Load() }

// Wait waits until there is something to read on some CPU, at most for so long,
// and reports whether there is. If d is negative, it waits for ever, or a second if
// a CPU is offline that could come online. The end of tracing and Close end it,
// too.
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
	if d < 0 && !p.allOn() {
		d = lookAgain
	}
	n, err := pollFor(fds, d)
	if err != nil {
		return false, fmt.Errorf("waiting for %s: %w", p.name, err)
	}
	p.calm(fds[len(fds)-1])
	return n > 0, nil
}

// pollFor is poll(2) for so long, for ever if d is negative. A signal, as Go's
// scheduler sends itself, does not end it.
func pollFor(fds []unix.PollFd, d time.Duration) (int, error) {
	begun := time.Now()
	for {
		var limit *unix.Timespec
		if d >= 0 {
			ts := unix.NsecToTimespec(int64(max(d-time.Since(begun), 0)))
			limit = &ts
		}
		if n, err := unix.Ppoll(fds, limit, nil); err != unix.EINTR {
			return n, err
		}
	}
}
