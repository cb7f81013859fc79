package wait

import (
	"ustack/filemap/resolve"
	"ustack/render/stackset"
	"ustack/tracefs"
	"ustack/tracefs/syscalls"
)

// futexCall is the call that shows how calls are numbered.
const futexCall = "futex"

// pairing is how far apart the two events of one entry are at most.
const pairing = tracefs.Time(100e3)

// syscall takes an event of a system call: of raw_syscalls, or with its name.
func (a *Analysis) syscall(h *resolve.Pending, i int, rec *tracefs.Record, body []byte) {
	if !syscalls.ParseRawCall(body, &a.sys) {
		if name, exit, ok := syscalls.Name(body); ok && (!a.raw || string(name) == futexCall) {
			a.named(h, i, rec, string(name), exit)
		}
		return
	}
	th := a.threads.of(rec.TID)
	if th == nil {
		return
	}
	a.raw = true
	t := h.Time(rec)
	a.deferred(h, i, th, a.sys.Exit)
	a.own(th, t)
	if a.sys.Wide {
		th.call.wide = true
	}
	if a.sys.Exit {
		a.returns(th, callID(a.sys.NR), t)
	} else {
		a.enters(h, i, th, callID(a.sys.NR), t)
	}
}

// deferred takes the stack of a return for the wait before, if that has none: a stack
// that the kernel takes on the way to user space comes once for both.
func (a *Analysis) deferred(h *resolve.Pending, i int, th *thread, exit bool) {
	if w := &th.wait; exit && th.done && w.stack == stackset.None {
		w.stack = a.stacks.Of(stackset.Attached(h, i))
	}
}

// named takes an event of a system call with its name. In a trace of raw_syscalls it only
// shows how those are numbered.
func (a *Analysis) named(h *resolve.Pending, i int, rec *tracefs.Record, name string, exit bool) {
	th := a.threads.of(rec.TID)
	if th == nil || name == "" {
		return
	}
	t := h.Time(rec)
	if c := &th.call; a.raw {
		if !exit && name == futexCall && c.seen && c.inside && t-c.at < pairing {
			a.calls.learn(int32(c.id))
			if s := a.unwound(h, i); s >= 0 {
				c.stack = s
			}
		}
		return
	}
	a.deferred(h, i, th, exit)
	a.own(th, t)
	th.call.wide = true // the kernel has names for calls of its own width only
	if exit {
		a.returns(th, a.calls.id(name), t)
	} else {
		a.enters(h, i, th, a.calls.id(name), t)
	}
}

// enters notes that a thread enters a call.
func (a *Analysis) enters(h *resolve.Pending, i int, th *thread, id callID, t tracefs.Time) {
	th.calls, th.earlyAt = true, 0
	c := &th.call
	if c.seen && c.inside && c.losses == a.lostTimes {
		c.breaks++
	}
	c.id, c.at, c.seen, c.inside, c.fault, c.losses = id, t, id != syscalls.NoCall, true, 0, a.lostTimes
	c.stack = a.unwound(h, i)
}

// returns notes that a thread returns from a call, or from an unknown one.
func (a *Analysis) returns(th *thread, id callID, t tracefs.Time) {
	th.calls, th.earlyAt = true, 0
	c := &th.call
	switch {
	case !c.seen || id == syscalls.NoCall || c.losses != a.lostTimes:
	case c.inside && c.id == id:
		c.pairs++
		a.pairs++
	default:
		c.breaks++
	}
	if c.inside && isExec(c.id) {
		c.wide = false
	}
	c.at, c.seen, c.inside, c.fault, c.losses = t, true, false, 0, a.lostTimes
}

// isExec reports whether a number can be that of execve or execveat, in any table.
func isExec(id callID) bool { return id == 59 || id == 322 || id == 221 || id == 281 }

// fault takes a page fault of user space.
func (a *Analysis) fault(h *resolve.Pending, rec *tracefs.Record) {
	if th := a.threads.of(rec.TID); th != nil && th.call.seen && !th.call.inside {
		th.call.fault = h.Time(rec)
	}
}

// trusted reports whether entries and returns of the thread fit together.
func (a *Analysis) trusted(c *inCall) bool {
	return c.pairs >= 8*c.breaks && (c.pairs > 0 || a.all || a.pairs > 0)
}

// waitsIn returns what a thread waits in that goes off its CPU in a state, the letter of
// sched_switch, and since when that is known.
func (a *Analysis) waitsIn(c *inCall, state byte, t tracefs.Time) (id callID, proof tracefs.Time) {
	switch {
	case state == 'T' || state == 't':
		return stopped, t
	case !c.seen:
		return noCallSeen, t
	case !a.trusted(c):
		return callUnpaired, t
	case c.inside && !c.wide:
		return callNarrow, t
	case c.inside:
		return c.id, c.at
	case !a.raw: // other calls are not in the trace
		return noCallSeen, t
	case c.fault != 0:
		return pageFault, c.at
	}
	return outsideCalls, c.at
}

// unwound returns the stack of an event, if ustack has unwound it.
func (a *Analysis) unwound(h *resolve.Pending, i int) int32 {
	at := stackset.Attached(h, i)
	if at.Stack == nil || len(at.Stack.Frames) < 2 {
		return stackset.None
	}
	if _, end := at.Stack.Frames[len(at.Stack.Frames)-1].Unwound(); end == tracefs.NoStop {
		return stackset.None
	}
	return a.stacks.Of(at)
}

// whole returns the stack of a thread in a system call: that with which it entered the call, if
// it goes on where the kernel's own ends. Both are of the same call, and begin with it.
func (a *Analysis) whole(c *inCall, own int32) int32 {
	if !c.inside || c.stack < 0 || c.losses != a.lostTimes || !a.trusted(c) {
		return own
	}
	entry := a.stacks.Get(c.stack)
	if s := a.stacks.Get(own); s != nil && (len(s.Frames) >= len(entry.Frames) || !samePlace(&s.Frames[0], &entry.Frames[0])) {
		return own
	}
	return c.stack
}

// samePlace reports whether two frames are at the same place of the same file or memory.
func samePlace(x, y *stackset.Frame) bool {
	return x.File == y.File && x.Offset == y.Offset && x.Address == y.Address
}
