package resolve

import (
	"ustack/filemap"
	"ustack/filemap/symbol"
	"ustack/tracefs"
)

// Limits bound how far after a record another one that belongs to it may come.
// Zero fields do not bound.
type Limits struct {
	Lines int64
	Bytes int64
	// Time is in nanoseconds of the trace; it does not bound traces whose
	// clock counts something else.
	Time tracefs.Time
}

// Pending is a batch with the attributions of its frames.
type Pending struct {
	*tracefs.Batch
	// Attributions is parallel to Frames.
	Attributions []Attribution
	// Results is parallel to Records if the batch has Templates: the results of the
	// stacks that are templates.
	Results []*Result
	// Attached is parallel to Records, empty without Options.Stitch.
	Attached []Attached
	// Functions is parallel to Records once the stacks that are shown have names, empty
	// before: see StackFunctions.
	Functions [][]symbol.Function
	// Prepared is for the renderer: what it has found out about the batch before its turn.
	Prepared any

	uses   []use                     // parallel to Templates, right as of table
	table  int64                     // Version of the table
	named  [filemap.TrustCount]int64 // frames of the Results that all have one trust
	mixed  []*Result                 // the others
	shares shares

	seq     int64
	first   filemap.Pos // of its records
	names   int         // spans and frames that a mapping event may still come for
	events  int         // events that a stack may still come for
	needs   int64       // seq of the newest batch whose stacks hang on events here
	used    int64       // seq of the newest batch whose events have stacks of this one
	waiters []waiter    // frames that wait
	stacks  []*Stack
	end     mark
	late    []int32 // late stacks
	final   bool    // settled
	waits   []int32 // stacks of futex calls that can wait
}

// MakeFunctions makes Functions, all nil.
func (h *Pending) MakeFunctions() { h.Functions = grown(h.Functions, len(h.Records)) }

// StackFunctions returns the functions of the frames of a stack record that no event has,
// nil without names.
func (h *Pending) StackFunctions(i int) []symbol.Function {
	if len(h.Functions) == 0 {
		return nil
	}
	return h.Functions[i]
}

// mark is a point in the stream.
type mark struct {
	pos   int64
	lines int64
	time  tracefs.Time
	timed bool
}

// endOf returns the end of a batch, where the one before ends at now.
func endOf(b *tracefs.Batch, now mark) mark {
	end := mark{pos: b.Pos + int64(len(b.Text)), lines: b.Line + b.Lines, time: now.time, timed: now.timed}
	for i := len(b.Records) - 1; i >= 0; i-- {
		if rec := &b.Records[i]; b.Timed(rec) {
			end.time, end.timed = b.Time(rec), true
			break
		}
	}
	return end
}

// expired reports whether a batch that ends at one mark is out of the limits at
// another one.
func (l *Limits) expired(end, now *mark) bool {
	return l.Bytes > 0 && now.pos-end.pos > l.Bytes ||
		l.Lines > 0 && now.lines-end.lines > l.Lines ||
		l.Time > 0 && now.timed && end.timed && now.time-end.time > l.Time
}

// pos returns the place of a record in the input.
func (h *Pending) pos(i int) filemap.Pos { return h.first + filemap.Pos(i) }

// byteOf returns the offset of a record's text in the input.
func (h *Pending) byteOf(rec *tracefs.Record) int64 { return h.Pos + int64(rec.Off) }

// restate gives the frames of a stack with an identifier a new attribution. Frames
// that own a mapping event keep theirs if o does not own one. It leaves a batch that is final
// as it is: an event that has gone out may have the stack, and be read at the same time.
func (h *Pending) restate(i int, id tracefs.Identifier, o Attribution) {
	if h.final {
		return
	}
	frames, _ := h.StackFrames(&h.Records[i])
	var out []Attribution
	for k := range frames {
		if f := &frames[k]; f.ID != id || f.Form != tracefs.FormIdentifier {
			continue
		}
		if out == nil {
			out = h.ownAttributions(i)
		}
		switch {
		case !out[k].own:
			out[k] = o
		case o.own && out[k].File != o.File:
			// Two mapping events of one identifier, both this stack's.
			out[k] = unnamed(filemap.Ambiguous)
			out[k].own = true
		}
	}
}

// disown gives the frames of a stack with an identifier that own a mapping event another
// attribution: the event was not theirs. It leaves a batch that is final, as restate does.
func (h *Pending) disown(i int, id tracefs.Identifier, o Attribution) {
	if h.final {
		return
	}
	frames, _ := h.StackFrames(&h.Records[i])
	out := h.ownAttributions(i)
	for k := range frames {
		if f := &frames[k]; f.ID == id && f.Form == tracefs.FormIdentifier && out[k].own {
			out[k] = o
		}
	}
}

// grown returns s with n zero elements.
func grown[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n, n+n/4)
	}
	s = s[:n]
	clear(s)
	return s
}

// within reports whether a later record is within the limits of an earlier
// one. It depends on the two records alone, not on how the input came in.
func (l *Limits) within(h *Pending, rec *tracefs.Record, lh *Pending, later *tracefs.Record) bool {
	if l.Bytes > 0 && lh.byteOf(later)-h.byteOf(rec) > l.Bytes {
		return false
	}
	// Times are read only if they can matter: they are far away by now.
	known := h.Late > 0 && lh.Late > 0 && lh.Late-h.Early <= l.Time
	if l.Time > 0 && !known && h.Timed(rec) && lh.Headed(later) &&
		lh.Time(later)-h.Time(rec) > l.Time {
		return false
	}
	// Lines are counted only if they can matter.
	if l.Lines > 0 && lh.Line+lh.Lines-h.Line > l.Lines {
		return lh.LineOf(later)-h.LineOf(rec) <= l.Lines
	}
	return true
}
