package live

import (
	"os"
	"slices"
	"strings"

	"ustack/cmd/ustack/internal/live/sources"
	"ustack/filemap/facts"
	"ustack/tracefs/instance"
)

// prepare makes the instance, all of it but the threads that it is for. It
// switches nothing on before it knows that all requested events exist.
func (s *session) prepare() error {
	if s.opt.Source == sources.Perf {
		return preparePerf(s)
	}
	root, err := instance.Find(s.opt.Tracefs)
	if err != nil {
		return err
	}
	if err := facts.AsInTraces(s.opt.Proc); err != nil {
		return err
	}
	if cleaned, err := root.Clean(); err == nil {
		s.others = cleaned.Alive()
		if len(cleaned.Removed) > 0 {
			s.say("removed instances of dead processes: %s", strings.Join(cleaned.Removed, ", "))
		}
	}
	if s.events, err = s.selected(root); err != nil {
		return err
	}
	if s.in, err = root.Create(); err != nil {
		return err
	}
	s.tracer = s.in
	if err := s.configure(); err != nil {
		return err
	}
	if s.stacks, err = s.in.SetStacks(instance.BestStacks); err != nil {
		return err
	}
	if err := s.checkStacks(); err != nil {
		return err
	}
	if s.stacks == instance.DeferredStacks {
		if s.maps, err = s.in.EnableMappings(); err != nil {
			return err
		}
		s.startBeside()
	}
	if err := s.watchSettings(); err != nil {
		return err
	}
	if err := s.in.SetFilters(s.events); err != nil {
		return err
	}
	if err := s.startFollowing(root); err != nil {
		return err
	}
	if err := s.keepForUnwinding(); err != nil {
		return err
	}
	// The first to register with a tracepoint is called first: when
	// sched_process_exec is traced, its stack is known to be the new program's. And
	// the raw stack of an event comes after the event.
	if err := s.in.Enable(s.events); err != nil {
		return err
	}
	s.beside.set(func(in *instance.Instance) error { return in.Enable(s.events) })
	return nil
}

const (
	// usualKB is the kernel's default (TRACE_BUF_SIZE_DEFAULT in kernel/trace/trace.c).
	usualKB = 1408
	// maxRoomKB bounds the buffers of all CPUs that were not asked for by size.
	maxRoomKB = 32 << 10
)

// configure sets the instance up. A larger buffer is read less often; without memory for
// it, it is the kernel's.
func (s *session) configure() error {
	config := instance.Config{Clock: Clock, BufferKB: s.opt.BufferKB}
	if config.BufferKB == 0 && s.opt.RoomKB > usualKB {
		cpus, err := s.in.CPUs()
		if err != nil {
			return err
		}
		kb := min(s.opt.RoomKB, maxRoomKB/max(len(cpus), 1))
		if config.BufferKB = kb; kb > usualKB && s.in.Configure(config) == nil {
			return nil
		}
		config.BufferKB = 0
	}
	return s.in.Configure(config)
}

// startFollowing begins to follow address spaces, and to save the reports about
// them.
func (s *session) startFollowing(root *instance.Root) error {
	var err error
	if s.opt.Save != "" {
		if s.saved, err = newSaver(s.opt.Save); err != nil {
			return err
		}
	}
	s.follow, err = startFollowing(s.opt, root, s.saved, s.began, s.progress.idle)
	return err
}

// selected finds the events to trace.
func (s *session) selected(root *instance.Root) ([]instance.Event, error) {
	specs := instance.Defaults()
	switch {
	case len(s.opt.Events) > 0:
		specs = nil
	case len(s.opt.Specs) > 0:
		specs = slices.Clone(s.opt.Specs)
	case s.opt.Sched && (len(s.opt.PIDs) > 0 || len(s.opt.Command) > 0):
		specs = append(instance.Scheduler(), specs...) // -e may give them a filter
	}
	for _, text := range slices.Concat(s.opt.Events, s.opt.More) {
		spec, err := instance.ParseSpec(text)
		if err != nil {
			return nil, err
		}
		specs = append(specs, spec)
	}
	sel, err := root.Select(specs)
	return sel.Events, err
}

// startCommand starts the command, if there is one, and chooses whose events
// are traced. Our own are not: each would make another one. Nor are the events of
// other ustack processes that began before: each would make one there that makes
// one here.
func (s *session) startCommand() error {
	var err error
	if len(s.opt.Command) > 0 {
		if s.child, err = startChild(s.opt.Command, s.opt.Stdin, s.opt.Stdout, s.opt.Stderr); err != nil {
			return err
		}
		if err = s.trace([]int{s.child.pid()}); err != nil {
			s.abandon()
		}
		return err
	}
	if len(s.opt.PIDs) > 0 {
		return s.restrict(s.opt.PIDs)
	}
	own, err := s.follow.threadsOf([]int{os.Getpid()})
	if err != nil {
		return err
	}
	own = append(own, s.follow.likeUs(s.others)...)
	s.beside.set(func(in *instance.Instance) error { return in.ExcludePIDs(own, true) })
	return s.tracer.ExcludePIDs(own, true)
}

// trace traces only these threads. The instance of raw stacks gets the list first.
func (s *session) trace(tids []int) error {
	s.beside.set(func(in *instance.Instance) error { return in.SetPIDs(tids, true) })
	return s.tracer.SetPIDs(tids, true)
}

// restrict has only these processes and their children traced. The kernel also traces
// the children that threads on its list make; restrict adds the ones that were made
// before, or while we wrote the list.
func (s *session) restrict(pids []int) error {
	known, err := s.follow.family(pids)
	if err == nil {
		err = s.trace(known)
	}
	const rounds = 10
	for range rounds {
		if err != nil {
			break
		}
		now, lerr := s.follow.family(pids)
		fresh := slices.DeleteFunc(slices.Clone(now), func(tid int) bool { return slices.Contains(known, tid) })
		if lerr != nil || len(fresh) == 0 {
			break // a process that has ended meanwhile was there to be traced
		}
		s.beside.set(func(in *instance.Instance) error { return in.AddPIDs(fresh) })
		known, err = now, s.tracer.AddPIDs(fresh)
	}
	return err
}

// abandon ends a command that was never released.
func (s *session) abandon() {
	if s.child != nil {
		s.child.kill()
		s.child = nil
	}
}
