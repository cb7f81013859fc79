package wait

import (
	"ustack/filemap/resolve"
	"ustack/render/stackset"
	"ustack/tracefs"
)

// leaves takes the thread of a switch that goes off its CPU.
func (a *Analysis) leaves(h *resolve.Pending, i int, rec *tracefs.Record, t tracefs.Time) {
	th := a.threads.of(rec.TID)
	if th == nil {
		return
	}
	a.own(th, t)
	state := a.task.State
	if state == 'R' {
		th.earlyAt = 0
		return
	}
	if comm := a.task.PrevComm(); len(comm) > 0 {
		a.threads.named(th, h.Plain(comm))
	}
	if state == 'X' || state == 'Z' {
		a.ended(th)
		return
	}
	id, proof := a.waitsIn(&th.call, state, t)
	th.wait = off{from: t, proof: proof, id: id, state: state, tid: th.tid, stack: a.whole(&th.call, a.stacks.Of(stackset.Attached(h, i))), losses: a.lostTimes,
		waker: waker{stack: stackset.None}}
	th.blocked = true
}

// ended notes that a thread is gone: its number can be used again.
func (a *Analysis) ended(th *thread) {
	*th = thread{tid: th.tid, comm: th.comm, seen: true, calls: th.calls, before: th.before, began: th.began}
}

// comes takes the thread of a switch that comes onto a CPU.
func (a *Analysis) comes(tid int32, t tracefs.Time) {
	th := a.threads.of(tid)
	if th == nil {
		return
	}
	switch {
	case th.blocked:
		if th.earlyAt != 0 { // it was woken while it went off its CPU
			th.wait.woken, th.wait.waker, th.wait.wokenAt = th.wait.from, th.early, th.earlyAt
		}
		th.wait.on, th.done, th.blocked = t, true, false
	case th.ready:
		th.wait.on, th.done, th.ready = t, true, false
	}
	th.seen, th.earlyAt = true, 0
}

// woken takes the wakeup of a thread.
func (a *Analysis) woken(h *resolve.Pending, i int, rec *tracefs.Record, t tracefs.Time) {
	if by := a.threads.of(rec.TID); by != nil { // it runs, if only until the interrupt
		a.own(by, t)
	}
	th := a.threads.of(a.task.TID)
	switch {
	case th == nil:
	case th.blocked:
		th.wait.woken, th.wait.waker = max(t, th.wait.from), a.wakerOf(h, i, rec)
		th.wait.early = th.earlyAt != 0
		th.blocked, th.ready = false, true
	case !th.seen:
		th.before, th.began, th.seen = t-a.losses.Beginning(t), true, true
	default:
		th.early, th.earlyAt = a.wakerOf(h, i, rec), t
	}
	if th != nil {
		a.threads.named(th, h.Plain(a.task.Comm))
	}
}

// wakerOf returns what a record of a wakeup shows of who wakes. In an interrupt it is not
// the task of the record, whose stack says nothing then.
func (a *Analysis) wakerOf(h *resolve.Pending, i int, rec *tracefs.Record) waker {
	flags := h.Head(rec).Flags
	switch {
	case tracefs.InInterrupt(flags) || rec.TID == 0:
		return waker{interrupt, stackset.None}
	case len(flags) == 0: // unknown
		return waker{unknownWaker, stackset.None}
	}
	stack := a.stacks.Of(stackset.Attached(h, i))
	if th := a.threads.of(rec.TID); th != nil {
		a.threads.named(th, h.Head(rec).Comm)
		stack = a.whole(&th.call, stack)
	}
	return waker{rec.TID, stack}
}

// own takes a record of a thread that runs: a wait that it had is over. How it came onto
// its CPU was not seen if it is not done: kernels leave out some switches from idle.
func (a *Analysis) own(th *thread, t tracefs.Time) {
	th.seen = true
	w := &th.wait
	switch {
	case th.done:
	case th.ready && !w.early:
	case th.ready:
		th.earlyAt = 0 // either wakeup can have been the one
	case th.blocked:
		w.woken, w.doubt, th.earlyAt = t, true, 0
	default:
		return
	}
	a.queue.put(*w, a.add)
	th.done, th.ready, th.blocked = false, false, false
}
