package resolve

import "ustack/tracefs"

// requests are the stacks that threads have asked for: a cookie is given out when a
// thread asks, and its stack has that cookie.
//
// Invariants: a thread whose stack has not come has a cookie. A thread has no events that
// wait for the stack of its cookie if that has come. Each request that was made waits, or
// its stack has come, or it is counted as missing.
type requests struct {
	made    int64               // distinct cookies
	orphans int64               // stacks whose request is not in the trace
	missing [MissingCount]int64 // requests, but Refused: a refusal has no cookie
	late    bool                // find the late stacks

	queue  *queue
	losses *losses
	owners *owners
	names  *names
	stitch *stitcher
}

// cookie notes that a thread asked for a stack.
func (r *requests) cookie(t *task, h *Pending, rec *tracefs.Record) {
	if rec.Value == 0 {
		r.missing[Refused]++
		return
	}
	r.names.ask(t, rec)
	if ended := r.owners.enter(t, rec.Value); !ended && rec.Value == t.cookie {
		return
	}
	if r.late {
		t.asked = h.mark(rec)
	}
	r.ask(t, rec.Value)
}

// ask notes the cookie that a thread's events carry now. One cookie is
// one request, however many events carry it.
func (r *requests) ask(t *task, cookie uint64) {
	if t.cookie == cookie {
		return
	}
	r.hopeless(t)
	t.cookie, t.pending, t.losses = cookie, true, r.losses.noted
	r.made++
}

// hopeless gives up a request: the thread has another cookie, so its stack will
// not come (FORMATS 2.3).
func (r *requests) hopeless(t *task) {
	if t.losses != r.losses.noted {
		r.giveUp(t, LostStack)
	} else {
		r.giveUp(t, Dropped)
	}
}

// giveUp ends the request of a thread, if it has one.
func (r *requests) giveUp(t *task, why Missing) {
	if !t.pending {
		return
	}
	t.pending = false
	r.missing[why]++
	r.stitch.giveUp(t, why)
}

// stack notes that the stack of a cookie has come.
func (r *requests) stack(t *task, h *Pending, i int, rec *tracefs.Record) {
	if r.late && t.pending && t.cookie == rec.Value && r.queue.limits.late(&t.asked, h, rec) {
		h.late = append(h.late, int32(i))
	}
	if rec.Flags&tracefs.Deferred == 0 || rec.Value == 0 {
		return
	}
	if t.cookie != rec.Value {
		r.hopeless(t)
		t.cookie = rec.Value
		r.orphans++
	}
	t.pending = false
}

// forget ends the request of a thread that is dropped.
func (r *requests) forget(t *task) {
	if t.pending {
		t.pending = false
		r.missing[Forgot]++
	}
}
