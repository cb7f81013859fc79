package profile

import (
	"ustack/filemap"
	"ustack/filemap/resolve"
	"ustack/render/cache"
	"ustack/tracefs"
)

// Events is a renderer that counts the stacks of a trace, and writes the
// profile at the end. The resolver must have stitched. Stacks need no names before
// that: see Profile.Name.
//
// A stack counts one for each event that asked for it: a deferred stack is true for
// all of them. A stack whose event is not in the trace counts one, or what a BPF map has
// counted (tracefs.Counted). Mapping events are the kernel's own, and count nothing.
type Events struct {
	p     *Profile
	write func(*Profile) error
	comms filemap.Names
	known cache.Numbered[int32] // stacks of the profile, by the number of their Result
}

// knownBits is for the stacks that are templates: parsers have half as many.
const knownBits = 14

// NewEvents returns an Events that calls write at the end.
func NewEvents(write func(*Profile) error) *Events {
	return &Events{p: New(Samples), write: write, known: cache.New[int32](knownBits)}
}

// Batch implements render.Renderer.
func (e *Events) Batch(h *resolve.Pending) error {
	for i := range h.Records {
		rec, a := &h.Records[i], &h.Attached[i]
		switch {
		case rec.Flags&tracefs.Continued != 0:
		case rec.Kind == tracefs.KindEvent && a.Stack != nil:
			e.count(h, rec, e.stack(a.Stack), 1)
		case rec.Kind == tracefs.KindStack && !a.Taken:
			s := StackOf(h, i)
			n := int64(1)
			if rec.Flags&tracefs.Counted != 0 {
				n = int64(min(rec.Value, maxCount))
			}
			e.count(h, rec, e.stack(&s), n)
		}
	}
	return nil
}

// Flush implements render.Renderer; there is nothing to show yet.
func (e *Events) Flush() error { return nil }

// Close implements render.Renderer.
func (e *Events) Close(*resolve.Totals) error { return e.write(e.p) }

// maxCount bounds the count of a stack, so that a million of them can be added.
const maxCount = 1 << 43

func (e *Events) count(h *resolve.Pending, rec *tracefs.Record, stack int32, n int64) {
	labels := Labels{PID: rec.TID, Comm: e.comms.Intern(h.Head(rec).Comm)}
	if !h.Headed(rec) {
		labels.PID = 0
	}
	e.p.Add(stack, labels, Value{Count: n})
}

// stack returns the number of a stack. Those of stacks that are templates are kept.
func (e *Events) stack(s *resolve.Stack) int32 {
	if s.ResultID == 0 || s.Cut {
		return e.p.intern(s)
	}
	id, ok := e.known.Get(s.ResultID)
	if !ok {
		id = e.p.intern(s)
		e.known.Put(s.ResultID, id)
	}
	return id
}
