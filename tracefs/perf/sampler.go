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
	s := &Sampler{opt: opt, clock: clock, points: make(map[uint64]uint64)}
	s.event = Event{Clock: clock, ID: true, CountLost: true, Registers: true, Inherit: opt.Threads != nil, Disabled: true,
		StackBytes: opt.StackBytes, CallChain: opt.CallChain}
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
	var opened []int
	for _, tp := range s.opt.Tracepoints {
		for _, at := range s.places(cpu) {
			fd, err := s.open(&ring, tp, at)
			if errors.Is(err, unix.ESRCH) {
				continue // the thread has ended
			}
			if err == nil {
				opened = append(opened, fd)
				err = s.number(fd, tp)
			}
			if err != nil {
				if ring != nil {
					_ = ring.Close()
				}
				return fmt.Errorf("CPU %d: %w", cpu, err)
			}
		}
	}
	if ring == nil {
		return ErrNoThreads
	}
	ring.Begin(Now(s.clock))
	for _, fd := range opened {
		if err := Enable(fd); err != nil {
			return errors.Join(fmt.Errorf("CPU %d: switching an event on: %w", cpu, err), ring.Close())
		}
	}
	s.rings = append(s.rings, ring)
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
func (s *Sampler) open(ring **Ring, tp Tracepoint, at Place) (fd int, err error) {
	e := s.event
	e.Tracepoint, e.Filter = tp.ID, tp.Filter
	if *ring != nil {
		e.Wakeup = (*ring).Size() / wakeups
		if fd, err = s.openEvent(e, at.Into(*ring)); err == nil {
			(*ring).Add(fd)
		}
		return fd, err
	}
	*ring, err = OpenRing(at.cpu, s.opt.RingSize, func(size int) (int, error) {
		e.Wakeup = size / wakeups
		return s.openEvent(e, at)
	})
	if err != nil {
		return -1, err
	}
	return (*ring).fd, nil
}

// wakeups is the part of a ring that makes it readable: the rest is room for the
// time until we read it.
const wakeups = 4

// openEvent opens an event with as many of its features as the kernel has.
func (s *Sampler) openEvent(e Event, at Place) (fd int, err error) {
	e.CountLost, e.CallChain = s.event.CountLost, s.event.CallChain
	for {
		fd, err = e.Open(at)
		switch {
		case errors.Is(err, unix.EOVERFLOW) && e.CallChain > 1:
			e.CallChain /= 2 // more than kernel.perf_event_max_stack
		case errors.Is(err, unix.EINVAL) && e.CountLost && !errors.Is(err, ErrFilter):
			e.CountLost = false // before Linux 6.0
		case err != nil:
			return -1, Refusal(err)
		default:
			s.event.CountLost, s.event.CallChain = e.CountLost, e.CallChain
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

// Now returns the time by the clock of the samples.
func (s *Sampler) Now() tracefs.Time { return Now(s.clock) }

// Counts returns the counts so far.
func (s *Sampler) Counts() SampleCounts { return s.count }

// Read passes the samples from before the call to take and the times without samples
// to lost, all in order of time. A sample is valid until take returns; it lies in the
// memory that the kernel writes to, whose room take should give back soon. Read
// returns the time up to which all samples have been passed.
func (s *Sampler) Read(take func(*StackSample), lost func(Loss)) tracefs.Time {
	until := s.Now()
	loss := func(l Loss) {
		s.count.Lost += l.Records
		lost(l)
	}
	for _, l := range s.later {
		loss(l)
	}
	s.later = s.later[:0]
	e := &s.event
	err := s.merge.Read(slices.Concat(s.rings, s.retired), until, func(t tracefs.Time, b []byte) {
		if recordType(b) != unix.PERF_RECORD_SAMPLE {
			return
		}
		s.count.Bytes += uint64(len(b))
		if e.DecodeStack(b, &s.sample) != nil {
			s.count.Malformed++
			return
		}
		s.sample.Tracepoint = s.points[e.Layout().number(b)]
		s.count.Samples++
		take(&s.sample)
	}, loss)
	if err != nil {
		s.count.Malformed++
	}
	s.followCPUs(until)
	return until
}

// followCPUs opens the rings of CPUs that went online, and closes the rings of CPUs
// that went offline, once they have been read after that. If threads are given, a CPU that went online samples these
// threads, and what they start from then on.
func (s *Sampler) followCPUs(t tracefs.Time) {
	for _, r := range s.retired {
		_ = r.Close() // nothing is written to it any more
	}
	s.retired = s.retired[:0]
	cpus := s.hotplug.Online(t)
	if cpus == nil {
		return
	}
	s.rings = slices.DeleteFunc(s.rings, func(r *Ring) bool {
		if !s.hotplug.Off(r.CPU, cpus) {
			return false
		}
		s.retired = append(s.retired, r)
		return true
	})
	s.hotplug.Closed()
	for _, cpu := range cpus {
		if slices.ContainsFunc(slices.Concat(s.rings, s.retired), func(r *Ring) bool { return r.CPU == cpu }) {
			continue
		}
		since, soon := s.hotplug.Came(cpu, t)
		if err := s.openCPU(cpu); err != nil && soon {
			continue // perf will have it in a moment
		}
		s.hotplug.Opened(cpu)
		s.later = append(s.later, Loss{CPU: cpu, From: since, To: s.Now()})
	}
	s.hotplug.Done(t)
}

// Close closes all events.
func (s *Sampler) Close() error {
	var err error
	for _, r := range slices.Concat(s.rings, s.retired) {
		err = errors.Join(err, r.Close())
	}
	s.rings, s.retired = nil, nil
	return err
}
