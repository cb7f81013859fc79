//go:build !device

package live

import (
	"errors"
	"fmt"

	"ustack/cmd/ustack/internal/live/source/perfring"
	"ustack/filemap/facts"
	"ustack/tracefs/instance"
	"ustack/tracefs/perf"
)

// perfKB is the room for records on each CPU that was not asked for by size: with stacks of
// 127 frames they are larger than ftrace's.
const perfKB = 4096

// preparePerf is prepare for --source=perf. There is no instance: tracefs has the numbers and
// the formats of events, and nothing is written to it.
func preparePerf(s *session) error {
	root, err := instance.Find(s.opt.Tracefs)
	if err != nil {
		return perfring.Unreadable(err)
	}
	if err := facts.AsInTraces(s.opt.Proc); err != nil {
		return err
	}
	if s.opt.Pages != nil {
		return errPages
	}
	if s.opt.Sched && perfring.Denied(root, instance.Scheduler()) {
		s.opt.Sched = false
		s.say("what the owners of locks do is not traced: sched_switch and sched_waking need CAP_PERFMON, or the sysctl kernel.perf_event_paranoid at -1")
	}
	if s.events, err = s.selected(root); err != nil {
		return perfring.Unreadable(err)
	}
	kb := s.opt.BufferKB
	if kb == 0 {
		kb = min(max(s.opt.RoomKB, perfKB), maxRoomKB)
	}
	r, err := perfring.New(perfring.Options{Root: root, Events: s.events, BufferKB: kb, Clock: Clock, Release: Release()})
	if err != nil {
		return err
	}
	s.tracer, s.stacks, s.userStacks = r, instance.StockStacks, facts.StacksTaken
	if err := s.startFollowing(root); err != nil {
		return ownOnly(s, err)
	}
	s.rights.watch(s)
	return s.keepForUnwinding()
}

// ownOnly adds to an error what may be traced all the same.
func ownOnly(s *session, err error) error {
	if errors.Is(err, perf.ErrDenied) && len(s.opt.PIDs)+len(s.opt.Command) == 0 {
		return fmt.Errorf("only system calls of processes of your own can be traced, with -p or as a command: %w", err)
	}
	return err
}

// perfLine prints the start-up line.
func perfLine(s *session, how string, kb int) {
	stacks := "stacks of perf, by frame pointers"
	if s.stacks == instance.DeferredStacks {
		stacks = "deferred stacks of perf"
	}
	s.say("Linux %s, %s, mappings by %s, perf rings of %d KB a CPU, clock %s", Release(), stacks+s.unwind.words(), how, kb, Clock)
}
