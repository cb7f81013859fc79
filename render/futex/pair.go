package futex

import (
	"ustack/filemap/resolve"
	"ustack/render/stackset"
	"ustack/tracefs"
	"ustack/tracefs/syscalls"
)

// Result is how a wait ended.
type Result uint8

// The results.
const (
	// Woken: by another thread, or the lock was got.
	Woken Result = iota
	// Changed: the value was another one already, the thread did not sleep.
	Changed
	// TimedOut: the timeout expired.
	TimedOut
	// Interrupted: by a signal, and not taken up again.
	Interrupted
	// Requeued: moved to another futex, where the wait went on.
	Requeued
	// Failed: any other error.
	Failed
	// NoReturn: the trace has the next call of the thread, and no return of
	// this one.
	NoReturn
	// Open: it had not ended.
	Open

	resultCount
)

var resultNames = [...]string{"woken", "changed", "timed out", "interrupted", "requeued", "failed", "no return", "open"}

// String returns the word used in all outputs.
func (r Result) String() string { return resultNames[r] }

// wait is a thread's wait on a futex. It may be several calls, if signals
// broke in.
type wait struct {
	th   *thread
	lock *lock // nil if unknown (waitv)
	site *site // at which it queues, nil if it does not
	cmd  syscalls.Cmd
	val  uint32
	// from is when it began on this lock, since when this call did; acc is
	// what earlier calls took, end when it ended.
	from, since, end tracefs.Time
	acc              tracefs.Time
	// began is when its last call that slept did, before what earlier ones took.
	began, before tracefs.Time
	stack         int32
	missing       resolve.Missing
	counts        bool // in lock.active
	timed         bool // it has a timeout
	crossed       bool // a wakeup was under way when it began
	moves         int  // from one futex to another
	waker         waker
	// mayRestart is set if restart_syscall may resume the wait, which a signal
	// broke off.
	mayRestart bool
	// resumed is set if this call goes on with a wait that a signal broke off.
	resumed bool
	// strange is set if it was surely at another lock.
	strange bool
}

// likeLock reports whether a wait can be one for something that one thread holds at a
// time.
func (w *wait) likeLock() bool { return w.cmd.PI() || w.val == 2 || w.val&futexWaiters != 0 }

// enter takes the entry into a system call.
func (c *calls) enter(h *resolve.Pending, i int, rec *tracefs.Record) {
	e := c.sys
	if e.Call == syscalls.Other {
		if th := c.tasks.threadOf(rec.TID); th != nil {
			if th.paused != nil { // a signal handler's, or its end
				th.paused.mayRestart = false
			}
			c.entered(th, h, i, rec)
		}
		return
	}
	th := c.tasks.calling(c.tasks.thread(rec.TID), h.Time(rec))
	comm, tgid := h.Who(rec)
	c.tasks.named(th, comm)
	if tgid >= 0 {
		c.tasks.belongs(th, tgid)
	}
	c.tasks.commOf(th)
	t := c.entered(th, h, i, rec)
	att := stackset.Attached(h, i)
	th.stack, th.cookie = c.stacks.Of(att), att.Cookie
	if e.Call == syscalls.RestartSyscall {
		c.restarts = true
		if th.paused != nil && th.paused.mayRestart {
			c.resume(th, t)
		}
		return
	}
	c.entries++
	f := &e.Futex
	woken := th.woken
	th.woken = nil
	if w := th.paused; w != nil {
		if f.Cmd == w.cmd && f.HasAddr && f.Val == w.val && w.lock != nil && w.lock.find() == c.locks.known(th, keyOf(f)) {
			c.resume(th, t)
			return
		}
		c.stopPaused(th)
	}
	if f.Cmd.Wakes() {
		c.releases.add(th.stack)
	}
	switch {
	case f.Cmd.Waits():
		c.waits.add(th.stack)
		c.beginWait(th, t, att)
		th.waitsAgain(woken, t)
	case f.Cmd.Wakes() && f.HasAddr:
		c.beginWake(th, t)
	case f.Cmd == syscalls.RequeueV:
		c.moves++
	}
}

// entered notes that a thread is in a system call.
func (c *calls) entered(th *thread, h *resolve.Pending, i int, rec *tracefs.Record) tracefs.Time {
	t := h.Time(rec)
	c.losses.reached(t)
	switch {
	case th.in:
		c.broken(th, t)
	case th.first < 0:
		th.first = t
	default:
		c.losses.span(span{th: th, from: th.last, to: t, kind: spanFree})
	}
	th.in, th.since, th.last = true, t, t
	th.call, th.futex = c.sys.Call, c.sys.Futex
	th.stack, th.cookie = noStack, 0
	th.line = c.log.line(i)
	return t
}

