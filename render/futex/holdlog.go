package futex

import (
	"ustack/filemap/resolve"
	"ustack/render/lost"
	"ustack/tracefs"
)

// begin begins with a batch of the trace.
func (g *callLog) begin(h *resolve.Pending) {
	if g.on {
		g.lines.Begin(h.Batch)
	}
}

// line returns the line of a record of the batch, 0 if calls are not kept.
func (g *callLog) line(i int) int64 {
	if !g.on {
		return 0
	}
	return g.lines.Of(i)
}

// counts reports whether a hold counts in spite of gaps, and whether it has an upper
// bound.
func (h *hold) counts(g *lost.Gaps) (counted, bounded bool) {
	sure, from := h.certain(g)
	return sure && (from || !h.exact), from
}

// held keeps a hold that counts, if that is wanted.
func (g *callLog) held(h *hold, gaps *lost.Gaps) {
	if !g.on {
		return
	}
	counted, bounded := h.counts(gaps)
	if !counted {
		return
	}
	g.uint(logHold)
	g.int(int64(g.number(h.lock.find())))
	g.int(int64(h.tid))
	g.text(h.comm)
	g.int(int64(h.to))
	g.int(int64(h.low()))
	if high := h.high(); bounded {
		g.int(int64(high))
	} else {
		g.int(-1)
	}
	g.bool(h.exact)
	g.bool(h.waited)
	g.int(int64(h.waiters))
	g.int(int64(h.stack))
	g.int(h.line)
	g.int(h.fromLine)
	g.spill()
}

// hold reads a hold.
func (r *logReader) hold(h *Hold) (l *lock) {
	if n := r.int(); n > 0 {
		l = r.log.numbered.list[n-1]
	}
	h.TID = int32(r.int())
	h.Comm = r.text()
	h.To, h.Low, h.High = tracefs.Time(r.int()), tracefs.Time(r.int()), tracefs.Time(r.int())
	h.Exact, h.Waited, h.Waiters = r.bool(), r.bool(), int(r.int())
	h.Stack = r.log.stacks.Get(int32(r.int()))
	h.Line, h.FromLine = r.int(), r.int()
	return l
}

// EachHold calls hold for each contended hold that Holds of the locks in the report count,
// in the order of their ends, without what the owner did. The report must have been made by
// Report with View.Top 0. It needs Options.Calls. A hold is valid until hold returns.
func (a *Analysis) EachHold(r *Report, hold func(*Hold) error) error {
	shown := r.shown()
	return a.log.each(logVisitor{
		wait: func(*lock, *WaitCall) error { return nil },
		lost: func(*LostTime) error { return nil },
		hold: func(l *lock, h *Hold) error {
			if l != nil {
				h.Lock = shown[l.find()]
			}
			if h.Lock == nil || h.Lock.Holds == nil {
				return nil
			}
			return hold(h)
		},
	})
}
