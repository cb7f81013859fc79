package futex

import (
	"ustack/filemap/resolve"
	"ustack/tracefs"
)

// WaitCall is one call that waits: a wait, or, if signals broke in, a part of one;
// or the part of a call up to where the waiter was moved to another futex.
type WaitCall struct {
	// TID is the waiting thread, PID its process, tracefs.NoTID if unknown.
	TID, PID int32
	Comm     string
	// Lock is what it waits for: nil if that is not in the report, as there were
	// too many futexes; then only Address and Shared are known, and only if HasLock
	// is set (a call of futex_waitv has several).
	Lock    *Lock
	Address uint64
	Shared  bool
	HasLock bool
	// From is when it began, To when it ended; meaningless if it is Open, or has
	// NoReturn.
	From, To tracefs.Time
	// Line is where in the text of the trace its entry is, EndLine its return, counted from
	// 1; 0 if the trace does not have it.
	Line, EndLine int64
	Result        Result
	// Resumed is set if it goes on with a wait that a signal broke off, which has
	// been counted.
	Resumed bool
	// Before is set if it began before the trace, or where records were lost: From is when
	// the trace begins, and the futex is not known. If it is Woken, all that is known is
	// that it returned 0: it may have been a wakeup without a waiter.
	Before  bool
	Stack   *Stack
	Missing string // why there is no stack, "" if unknown
	// Waker is the thread that ended it, TID 0 if unknown, with when and where.
	Waker struct {
		TID, PID int32
		Comm     string
		At       tracefs.Time
		Line     int64 // of its call, 0 if unknown
		Stack    *Stack
		Sure     bool
	}
}

// Slept reports whether its time counts.
func (c *WaitCall) Slept() bool {
	return c.Result != Changed && c.Result != Failed && c.Result != NoReturn
}

// WaitCalls calls wait for each call that waits at a lock that is in the report,
// which must have been made with View.Top 0; calls that have ended in the order in
// which they did, then calls that have not. It calls lost for each time in which
// records were lost. It needs Options.Calls. A call is valid until wait returns.
func (a *Analysis) WaitCalls(r *Report, v View, wait func(*WaitCall) error, lost func(*LostTime) error) error {
	shown := r.shown()
	// Futexes that were too many to keep are left out if not all are wanted.
	all := len(v.PIDs)+len(v.Comms) == 0 && v.MinWait == 0
	err := a.log.each(logVisitor{lost: lost, hold: func(*lock, *Hold) error { return nil }, wait: func(l *lock, c *WaitCall) error {
		if l != nil {
			c.Lock = shown[l.find()]
		}
		if c.Lock == nil && !all || c.Result != NoReturn && c.To-c.From < v.MinWait {
			return nil
		}
		return wait(c)
	}})
	if err != nil || a.calls.noReturns() {
		return err
	}
	for _, th := range a.tasks.inOrder() {
		w := th.wait
		if !th.in || w == nil {
			continue
		}
		c := a.log.call(w, max(w.since, th.since), a.losses.End, Open)
		c.Stack, c.Missing = a.stacks.Get(w.stack), w.missing.String()
		if w.lock != nil {
			c.Lock = shown[w.lock.find()]
		}
		if c.Lock == nil && !all {
			continue
		}
		if err := wait(&c); err != nil {
			return err
		}
	}
	return nil
}

// shown returns the locks of the report by what they are made of.
func (r *Report) shown() map[*lock]*Lock {
	shown := make(map[*lock]*Lock)
	for _, list := range [][]*Lock{r.Locks, r.Signals} {
		for _, l := range list {
			for _, part := range l.parts {
				shown[part] = l
			}
		}
	}
	return shown
}

// call returns a call with what its wait has, except for the stacks.
func (g *callLog) call(w *wait, from, to tracefs.Time, r Result) WaitCall {
	c := WaitCall{TID: w.th.tid, PID: w.th.proc.find().tgid, Comm: w.th.comm, From: from, To: max(from, to), Line: w.th.line, Result: r, Resumed: w.resumed}
	if w.lock != nil {
		l := w.lock.find()
		c.HasLock, c.Address, c.Shared = true, l.key.addr, l.key.shared
		if g.numbered.locks.folded(l) {
			c.HasLock = false
		}
	}
	return c
}

// ended keeps a call that has ended, if that is wanted. line is where its return is, 0 if
// nowhere.
func (g *callLog) ended(w *wait, from, to tracefs.Time, r Result, line int64) {
	if !g.on {
		return
	}
	// A wait that has been moved can count from a time before its call.
	c := g.call(w, max(from, w.th.since), to, r)
	c.EndLine = line
	g.wait(w, &c)
}

// endedBefore keeps a call that began before the trace, if that is wanted.
func (g *callLog) endedBefore(th *thread, head tracefs.Head, att *resolve.Attached, to tracefs.Time, r Result, line int64) {
	if !g.on {
		return
	}
	w := wait{th: th, stack: g.stacks.Of(att), waker: waker{stack: noStack}}
	c := g.call(&w, g.losses.Beginning(to), to, r)
	c.Line, c.EndLine = 0, line
	c.Before, c.Comm = true, g.tasks.comms.Intern(head.Comm)
	if c.PID == tracefs.NoTID {
		c.PID = head.TGID
	}
	g.wait(&w, &c)
}