// broken ends a call whose return is not in the trace.
func (c *calls) broken(th *thread, t tracefs.Time) {
	s := span{th: th, from: th.since, to: t, kind: spanBroken}
	c.broke = true
	if w := th.wait; w != nil {
		th.wait = nil
		if w.waker.tid != 0 {
			c.sites.giveBack(w)
		}
		c.log.ended(w, w.since, w.since, NoReturn, 0)
		c.sites.leave(w)
		if w.lock != nil {
			w.lock.find().results[NoReturn]++
		}
		c.unpaired++
	}
	if k := th.wake; k != nil {
		th.wake = nil
		k.woke = true // perhaps
		c.held.ended(k)
		c.sites.wakeReturned(k, k.claimed, t)
		if k.lock != nil {
			k.lock.find().active--
		}
	}
	th.in = false
	c.losses.span(s)
}

// beginWait begins a wait.
func (c *calls) beginWait(th *thread, t tracefs.Time, att *resolve.Attached) {
	f := &th.futex
	c.tail = th.tid
	w := c.newWait()
	*w = wait{th: th, cmd: f.Cmd, val: f.Val, from: t, since: t, began: t, stack: th.stack, missing: att.Missing, timed: f.Timeout,
		waker: waker{stack: noStack}}
	if !f.HasAddr {
		th.wait = w
		return
	}
	l := c.locks.lock(th, keyOf(f), t) // for which others may have to go
	th.wait = w
	l.waits(th.tid)
	l.traits.wait(f, c.tasks.mayBeThread(f.Val, th.tid))
	c.locks.noteStack(th, l, f, th.stack)
	c.holders.ordered(th, w, l)
	c.held.waits(th, l)
	c.sites.enterWait(w, l)
}

// resume takes up a wait that a signal broke off.
func (c *calls) resume(th *thread, t tracefs.Time) {
	w := th.paused
	th.paused, th.wait = nil, w
	w.since, w.began, w.before, w.resumed = t, t, w.acc, true
	w.waker = waker{stack: noStack}
	if w.lock != nil {
		c.held.waits(th, w.lock.find())
		c.sites.enterWait(w, w.lock.find())
	}
}

// stopPaused ends a wait that a signal broke off and that did not go on.
func (c *calls) stopPaused(th *thread) {
	w := th.paused
	if w == nil {
		return
	}
	th.paused = nil
	c.stopped = c.stopped || w.mayRestart
	w.since = w.end
	c.counted(w, Interrupted)
}

// exit takes the return from a system call.
func (c *calls) exit(h *resolve.Pending, i int, rec *tracefs.Record) {
	e := c.sys
	th := c.tasks.threadOf(rec.TID)
	if e.Call == syscalls.Other && th == nil {
		return
	}
	if th == nil || th.dead {
		th = c.tasks.thread(rec.TID)
	}
	t := h.Time(rec)
	c.line = c.log.line(i)
	c.losses.reached(t)
	if e.Call != syscalls.Other && e.Call != syscalls.RestartSyscall {
		c.exits++
	}
	if th.in && th.call != e.Call {
		c.broken(th, t)
		th.last = t
		return
	}
	if !th.in {
		if r, ok := c.strayReturn(th, e, t); ok {
			c.log.endedBefore(th, h.Head(rec), stackset.Attached(h, i), t, r, c.line)
		}
		return
	}
	att := stackset.Attached(h, i)
	s := span{th: th, from: th.since, to: t, kind: spanCall}
	if th.cookie != 0 && th.cookie == att.Cookie {
		s.kind = spanSure
	}
	switch {
	case th.wait != nil:
		if w := th.wait; w.stack == noStack {
			w.stack = c.stacks.Of(att)
			c.locks.noteStack(th, w.lock, &th.futex, w.stack)
		}
		c.waitReturned(th, t, e, &s)
	case th.wake != nil:
		k := th.wake
		th.wake = nil
		if k.stack == noStack {
			k.stack = c.stacks.Of(att)
		}
		c.wakeEnded(k, t, e)
	}
	th.in, th.last = false, t
	c.losses.span(s)
}

// strayReturn takes a return whose entry is not in the trace. ok means that a wait
// may return that began before.
func (c *calls) strayReturn(th *thread, e *syscalls.Event, t tracefs.Time) (r Result, ok bool) {
	if th.first >= 0 {
		c.losses.span(span{th: th, from: th.last, to: t, kind: spanBroken})
		th.last = t
		return NoReturn, false
	}
	th.first, th.last = t, t
	since := max(t-c.losses.Beginning(t), 0)
	c.losses.unknownWait(th, since)
	if e.Call == syscalls.Other || !e.HasResult {
		return NoReturn, false
	}
	switch e.Result {
	case syscalls.ETIMEDOUT, syscalls.ERESTARTSYS, syscalls.ERESTARTRESTARTBLOCK, syscalls.ERESTARTNOINTR, syscalls.ERESTARTNOHAND:
		c.before.Waits++
		c.before.Time += since
		return resultOf(e), true
	case 0:
		c.before.Unclear++
		c.before.UnclearTime += since
		return Woken, true
	}
	return NoReturn, false
}

