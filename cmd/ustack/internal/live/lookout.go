package live

import (
	"errors"
	"slices"
	"time"

	"ustack/filemap/blocked"
	"ustack/filemap/whole"
	"ustack/tracefs"
	"ustack/tracefs/instance"
)

// Why threads that wait are not looked at.
var (
	errDeferred   = errors.New("the kernel's stacks come after the waits")
	errNoSyscalls = errors.New("the kernel has no /proc/PID/syscall")
)

// canLookOut returns why threads that wait cannot be looked at, nil if they can.
func (s *session) canLookOut() error {
	switch {
	case s.stacks == instance.DeferredStacks:
		return errDeferred
	case !blocked.Supported(s.opt.Proc):
		return errNoSyscalls
	}
	return nil
}

// lookOut begins to look at threads that wait.
func (s *session) lookOut(opt *whole.Options) error {
	u := &s.unwind
	band, ok := s.follow.follower.(*bandFollower)
	if s.opt.Unwind == UnwindCopy || !ok || !s.source.Exact() || s.canLookOut() != nil {
		return nil
	}
	if u.stage == nil {
		u.stage = whole.New(*opt)
	}
	u.lookout = whole.NewLookout(whole.LookoutOptions{
		Stage: u.stage, Read: blocked.NewReader(blocked.Options{Proc: s.opt.Proc}).Read,
		Settle: func(t tracefs.Time) error { return s.follow.upTo(t + stampSlack) },
		Same:   band.sameThread,
		Sleeps: slices.Contains(s.events, instance.Event{System: "sched", Name: "sched_switch"}), // without a filter
		Every:  s.opt.EverySleep,
	})
	return nil
}

// sameThread reports whether a number was that of one thread from one time to another, and
// no record could say otherwise.
func (b *bandFollower) sameThread(tid int, from, to tracefs.Time) bool {
	_, ended, _ := b.history.Threads.Life(tid, from)
	return ended > to && !b.history.Gaps.Between(from, to)
}

// restEvery is how often files that no stack leads through are closed.
const restEvery = 3 * time.Second

// rest closes the files that no stack leads through, now and then.
func (u *unwinding) rest() {
	if now := time.Now(); now.Sub(u.rested) >= restEvery {
		u.rested = now
		u.stage.Rest()
	}
}

// pace is how long records are left to gather at most, 0 for as long as the buffer is large:
// a thread is to be looked at before it goes on.
func (u *unwinding) pace() time.Duration {
	const quick = 250 * time.Microsecond
	if !u.on || u.keeper != nil {
		return 0
	}
	return quick
}

// patience is how long the trace may be waited for.
func (u *unwinding) patience() time.Duration { return u.lookout.Pause() }
