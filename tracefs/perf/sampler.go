package perf

import (
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"ustack/tracefs"
	"ustack/tracefs/privilege"
)

// Tracepoint is a tracepoint to sample.
type Tracepoint struct {
	ID     uint64 // its file id
	Filter string // empty for none, see Event.Filter
	// User: its hits have the registers of user space, as those of the tracepoints of
	// system calls have, so that Event.UserOnly does not leave them out.
	User bool
}

// SamplerOptions are what OpenSampler opens.
type SamplerOptions struct {
	Tracepoints []Tracepoint
	// Threads are those to sample, and what they start; nil is for all threads
	// of the machine.
	Threads []int
	// StackBytes is how much of the stack to copy, up to MaxStack; it is rounded up
	// to a multiple of 8. 0 is for none.
	StackBytes int
	// CallChain is how many frames the kernel unwinds by frame pointers, 0 for
	// none. It is as many as the sysctl kernel.perf_event_max_stack allows, if that
	// is less.
	CallChain int
	// Raw adds the record of the tracepoint. Unwound leaves the registers out, of samples
	// that have a CallChain.
	Raw, Unwound bool
	// Deferred has call chains come later where the kernel can do that, see
	// Event.DeferChain.
	Deferred bool
	// Held: nothing is sampled until Resume.
	Held bool
	// Clock is the trace clock whose times are wanted, DefaultClock if empty.
	Clock string
	// RingSize is the room for samples on each CPU, in bytes; DefaultSamplerRing
	// if 0. It is made smaller if the kernel does not grant that much memory.
	RingSize int
	// Sys is where sysfs is mounted, /sys if empty.
	Sys string
}

// DefaultSamplerRing has room for 8 ms of 50,000 copies of 8 KiB a second.
const DefaultSamplerRing = 4 << 20

// SampleCounts counts the records that a sampler has read.
type SampleCounts struct {
	Samples   uint64
	Bytes     uint64 // of the records in the rings
	Lost      uint64 // records for which there was no room, as far as is known
	Malformed uint64 // records that could not be decoded
}

// Sampler samples the user stacks of threads that hit tracepoints. It is for one
// goroutine.
type Sampler struct {
	opt     SamplerOptions
	event   Event // as it is opened, but for the tracepoint
	clock   int32
	rings   []*Ring
	retired []*Ring           // of CPUs that went offline, to be read once more
	gone    tracefs.Time      // when that was noticed
	late    map[int]bool      // descriptors of events for stacks that come later
	points  map[uint64]uint64 // tracepoints by the numbers of their events
	merge   *Merge
	hotplug Hotplug
	sample  StackSample
	count   SampleCounts
	later   []Loss // to be passed on by the next Read
}

// ErrNoThreads: all threads to sample have ended.
var ErrNoThreads = errors.New("the threads have ended")

// OpenSampler begins to sample. errors.Is(err, ErrDenied), ErrUnsupported, ErrClock
// and ErrMemory say why it cannot, ErrNoThreads that there is nothing to sample.
func OpenSampler(opt SamplerOptions) (*Sampler, error) {
	clock, err := ClockID(opt.Clock)
	if err != nil {
		return nil, fmt.Errorf("opening a sampler of stacks: %w", err)
	}
	if opt.RingSize == 0 {
		opt.RingSize = DefaultSamplerRing
	}
	if opt.Sys == "" {
		opt.Sys = "/sys"
	}
	opt.StackBytes = min((max(opt.StackBytes, 0)+7)&^7, MaxStack)
	s := &Sampler{opt: opt, clock: clock, points: make(map[uint64]uint64), late: make(map[int]bool)}
	s.event = Event{Clock: clock, ID: true, CountLost: true, Registers: !opt.Unwound, Inherit: opt.Threads != nil, Disabled: true,
		StackBytes: opt.StackBytes, CallChain: opt.CallChain, Raw: opt.Raw, DeferChain: opt.Deferred && opt.CallChain > 0}
	s.merge = newMerge(s.event.Layout())
	if err := s.openAll(); err != nil {
		return nil, errors.Join(fmt.Errorf("opening a sampler of stacks: %w", err), s.Close())
	}
	return s, nil
}

// openAll opens the events of all CPUs that are online.
func (s *Sampler) openAll() error {
	cpus, err := OnlineCPUs(s.opt.Sys)
	if err != nil {
		return err
	}
	s.hotplug = NewHotplug(s.opt.Sys, Now(s.clock))
	for _, cpu := range cpus {
		err := s.openCPU(cpu)
		if errors.Is(err, unix.ENODEV) {
			continue // it has gone off since
		}
		if err != nil {
			return err
		}
	}
	if len(s.rings) == 0 {
		return ErrUnsupported
	}
	return nil
}

// openCPU opens the events of a CPU with their ring.
func (s *Sampler) openCPU(cpu int) error {
	defer privilege.Raise(privilege.Perf).Lower()
	var ring *Ring
	opened, err := s.openEvents(&ring, s.places(cpu))
	if err == nil && ring == nil {
		return ErrNoThreads
	}
	if err == nil {
		ring.Begin(Now(s.clock))
		err = s.enable(opened)
	}
	if err != nil {
		if ring != nil {
			err = errors.Join(err, ring.Close())
		}
		return fmt.Errorf("CPU %d: %w", cpu, err)
	}
	s.rings = append(s.rings, ring)
	return nil
}