// resultOf returns how a wait ended.
func resultOf(e *syscalls.Event) Result {
	switch {
	case !e.HasResult:
		return NoReturn
	case e.Result >= 0:
		return Woken
	case e.Result == syscalls.EAGAIN:
		return Changed
	case e.Result == syscalls.ETIMEDOUT:
		return TimedOut
	case e.Result == syscalls.EINTR, e.Result <= syscalls.ERESTARTSYS && e.Result >= syscalls.ERESTARTRESTARTBLOCK:
		return Interrupted
	}
	return Failed
}

// waitReturned ends a wait, or breaks it off.
func (c *calls) waitReturned(th *thread, t tracefs.Time, e *syscalls.Event, s *span) {
	w := th.wait
	th.wait = nil
	w.end = t
	r := resultOf(e)
	if w.lock == nil {
		c.log.ended(w, w.since, t, r, c.line)
		if r == Woken || r == TimedOut || r == Interrupted {
			c.waitv.add(max(t-w.since, 0), r)
		}
		return
	}
	if r == Woken {
		c.sites.claim(w)
		one, oneProcess := c.sites.wakers(w)
		if one = one || w.waker.seen; one {
			w.waker.wake.proven++
		}
		w.waker.sure = w.waker.sure && one
		th.woken = w.waker.wake
		if k := w.waker.wake; k != nil && k.ran == 0 {
			k.ran = t
		}
		if k := w.waker.wake; k != nil && !k.of(w.lock.find()) && (w.waker.sure || oneProcess) {
			s.waker = c.sites.lockOf(k)
			w.strange = c.locks.contradicted(w, k)
		}
	} else if w.waker.tid != 0 {
		c.sites.giveBack(w)
	}
	c.log.ended(w, w.since, t, r, c.line)
	c.held.returned(w, r, c.line)
	l := w.lock.find()
	if r != Changed && r != Failed && r != NoReturn {
		c.addTime(w, l, t)
		s.lock, s.time = l, max(t-w.since, 0)
	} else {
		w.since = t
	}
	if r == Changed && w.acc > 0 {
		r = Interrupted // before, and it did not sleep again
	} else if r == Interrupted {
		w.acc += max(t-w.since, 0)
		th.paused, w.mayRestart = w, e.Result == syscalls.ERESTARTRESTARTBLOCK
		c.sites.leave(w)
		return
	}
	c.counted(w, r)
	c.sites.leave(w)
	c.freeWaits = append(c.freeWaits, w)
}

func (c *calls) newWait() *wait {
	n := len(c.freeWaits) - 1
	if n < 0 {
		return new(wait)
	}
	w := c.freeWaits[n]
	c.freeWaits = c.freeWaits[:n]
	return w
}

// addTime adds a part of a wait to its lock's time.
func (c *calls) addTime(w *wait, l *lock, to tracefs.Time) {
	l.time += max(to-w.since, 0)
}

// counted counts a wait that has ended.
func (c *calls) counted(w *wait, r Result) {
	l := w.lock.find()
	l.results[r]++
	l.lastDone = max(l.lastDone, w.end)
	if r == Woken && w.waker.tid == 0 {
		l.traits.unexplained++
	}
	if r == Woken && w.leavesMark() && !w.strange && l.traits.exclusive(w) {
		c.holders.owns(w, l)
	}
	if r == Changed && w.acc == 0 || r == Failed || r == NoReturn {
		return
	}
	c.count(w, l, r, w.end)
}

// waitsAgain notes that the thread that a call woke did not get the lock.
func (th *thread) waitsAgain(k *wake, t tracefs.Time) {
	if w := th.wait; k != nil && k.again == 0 && w.lock != nil && k.of(w.lock.find()) {
		k.again = t
	}
}

// waitsFor reports whether a thread waits in its call, and for what, if that is known.
func (c *calls) waitsFor(tid int32) (waits bool, on blocker) {
	th := c.tasks.threadOf(tid)
	if th == nil || !th.in || th.wait == nil {
		return false, on
	}
	if w := th.wait; w.lock != nil {
		if l := w.lock.find(); l.proc != nil {
			on = blocker{proc: l.proc.find(), key: l.key}
		}
	}
	return true, on
}

// release forgets a thread's call, so that the thread can be forgotten.
func (c *calls) release(th *thread) {
	c.stopPaused(th)
	if w := th.wait; w != nil {
		th.wait = nil
		c.sites.leave(w)
	}
	if k := th.wake; k != nil {
		th.wake = nil
		k.woke = true // perhaps
		c.held.ended(k)
		c.sites.wakeReturned(k, k.claimed, c.losses.End)
		if k.lock != nil {
			k.lock.find().active--
		}
		c.sites.unaware = true
	}
}

// moved counts a wait whose thread goes on waiting at another futex.
func (c *calls) moved(w *wait) {
	from := w.lock.find()
	c.addTime(w, from, w.end)
	c.losses.span(span{th: w.th, from: w.since, to: w.end, kind: spanCall, lock: from, time: max(w.end-w.since, 0)})
	c.log.ended(w, w.since, w.end, Requeued, 0)
	c.counted(w, Requeued)
}

// noReturns reports whether the trace has no returns from calls. If no thread
// makes a second call, it may be that all of the first ones hang.
func (c *calls) noReturns() bool { return c.exits == 0 && c.broke }
