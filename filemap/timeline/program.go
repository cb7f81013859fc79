package timeline

import (
	"path"
	"strings"

	"ustack/tracefs"
)

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

// BeganSince reports whether the program that a thread runs at a time is known to have begun
// at another time, or later: it, or the one that its process was forked from.
func (j *Attributor) BeganSince(tid int, t, since tracefs.Time) bool {
	pid, _, ok := j.opt.Threads.PID(tid, t)
	if !ok {
		return false
	}
	sp := j.opt.Spaces.Space(pid)
	return sp.At(t) != nil && j.knownSince(sp, t, since)
}

// Name is the name of the program that a thread runs at a time: of its file, without
// directories, if it was seen to be executed, else the kernel's name of the process
// (proc_pid_comm(5)), which the program can change; "" if unknown.
func (j *Attributor) Name(tid int, t tracefs.Time) string {
	t += j.opt.Stamp.After
	pid, late, ok := j.opt.Threads.PID(tid, t)
	if !ok || late {
		return ""
	}
	sp := j.opt.Spaces.Space(pid)
	if m := sp.Program(t); m != nil {
		return path.Base(strings.TrimSuffix(m.File.Name, " (deleted)"))
	}
	if v := sp.At(t); v != nil {
		return v.Comm
	}
	return ""
}

// Same reports whether a process is still a program that began at a time, or has
// ended.
func (j *Attributor) Same(pid int, began, now tracefs.Time) bool {
	sp := j.opt.Spaces.Space(pid)
	return sp.At(now) == nil || sp.Began(now) == began
}
