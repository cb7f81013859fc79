package resolve

import "ustack/tracefs"

// owner is the stack that an announcement of its task belongs to, nil if none. torn
// means that records of the stack's CPU were lost in between, so the owner is
// unknown.
func (r *Resolver) owner(t *task, h *Held, rec *tracefs.Record, id tracefs.Identifier) (s *span, torn bool) {
	s = &t.span
	if s.held == nil || !r.queue.holds(s.seq) {
		return nil, false
	}
	stack := &s.held.Records[s.rec]
	if !r.queue.limits.within(s.held, stack, h, rec) || before(h, rec, s.held, stack) {
		return nil, false
	}
	frames, _ := s.held.StackFrames(stack)
	for k := range frames {
		if frames[k].ID == id {
			return s, r.losses.after(s.pos, s.cpu)
		}
	}
	return nil, false
}

// before reports whether a record that stands after a stack of its task is of a time
// before it: then another trace begins in between, of another boot perhaps.
func before(h *Held, rec *tracefs.Record, in *Held, stack *tracefs.Record) bool {
	return h.Timed(rec) && in.Timed(stack) && h.Time(rec) < in.Time(stack)
}
