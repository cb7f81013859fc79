package futex

import (
	"ustack/tracefs"
	"ustack/tracefs/syscalls"
)

// beginWake begins a call that wakes others.
func (c *calls) beginWake(th *thread, t tracefs.Time) {
	f := &th.futex
	key := keyOf(f)
	l := c.locks.known(th, key)
	if key.shared && len(c.locks.files) > 0 {
		l = c.locks.lock(th, key, t) // another process's, if it is in a file
	}
	k := &wake{th: th, lock: l, key: key, asked: f.Val, at: t, line: th.line, stack: th.stack, first: int(min(f.Val, 1<<30)), pi: f.Cmd.PI(),
		elsewhere: f.Cmd == syscalls.WakeOp && f.Val2 > 0}
	if f.Cmd == syscalls.UnlockPI {
		k.asked = 1
	}
	if f.Cmd.Moves() && f.Addr2 != 0 {
		k.move = c.locks.lock(th, lockKey{f.Addr2, key.shared}, t)
		if l != nil {
			l = l.find() // it may have been folded to make room
		}
	}
	k.site = c.sites.site(key, l)
	if len(k.site.wakes) < maxSiteCalls {
		k.site.wakes = append(k.site.wakes, k)
	}
	if len(k.site.waiters) > 0 {
		k.site.past.add(k)
	}
	if l != nil && th.got != nil && th.got.find() == l {
		if !th.left(l, th.gotCall) {
			k.got, k.ownedCall = th.gotAt, th.gotCall
		}
		th.got = nil
	}
	if k.owned = k.got; l != nil && l.owner == th.tid && l.owning == th {
		k.owned, k.ownedCall, k.passed = l.ownedFrom, l.ownedCall, l.given
	}
	c.held.releases(k, l)
	th.wake = k
	if l == nil {
		return
	}
	l.active++
	k.turn = l.passes(th.tid)
	l.traits.wake(k.asked, k.move != nil)
	c.holders.releasedBy(th, l)
}

// wakeEnded ends such a call.
func (c *calls) wakeEnded(k *wake, t tracefs.Time, e *syscalls.Event) {
	n := 0
	switch {
	case !e.HasResult:
	case k.pi && k.move == nil:
		// UNLOCK_PI hands the lock to the first waiter, and returns 0.
		if e.Result == 0 {
			n = min(1, len(k.site.waiters))
		}
	case e.Result > 0:
		n = int(min(e.Result, 1<<30))
	}
	if k.elsewhere {
		n = min(n, k.first) // the others were woken there
	}
	k.woke, k.woken = n > 0, n
	c.held.ended(k)
	if n > 0 && (k.lock != nil || len(k.site.waiters) > 0 || k.claimed > 0) {
		l := c.sites.lockOf(k)
		l.lastWake = max(l.lastWake, k.at)
	}
	if n == 0 && e.HasResult && e.Result == 0 {
		c.sites.empty.add(k.site.key, emptyWake{k.th.proc.find(), k.th.tid, k.at, k.stack})
		if k.lock != nil {
			k.lock.find().traits.empties++
		}
	}
	if l := k.lock; l != nil {
		l.find().active--
		if n > 0 {
			l.find().passed(k.turn)
		}
	}
	c.sites.wakeReturned(k, n, t)
}
