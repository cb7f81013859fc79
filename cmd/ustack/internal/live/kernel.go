package live

import (
	"errors"
	"slices"

	"ustack/filemap/facts"
	"ustack/filemap/resolve"
	"ustack/tracefs/instance"
)

// errNoStacks is why live does not begin.
var errNoStacks = errors.New("this kernel takes no user stacks: it was built without CONFIG_USER_STACKTRACE_SUPPORT " +
	"(for arm64, Linux 6.12 has it, 6.1 has not); ustack futex --live and ustack record work without stacks, and perf record -g takes its own")

// checkStacks finds out whether a stack can come at all. Sinks that show more
// than stacks work without.
func (s *session) checkStacks() error {
	if s.stacks == instance.DeferredStacks {
		s.userStacks = facts.StacksTaken
		return nil
	}
	if s.userStacks = facts.UserStacks(s.opt.Proc); s.userStacks == facts.StacksNever && s.opt.NeedStacks {
		return errNoStacks
	}
	return nil
}

// reportKernel prints what this kernel cannot trace.
func (s *session) reportKernel(t *resolve.Totals) {
	if s.userStacks == facts.StacksUnknown && t.Events > 0 && t.Stacks == 0 {
		s.say("no event has a stack: the kernel may have been built without CONFIG_USER_STACKTRACE_SUPPORT")
	}
	if n := s.compats(); n > 0 && slices.ContainsFunc(s.events, func(e instance.Event) bool { return e.System == "syscalls" }) {
		s.say("%d programs of 32 bits ran: the kernel traces none of their system calls as syscalls:*; -e raw_syscalls:sys_enter, or sched:sched_switch, has stacks of theirs", n)
	}
	s.rights.report(s)
}

// compats returns how many 32-bit programs may have been meant to be traced: the
// ones of -p, the ones that began after the command, or all.
func (s *session) compats() int {
	if s.follow == nil || s.follow.spaces == nil {
		return 0
	}
	switch {
	case len(s.opt.PIDs) > 0:
		return s.follow.spaces.Compats(func(pid int) bool { return slices.Contains(s.opt.PIDs, pid) })
	case s.child != nil:
		return s.follow.spaces.Compats(func(pid int) bool { return pid >= s.child.pid() })
	}
	return s.follow.spaces.Compats(func(int) bool { return true })
}
