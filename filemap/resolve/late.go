package resolve

import (
	"ustack/tracefs"
)

// LateStacks are the stacks of a trace that come too late for the events that
// asked for them: a task that sleeps longer than records are pending. They
// are found by reading the trace once more, if it can be read again.
type LateStacks struct {
	read   func(Options) error
	done   bool
	stacks map[lateKey]*Stack
	size   int
}

type lateKey struct {
	tid    int32
	cookie uint64
}

// maxLate bounds the memory of late stacks.
const maxLate = 8 << 20

// NewLateStacks returns the late stacks of a trace. read reads all of it
// through a resolver with the options that it is given.
func NewLateStacks(read func(Options) error) *LateStacks { return &LateStacks{read: read} }

// find returns the stack of a request, nil if there is none.
func (l *LateStacks) find(tid int32, cookie uint64, opt Options) *Stack {
	if l == nil {
		return nil
	}
	if !l.done {
		l.done = true
		l.stacks = make(map[lateKey]*Stack)
		opt.Late, opt.Stitch, opt.collect = nil, false, l
		// An error ends the stacks; the first reading meets it too.
		_ = l.read(opt)
	}
	return l.stacks[lateKey{tid, cookie}]
}

// has reports whether a stack has been found late: an event has it then.
func (l *LateStacks) has(tid int32, cookie uint64) bool {
	return l != nil && l.stacks[lateKey{tid, cookie}] != nil
}

// asked is where a task first asked for the stack of its cookie.
type asked struct {
	byte  int64
	line  int64
	time  tracefs.Time
	timed bool
}

// mark returns the place of a record, or one before it.
func (h *Pending) mark(rec *tracefs.Record) asked {
	a := asked{byte: h.byteOf(rec), line: h.Line}
	if h.Late > 0 {
		a.time, a.timed = h.Early, true
	} else if h.Timed(rec) {
		a.time, a.timed = h.Time(rec), true
	}
	return a
}

// late reports whether a stack is, or may be, beyond the limits of its request.
func (l *Limits) late(a *asked, h *Pending, rec *tracefs.Record) bool {
	b := h.mark(rec)
	if h.Late > 0 {
		b.time = h.Late
	}
	return l.Bytes > 0 && b.byte-a.byte > l.Bytes || l.Lines > 0 && h.Line+h.Lines-a.line > l.Lines ||
		l.Time > 0 && a.timed && b.timed && b.time-a.time > l.Time
}

// collect keeps a batch's late stacks, whose attributions are final.
func (l *LateStacks) collect(h *Pending) {
	for _, i := range h.late {
		rec := &h.Records[i]
		s := &Stack{Cookie: rec.Value, Cut: rec.Flags&tracefs.Cut != 0}
		s.Frames, s.Text = h.StackFrames(rec)
		var res *Result
		if s.Attributions, res = h.StackAttributions(int(i)); res != nil {
			s.Result = &Result{Attributions: s.Attributions} // its ID is of another Resolver
		}
		if l.size += s.detach(); l.size > maxLate {
			return
		}
		l.stacks[lateKey{rec.TID, rec.Value}] = s
	}
}
