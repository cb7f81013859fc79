package resolve

import (
	"bytes"

	"ustack/tracefs"
	"ustack/tracefs/syscalls"
)

// entry is how a thread entered the kernel, as far as it is known.
type entry struct {
	syscall bool   // its last event is a system call's
	losses  int64  // places where records are missing, before that event
	cookie  uint64 // of the last entry by a system call
	// asked is the cookie of the last entry, since the time of the first event
	// that has it.
	asked uint64
	since tracefs.Time
	asks  bool         // the record at hand is the first one with that cookie
	left  tracefs.Time // of its last deferred stack
	// sigreturn: its last event can be of sigreturn(2), jumped is the cookie of the last
	// entry with such an event.
	sigreturn bool
	jumped    uint64
}

// maxEntries bounds the threads whose entry is kept.
const maxEntries = 1 << 16

// querier passes stacks to the Attributor, with what it knows of how their threads came into
// the kernel.
//
// Invariants: few threads are known, and of none more losses than of all. The stack that is
// asked about has an attribution for each frame.
type querier struct {
	attributor Attributor // nil for none
	exact      bool       // Options.Exact
	why        *Why
	entries    map[int32]*entry
	last       *entry // of lastTID: a thread mostly has many records in a row
	lastTID    int32
	missed     int64 // places where records are missing, of what has been attributed
	taken      taken
	query      Query // the one that is attributed
}

// batch passes every stack of a batch to the Attributor.
func (j *querier) batch(h *Pending) {
	if j.attributor == nil {
		return
	}
	time := func(rec *tracefs.Record) tracefs.Time { return j.time(h, rec) }
	defer j.taken.leave(time)
	for i := range h.Records {
		rec := &h.Records[i]
		switch rec.Kind {
		case tracefs.KindEvent:
			j.enter(h, rec)
			j.taken.open(rec, context(h, rec))
		case tracefs.KindCookie:
			j.enter(h, rec)
			_, first := j.taken.take(rec, context(h, rec), time)
			j.asked(rec, first)
		case tracefs.KindLost, tracefs.KindGap:
			j.missed++
			j.taken.lose(rec)
		case tracefs.KindStack:
			var event tracefs.Time
			if rec.Flags&(tracefs.Deferred|tracefs.Continued|tracefs.Counted) == 0 {
				event, _ = j.taken.take(rec, context(h, rec), time)
			}
			j.stack(h, i, rec, event)
		}
	}
}

// time returns a record's time in nanoseconds, 0 if that is unknown.
func (j *querier) time(h *Pending, rec *tracefs.Record) tracefs.Time {
	if !h.Timed(rec) {
		return 0
	}
	if t, ok := h.Exact(rec); ok && j.exact {
		return t
	}
	return h.Time(rec)
}

// stack passes a stack to the Attributor, with the time of its event if the kernel took it
// at once. Of the stacks of a settled template the first one is for all.
func (j *querier) stack(h *Pending, i int, rec *tracefs.Record, event tracefs.Time) {
	var shared *Result
	if rec.Template != 0 && h.Templates[rec.Template-1].Settled {
		if shared = h.Results[i]; shared.settled {
			return
		}
		defer shared.settle()
	}
	s := &j.query // one for all: an Attributor may be anything, so it would be made anew for each
	*s = Query{TID: rec.TID, TGID: tracefs.NoTID, Continued: rec.Flags&tracefs.Continued != 0, Joined: rec.Flags&tracefs.Joined != 0, batch: h.Batch, record: rec}
	s.Frames, s.Text = h.StackFrames(rec)
	s.Attributions, _ = h.StackAttributions(i)
	if h.Timed(rec) {
		s.Timed, s.Time = true, j.time(h, rec)
	}
	if event > 0 && event < s.Time {
		s.Event = event
	}
	s.Deferred = rec.Flags&tracefs.Deferred != 0
	if s.Deferred && rec.Value != 0 {
		j.ask(s, rec)
	}
	if j.why != nil {
		j.why.ask(h, rec, s)
	}
	j.attributor.Attribute(s)
}

// ask asks for the proof of a frame if it is in a stack.
func (w *Why) ask(h *Pending, rec *tracefs.Record, s *Query) {
	line := h.LineOf(rec) + 1
	if w.Line < line || w.Line > line+int64(bytes.Count(h.Raw(rec), []byte{'\n'})) {
		return
	}
	for k := range s.Frames {
		if f := &s.Frames[k]; f.Off != f.End && h.Line+int64(bytes.Count(h.Text[:f.Off], []byte{'\n'}))+1 == w.Line {
			w.Steps = nil
			s.why, s.asked = &w.Steps, k
		}
	}
}

// Identify sets Comm and TGID, if the text has them. It takes time, and few
// Attributors use them.
func (s *Query) Identify() {
	if s.record == nil {
		return
	}
	comm, tgid := s.batch.Who(s.record)
	s.Comm, s.TGID = known(comm), tgid
}

// known returns a thread's name, nil if the kernel had forgotten it.
func known(comm []byte) []byte {
	if string(comm) == tracefs.CommUnknown {
		return nil
	}
	return comm
}

// enter notes the cookies of system calls: all events between an entry into
// the kernel and the return from it have the same one.
func (j *querier) enter(h *Pending, rec *tracefs.Record) {
	e := j.entry(rec.TID)
	if rec.Kind == tracefs.KindCookie && e.sigreturn {
		e.jumped = rec.Value
	}
	if rec.Kind == tracefs.KindCookie && e.asked != rec.Value {
		e.asked, e.since, e.asks = rec.Value, 0, true
		if h.Timed(rec) {
			e.since = h.Time(rec)
		}
	}
	switch {
	case rec.Kind == tracefs.KindEvent:
		e.losses = j.missed
		if rec.Origin != 0 {
			e.syscall = rec.Flags&tracefs.Returns != 0
		} else {
			e.syscall = rec.Body > rec.Off && syscalls.Returns(h.Text[rec.Body:rec.End])
		}
		e.sigreturn = !e.syscall && rec.Body > rec.Off && syscalls.Sigreturn(h.Text[rec.Body:rec.End])
	case e.syscall && e.losses == j.missed: // else the cookie can belong to a missing event
		e.cookie = rec.Value
	}
}

// entry returns the entry of a thread, to be changed.
func (j *querier) entry(tid int32) *entry {
	if j.last != nil && j.lastTID == tid {
		return j.last
	}
	e := j.entries[tid]
	if e == nil {
		if j.entries == nil || len(j.entries) >= maxEntries {
			j.entries = make(map[int32]*entry)
		}
		e = new(entry)
		j.entries[tid] = e
	}
	j.last, j.lastTID = e, tid
	return e
}

// asked takes the event of a cookie: an interrupt between the two can take long.
func (j *querier) asked(rec *tracefs.Record, event tracefs.Time) {
	e := j.entry(rec.TID)
	if e.asks && e.left < event && event < e.since {
		e.since = event
	}
	e.asks = false
}

// ask sets since when a deferred stack was requested, by its cookie, and whether by a
// system call.
func (j *querier) ask(s *Query, rec *tracefs.Record) {
	e := j.entry(rec.TID)
	if e.asked == rec.Value {
		s.Asked = e.since
	}
	s.Jumped = e.jumped != 0 && e.jumped == rec.Value
	s.Syscall = rec.Flags&tracefs.Continued == 0 && e.cookie == rec.Value
	e.left = s.Time
}