// Watch samples more threads, too, beside those of SamplerOptions.Threads. A thread that one
// of these has made since is sampled twice then, see StackSample.Root.
func (s *Sampler) Watch(tids []int) error {
	defer privilege.Raise(privilege.Perf).Lower()
	before := s.opt.Threads
	s.opt.Threads = slices.Concat(before, tids)
	for _, r := range s.rings {
		var places []Place
		for _, tid := range tids {
			places = append(places, OfThread(tid, r.CPU))
		}
		opened, err := s.openEvents(&r, places)
		if err == nil {
			err = s.enable(opened)
		}
		if err != nil {
			s.opt.Threads = before // no CPU that comes online has them either
			return fmt.Errorf("sampling more threads on CPU %d: %w", r.CPU, err)
		}
	}
	return nil
}

// openEvents opens all events in some places of a CPU, with a ring if there is none. It
// returns the descriptors of those that are to be enabled.
func (s *Sampler) openEvents(ring **Ring, places []Place) (opened []int, err error) {
	for _, at := range places {
		for _, tp := range s.opt.Tracepoints {
			e := s.event
			e.Tracepoint, e.Filter = tp.ID, tp.Filter
			fd, err := s.open(ring, e, at)
			if errors.Is(err, unix.EACCES) && tp.User && at.Thread() {
				e.UserOnly = true // kernel.perf_event_paranoid is 2
				fd, err = s.open(ring, e, at)
			}
			if errors.Is(err, unix.ESRCH) {
				break // the thread has ended
			}
			if err == nil {
				opened = append(opened, fd)
				err = s.number(fd, tp)
			}
			if err != nil {
				return nil, err
			}
		}
		if err := s.openLate(ring, at); err != nil {
			return nil, err
		}
	}
	return opened, nil
}

// openLate opens the event that has the stacks that come later, one for each place: of two
// each would have them.
func (s *Sampler) openLate(ring **Ring, at Place) error {
	if !asSource || !s.event.DeferChain || *ring == nil {
		return nil
	}
	e := Event{Clock: s.clock, ID: true, CountLost: s.event.CountLost, Inherit: s.event.Inherit, UserOnly: true, DeferOutput: true, Wakeup: (*ring).Size() / wakeups}
	fd, err := e.Open(at.Into(*ring))
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("asking for stacks that come later: %w", Refusal(err))
	}
	(*ring).Add(fd)
	s.late[fd] = true
	return nil
}

// enable switches events on, unless they are held.
func (s *Sampler) enable(fds []int) error {
	if s.opt.Held {
		return nil
	}
	for _, fd := range fds {
		if err := Enable(fd); err != nil {
			return fmt.Errorf("switching an event on: %w", err)
		}
	}
	return nil
}

// places returns where to watch on a CPU.
func (s *Sampler) places(cpu int) []Place {
	if s.opt.Threads == nil {
		return []Place{OnCPU(cpu)}
	}
	var list []Place
	for _, tid := range s.opt.Threads {
		list = append(list, OfThread(tid, cpu))
	}
	return list
}

// open opens an event with a ring, or with the ring of an event before it.
func (s *Sampler) open(ring **Ring, e Event, at Place) (fd int, err error) {
	if *ring != nil {
		e.Wakeup = (*ring).Size() / wakeups
		if fd, err = s.openEvent(e, at.Into(*ring)); err == nil {
			(*ring).Add(fd)
		}
		return fd, err
	}
	r, err := OpenRing(at.cpu, s.opt.RingSize, func(size int) (int, error) {
		e.Wakeup = size / wakeups
		return s.openEvent(e, at)
	})
	if err != nil {
		return -1, err
	}
	*ring = r
	return r.fd, nil
}

// wakeups is the part of a ring that makes it readable: the rest is room for the
// time until we read it.
const wakeups = 4

// openEvent opens an event with as many of its features as the kernel has.
func (s *Sampler) openEvent(e Event, at Place) (fd int, err error) {
	e.CountLost, e.CallChain, e.DeferChain = s.event.CountLost, s.event.CallChain, s.event.DeferChain
	for {
		fd, err = e.Open(at)
		refused := errors.Is(err, unix.EINVAL) && !errors.Is(err, ErrFilter)
		switch {
		case errors.Is(err, unix.EOVERFLOW) && e.CallChain > 1:
			e.CallChain /= 2 // more than kernel.perf_event_max_stack
		case refused && e.DeferChain:
			e.DeferChain = false // before Linux 6.19
		case refused && e.CountLost:
			e.CountLost = false // before Linux 6.0
		case err != nil:
			return -1, Refusal(err)
		default:
			s.event.CountLost, s.event.CallChain, s.event.DeferChain = e.CountLost, e.CallChain, e.DeferChain
			return fd, nil
		}
	}
}

// number notes the number of an event.
func (s *Sampler) number(fd int, tp Tracepoint) error {
	id, err := number(fd)
	if err != nil {
		return fmt.Errorf("asking for the number of an event: %w", err)
	}
	s.points[id] = tp.ID
	return nil
}

// CallChain returns how many frames of a call chain the kernel gives.
func (s *Sampler) CallChain() int { return s.event.CallChain }

// Deferred reports whether call chains come later.
func (s *Sampler) Deferred() bool { return s.event.DeferChain }

// RingSize returns the room for samples on each CPU, in bytes, that the kernel gave at
// least.
func (s *Sampler) RingSize() int {
	least := s.opt.RingSize
	for _, r := range s.rings {
		least = min(least, r.Size())
	}
	return least
}

// Sampled returns the CPUs that have a ring.
func (s *Sampler) Sampled() []int32 {
	var list []int32
	for _, r := range s.rings {
		list = append(list, int32(r.CPU))
	}
	return list
}

// Now returns the time by the clock of the samples.
func (s *Sampler) Now() tracefs.Time { return Now(s.clock) }

// Counts returns the counts so far.
func (s *Sampler) Counts() SampleCounts { return s.count }
