//go:build !device

package perfring

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"

	"ustack/tracefs/instance"
	"ustack/tracefs/perf"
	"ustack/tracefs/perftrace"
)

// Options are what a Recorder records.
type Options struct {
	// Root has the numbers and the formats of the Events. Nothing is written there.
	Root   *instance.Root
	Events []instance.Event
	// BufferKB is the room on each CPU, of which the kernel may grant less.
	BufferKB int
	// Clock is the trace clock.
	Clock string
	// Release is the kernel's.
	Release string
}

// frames is how many frames of a stack are asked for: as many as the kernel gives by default
// (the sysctl kernel.perf_event_max_stack).
const frames = 127

// Recorder makes a trace in rings of perf. Its methods are those of instance.Instance that the
// engine needs while it traces.
type Recorder struct {
	opt    Options
	points []perf.Tracepoint

	mu      sync.Mutex // guards what follows
	sampler *perf.Sampler
	twice   bool
	trace   *perftrace.Trace
}

// New finds the events. Nothing is recorded before Start.
func New(opt Options) (*Recorder, error) {
	r := &Recorder{opt: opt}
	for _, e := range opt.Events {
		id, err := opt.Root.ID(e)
		if err != nil {
			return nil, Unreadable(err)
		}
		r.points = append(r.points, perf.Tracepoint{ID: id, Filter: e.Filter, User: e.System == "syscalls"})
	}
	return r, nil
}

// Denied reports whether an event that the kernel has may not be traced by us, not even in
// our own thread.
func Denied(root *instance.Root, specs []instance.Spec) bool {
	for _, spec := range specs {
		id, err := root.ID(instance.Event{System: spec.System, Name: spec.Event})
		if err == nil && errors.Is(perf.Try(perf.Event{Tracepoint: id, Raw: true, Disabled: true}), perf.ErrDenied) {
			return true
		}
	}
	return false
}

// Unreadable adds to an error what it takes to read tracefs, if that is what is missing.
func Unreadable(err error) error {
	if err == nil || !errors.Is(err, fs.ErrPermission) {
		return err
	}
	return fmt.Errorf("--source=perf has the numbers and formats of events from tracefs, which must be readable: with CAP_DAC_READ_SEARCH, or for a group after mount -o remount,gid=GROUP,mode=750 of it: %w", err)
}

// SetPIDs opens the events of these threads, and of all threads that they will make, if follow
// is set.
func (r *Recorder) SetPIDs(tids []int, follow bool) error {
	if len(tids) == 0 || !follow {
		return errors.New("restricting events to threads: there are none")
	}
	return r.open(tids)
}

// ExcludePIDs opens the events of all threads. Records of our own process are left out when
// they are read.
func (r *Recorder) ExcludePIDs([]int, bool) error { return r.open(nil) }

func (r *Recorder) open(tids []int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	const kib = 1 << 10
	s, err := perf.OpenSampler(perf.SamplerOptions{
		Tracepoints: r.points, Threads: tids, CallChain: frames, Raw: true, Unwound: true, Deferred: true, Held: true,
		Clock: r.opt.Clock, RingSize: r.opt.BufferKB * kib,
	})
	if errors.Is(err, perf.ErrDenied) && tids != nil {
		err = fmt.Errorf("%w (events that are no system calls need it, or kernel.perf_event_paranoid at -1)", err)
	}
	if err != nil {
		return fmt.Errorf("--source=perf: %w", err)
	}
	r.sampler = s
	return nil
}

// with calls a function that uses the sampler, while the trace does not.
func (r *Recorder) with(do func(*perf.Sampler) error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.sampler == nil:
		return os.ErrClosed
	case r.trace == nil:
		return do(r.sampler)
	}
	return r.trace.Hold(func() error { return do(r.sampler) })
}

// AddPIDs opens the events of more threads. They can be ones that have inherited events.
func (r *Recorder) AddPIDs(tids []int) error {
	if len(tids) == 0 {
		return nil
	}
	return r.with(func(s *perf.Sampler) error {
		r.twice = true
		return s.Watch(tids)
	})
}

// PIDs returns nil: which threads have inherited events is not known.
func (r *Recorder) PIDs() ([]int, error) { return nil, nil }

// Deferred reports whether stacks come later than their events. It is known after SetPIDs or
// ExcludePIDs.
func (r *Recorder) Deferred() (deferred bool) {
	_ = r.with(func(s *perf.Sampler) error { // before that it is false
		deferred = s.Deferred()
		return nil
	})
	return deferred
}

// Start begins to record.
func (r *Recorder) Start() error { return r.with((*perf.Sampler).Resume) }

// Disable ends the recording of events. Stacks that they asked for still come.
func (r *Recorder) Disable([]instance.Event) error { return r.with((*perf.Sampler).Pause) }

// Stop ends the recording, so that the reader reaches the end.
func (r *Recorder) Stop() error {
	err := r.Disable(nil)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.trace != nil {
		r.trace.End()
	}
	return err
}

// Remove ends all, at once. It may be called again.
func (r *Recorder) Remove() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.trace != nil:
		return r.trace.Close()
	case r.sampler != nil:
		return r.sampler.Close()
	}
	return nil
}

// CPUs returns the CPUs that have a ring.
func (r *Recorder) CPUs() (list []int32, err error) {
	err = r.with(func(s *perf.Sampler) error {
		list = s.Sampled()
		return nil
	})
	return list, err
}

// BufferKB returns the room on each CPU that the kernel gave at least.
func (r *Recorder) BufferKB() (kb int, err error) {
	err = r.with(func(s *perf.Sampler) error {
		kb = s.RingSize() >> 10
		return nil
	})
	return kb, err
}

// Stats returns nil: losses are in the trace.
func (r *Recorder) Stats() ([]instance.Stats, error) { return nil, nil }

// Mark has the reader return soon. The text is not in the trace.
func (r *Recorder) Mark(string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.trace == nil {
		return os.ErrClosed
	}
	r.trace.Wake()
	return nil
}
