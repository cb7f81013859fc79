package whole

import (
	"cmp"
	"time"

	"ustack/tracefs"
	"ustack/tracefs/sorting"
	"ustack/tracefs/text"
)

// Next returns the first batch that is held, if all that it waits for is known: the caller
// gives it back with Free. It is nil if there is none.
func (l *Lookout) Next() *Held {
	if len(l.line) == 0 {
		return nil
	}
	h := l.line[0]
	if h.open > 0 && (len(l.line) > maxLine || l.opt.Stage.opt.Now()-h.since > maxHold) {
		l.release(h)
	}
	if h.open > 0 {
		return nil
	}
	l.line[0] = nil
	l.line = l.line[1:]
	sorting.Func(h.unwound, func(x, y text.Unwound) int { return cmp.Compare(x.Record, y.Record) })
	text.Restack(&h.Batch, h.unwound)
	clear(h.unwound)
	h.unwound = h.unwound[:0]
	return h
}

// release ends the waits of a batch that have been waited for long enough.
func (l *Lookout) release(h *Held) {
	for _, w := range l.asked {
		if w.held == h && l.open.has(w) {
			l.lose(w)
		}
	}
}

// Free takes a batch back.
func (l *Lookout) Free(h *Held) {
	const most = 16
	if len(l.free) < most {
		l.free = append(l.free, h)
	}
}

// End ends all waits. No record of before a time is missing.
func (l *Lookout) End(until tracefs.Time) {
	l.Known(until)
	l.forget()
}

// Holds reports whether there are batches that are held back.
func (l *Lookout) Holds() bool { return l != nil && len(l.line) > 0 }

// Pause is how long the trace may be waited for until Known is to be called, 0 for as long
// as it takes.
func (l *Lookout) Pause() time.Duration {
	const moment = 20 * time.Microsecond
	switch {
	case !l.Holds():
		return 0
	case l.line[0].open == 0:
		return moment
	}
	return time.Millisecond
}
