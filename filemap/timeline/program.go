package timeline

import "ustack/tracefs"

// Program is the process of a thread at a time, and when the program that it was
// then began to run or was first seen; exact means that it did not run before.
// ok is false if that is not known for sure.
func (j *Attributor) Program(tid int, t tracefs.Time) (pid int, began tracefs.Time, exact, ok bool) {
	t += j.opt.Stamp.After
	pid, late, ok := j.opt.Threads.PID(tid, t)
	if !ok || late {
		return 0, 0, false, false
	}
	sp := j.opt.Spaces.Space(pid)
	if sp.At(t) == nil {
		return 0, 0, false, false
	}
	began, exact = sp.BeganExactly(t)
	return pid, began, exact, true
}

// Same reports whether a process is still a program that began at a time, or has
// ended.
func (j *Attributor) Same(pid int, began, now tracefs.Time) bool {
	sp := j.opt.Spaces.Space(pid)
	return sp.At(now) == nil || sp.Began(now) == began
}
