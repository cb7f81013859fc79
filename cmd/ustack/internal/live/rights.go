//go:build !device

package live

import (
	"fmt"
	"slices"

	"ustack/filemap/space"
)

// rights are the processes that get other rights by what they execute: set-user-ID programs, say,
// or those with file capabilities. The kernel takes the events of perf from them, and from what
// they start after that, if these were opened for the processes of -p or of the command
// (perf_event_exit_task in begin_new_exec, fs/exec.c). An instance of ftrace goes on with them.
type rights struct {
	got   int // processes that did
	again int // of those that perf traces, as they still ran when that was noticed
}

const (
	// maxRights bounds how often perf goes on with one: each time takes descriptors.
	maxRights = 64
	// maxPending bounds those that are noted until the reader of the trace takes them.
	maxPending = 1 << 10
)

// otherRights notes processes that got other rights. wake is called without mu: it waits for the
// tracer, which can be held by who waits for the reader of the trace, and that for mu.
func (b *bandFollower) otherRights(pids []int) {
	if len(pids) == 0 {
		return
	}
	b.mu.Lock()
	b.rights = append(b.rights, pids...)
	b.rights = b.rights[max(0, len(b.rights)-maxPending):]
	wake := b.wake
	b.mu.Unlock()
	if wake != nil {
		wake()
	}
}

// takeRights returns the processes that got other rights since the last call.
func (b *bandFollower) takeRights() (pids []int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	pids, b.rights = b.rights, nil
	return pids
}

// watch has the reader of perf's rings return when there is such a process: nothing that it does
// comes from them.
func (*rights) watch(s *session) {
	if b, ok := s.follow.follower.(*bandFollower); ok {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.wake = func() { _ = s.tracer.Mark("") } // it is only late
	}
}

// goOn opens the events of perf anew for those that are traced.
func (r *rights) goOn(s *session) error {
	b, ok := s.follow.follower.(*bandFollower)
	if !ok || s.child == nil && len(s.opt.PIDs) == 0 || s.in != nil && s.unwind.source == nil {
		return nil
	}
	list := b.takeRights()
	if len(list) == 0 {
		return nil
	}
	roots := s.opt.PIDs
	if s.child != nil {
		roots = []int{s.child.pid()}
	}
	family, err := s.follow.own.Family(roots)
	if err != nil {
		return fmt.Errorf("looking for processes that got other rights: %w", err)
	}
	slices.Sort(list)
	list = slices.DeleteFunc(slices.Compact(list), func(pid int) bool {
		_, found := slices.BinarySearch(family, pid)
		return !found && !b.below(pid, roots)
	})
	if r.got += len(list); len(list) > 0 && r.again < maxRights {
		r.reopen(s, list)
	}
	return nil
}

// below reports whether a process was forked of one of others, of one that was forked of these,
// and so on. Family does not find it once one between has ended. All that run may have got other
// rights, also those that are not to be traced.
func (b *bandFollower) below(pid int, others []int) bool {
	const generations = 1 << 6
	t := space.Monotonic()
	for n := 0; pid != 0 && n < generations; n++ {
		if slices.Contains(others, pid) {
			return true
		}
		if born, _, _ := b.history.Threads.Life(pid, t); born != 0 {
			t = born // when its parent still was that: the number may be another one's now
		}
		pid = b.history.Spaces.Space(pid).ForkedOf(t)
	}
	return false
}

// reopen does so for some processes. One that has ended has no threads.
func (r *rights) reopen(s *session, pids []int) {
	if s.in != nil {
		s.unwind.source.Again()
		r.again += len(pids)
		return
	}
	for _, pid := range pids {
		tids, err := s.follow.own.Threads(pid)
		if err != nil {
			continue
		}
		if s.tracer.AddPIDs(tids) == nil { // or it is not ours to trace any more
			r.again++
		}
	}
}

// report prints how many there were.
func (r *rights) report(s *session) {
	switch {
	case r.got == 0:
	case s.in == nil:
		s.say("%d programs got other rights when they were executed (set-user-ID, say), and the kernel ended perf's events of them: %d of them were traced anew, but for their beginning", r.got, r.again)
	default:
		s.say("%d programs got other rights when they were executed (set-user-ID, say), and the kernel ended perf's samples of them: %d of them were sampled anew, but for their beginning", r.got, r.again)
	}
}
