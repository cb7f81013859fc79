package record

import (
	"ustack/filemap/resolve"
	"ustack/render/cause"
	"ustack/tracefs"
	"ustack/tracefs/syscalls"
)

// place is where in its program a thread made a call, as far as causes compare it.
type place struct {
	frames [cause.MostFrames]cause.Frame
	n      uint8
}

// list returns the frames.
func (p *place) list() []cause.Frame { return p.frames[:p.n] }

// places keeps where threads wait for futexes, and where others let them go on.
type places struct {
	waits map[int32]place // of threads that wait, once their stack has come
	wakes map[lockID]wakeup
	calls map[int32]pendingCall // whose stack has not come
}

// wakeup is where a futex was woken last.
type wakeup struct {
	at tracefs.Time
	place
}

// pendingCall is a call that has begun.
type pendingCall struct {
	wakes bool
	lock  lockID
	at    tracefs.Time
}

// maxWakes bounds the futexes of which it is kept where they were woken.
const maxWakes = 4096

func newPlaces() *places {
	return &places{make(map[int32]place), make(map[lockID]wakeup), make(map[int32]pendingCall)}
}

// enter takes the entry into a call that waits or wakes.
func (p *places) enter(tid int32, f *syscalls.Futex, lock lockID, at tracefs.Time) {
	delete(p.waits, tid)
	if len(p.calls) < maxWaits {
		p.calls[tid] = pendingCall{f.Cmd.Wakes(), lock, at}
	}
}

// leave takes the return from any call.
func (p *places) leave(tid int32) { delete(p.calls, tid) }

// stack takes a stack. The first one after an entry, and before the return, is of the call.
func (p *places) stack(h *resolve.Pending, i int) {
	rec := &h.Records[i]
	call, ok := p.calls[rec.TID]
	if !ok || rec.Flags&(tracefs.Continued|tracefs.Deferred) != 0 {
		return
	}
	delete(p.calls, rec.TID)
	frames, text := h.StackFrames(rec)
	attributions, _ := h.StackAttributions(i)
	var at place
	if list, ok := cause.AppendStack(at.frames[:0], text, frames, attributions); ok {
		at.n = uint8(len(list))
	}
	switch {
	case !call.wakes && len(p.waits) < maxWaits:
		p.waits[rec.TID] = at
	case call.wakes:
		if len(p.wakes) >= maxWakes {
			clear(p.wakes) // most are of calls that woke none
		}
		p.wakes[call.lock] = wakeup{call.at, at}
	}
}

// of returns the cause of a wait that has ended, nil if it is unknown, and forgets the wait.
func (p *places) of(tid int32, w begunWait) *cause.Cause {
	waiter := p.waits[tid]
	delete(p.waits, tid)
	c := &cause.Cause{Kind: w.cmd.String(), Waiter: waiter.list()}
	if wake, ok := p.wakes[w.lock]; ok && wake.at >= w.since {
		c.Owner = wake.list()
	}
	if !c.Certain() {
		return nil
	}
	return c
}
