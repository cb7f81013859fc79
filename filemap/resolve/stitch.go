package resolve

import (
	"bytes"

	"ustack/filemap/symbol"
	"ustack/tracefs"
)

// Attached belongs to an event: the stack it asked for, or why it has none. Cookie
// is the kernel's cookie of the request, 0 if there was none.
type Attached struct {
	Stack   *Stack
	Cookie  uint64
	Missing Missing
	// Taken marks a stack record that is attached to an event, and a cookie record:
	// they need not be shown by themselves.
	Taken bool

	waits bool // for a stack, or for the note that none comes
}

// Stack is a user stack that events share.
type Stack struct {
	// ID is the stack's number among those of its Resolver, which count from 1; 0 if it
	// has none.
	ID uint64
	// Result is shared with stacks of the same template, nil if it has none.
	Result *Result
	// ResultID is the ID of the Result, 0 if it has none.
	ResultID uint64
	Cookie   uint64
	// Cut is set if its text ends too early, Stock if the kernel took it at the event.
	Cut, Stock bool
	// Text holds the frame lines; Frames point into it, Attributions is parallel
	// to them.
	Text         []byte
	Frames       []tracefs.Frame
	Attributions []Attribution
	// Functions is parallel to Frames, nil without names.
	Functions []symbol.Function

	pending *Pending // its batch, nil if it has its parts itself
	seq     int64    // of its batch
	rec     int32
	shared  bool // with an event of a later batch
	size    int  // of what detach has copied
	task    *task
}

// eventRef names an event in a held batch.
type eventRef struct {
	pending *Pending
	seq     int64
	rec     int32
	tid     int32
	ctx     uint64 // the flag columns, see context
}

// taskStitch is the stitcher's state of a task.
type taskStitch struct {
	asked []eventRef // events that wait for the stack of the task's cookie
	last  *Stack     // the last deferred stack: it serves later events too
	user  bool       // a cookie or stack has followed one of its events
}

// attachCookie attaches a request to its event.
func (s *stitcher) attachCookie(h *Pending, i int, rec *tracefs.Record, t *task) {
	h.Attached[i].Taken = true
	ref, ok := s.eventOf(h, rec)
	if !ok {
		h.Attached[i].Taken = false // its event is gone: let it stand
		return
	}
	t.stitch.user = true
	a := &ref.pending.Attached[ref.rec]
	a.Cookie = rec.Value
	switch {
	case rec.Value == 0:
		s.noStack(&ref, Refused)
	case t.stitch.last != nil && t.stitch.last.Cookie == rec.Value:
		s.give(&ref, t.stitch.last)
	case !t.pending:
		s.noStack(&ref, PendingTooLong)
	default:
		t.stitch.asked = append(t.stitch.asked, ref)
	}
}

// attachStack attaches a stack to the events that asked for it.
func (s *stitcher) attachStack(h *Pending, i int, rec *tracefs.Record, t *task) {
	if rec.Flags&tracefs.Continued != 0 {
		return
	}
	stack := s.newStack()
	s.made++
	stack.ID, stack.Cookie, stack.Cut, stack.Stock = s.made, rec.Value, rec.Flags&tracefs.Cut != 0, rec.Flags&tracefs.Deferred == 0
	stack.pending, stack.task, stack.seq, stack.rec, stack.ResultID = h, t, h.seq, int32(i), 0
	stack.shared, stack.size, stack.Functions = false, 0, nil // newStack leaves the last use
	stack.Frames, stack.Text = h.StackFrames(rec)
	if stack.Attributions, stack.Result = h.StackAttributions(i); stack.Result != nil {
		stack.ResultID = stack.Result.ID
	}
	h.stacks = append(h.stacks, stack)
	if rec.Flags&tracefs.Deferred == 0 {
		if ref, ok := s.eventOf(h, rec); ok {
			t.stitch.user = true
			s.give(&ref, stack)
			h.Attached[i].Taken = true
		}
		return
	}
	if last := t.stitch.last; last != nil {
		s.kept -= last.size
		last.size = 0
	}
	t.stitch.last = stack
	for k := range t.stitch.asked {
		ref := &t.stitch.asked[k]
		if !s.live(ref) {
			continue
		}
		if !s.queue.limits.within(ref.pending, &ref.pending.Records[ref.rec], h, rec) {
			s.noStack(ref, PendingTooLong)
			continue
		}
		s.give(ref, stack)
		h.Attached[i].Taken = true
	}
	if !h.Attached[i].Taken && s.again.Late.has(rec.TID, rec.Value) {
		h.Attached[i].Taken = true // by an event that is gone
	}
	t.stitch.asked = t.stitch.asked[:0]
}

// give attaches a stack to an event.
func (s *stitcher) give(ref *eventRef, stack *Stack) {
	a := &ref.pending.Attached[ref.rec]
	a.Stack = stack
	switch h := stack.pending; {
	case h == nil: // it needs no batch
	case stack.seq > ref.seq:
		ref.pending.needs = max(ref.pending.needs, stack.seq)
	case stack.seq < ref.seq:
		stack.shared, h.used = true, max(h.used, ref.seq)
	}
	s.done(ref, a)
}

// noStack ends the wait of an event.
func (s *stitcher) noStack(ref *eventRef, why Missing) {
	if !s.live(ref) {
		return
	}
	a := &ref.pending.Attached[ref.rec]
	if a.waits {
		a.Missing = why
		s.findLate(a, ref.tid)
		s.countBare(ref.pending, &ref.pending.Records[ref.rec], a)
	}
	s.done(ref, a)
}

// markers begin the bodies of records that the kernel gives no user stack:
// tracing_mark_write and tracing_mark_raw_write in kernel/trace/trace.c.
var markers = [...]string{"tracing_mark_write: ", "# "}

// countBare counts an event without a stack.
func (s *stitcher) countBare(h *Pending, rec *tracefs.Record, a *Attached) {
	if a.Stack != nil || rec.Kind != tracefs.KindEvent {
		return
	}
	body := h.Text[rec.Body:rec.End]
	for _, m := range markers {
		if len(body) >= len(m) && string(body[:len(m)]) == m {
			return
		}
	}
	s.stackless[a.Missing]++
}

// findLate looks for the stack of an event that could not wait for it.
func (s *stitcher) findLate(a *Attached, tid int32) {
	if a.Missing != PendingTooLong {
		return
	}
	if late := s.again.Late.find(tid, a.Cookie, s.again); late != nil {
		a.Stack, a.Missing = late, NotMissing
	} else {
		s.tooLate++
	}
}

func (s *stitcher) done(ref *eventRef, a *Attached) {
	if a.waits {
		a.waits = false
		ref.pending.events--
	}
}

// giveUp marks the events of a task's request: no stack will come.
func (s *stitcher) giveUp(t *task, why Missing) {
	for k := range t.stitch.asked {
		s.noStack(&t.stitch.asked[k], why)
	}
	t.stitch.asked = t.stitch.asked[:0]
}

// settleEvents ends the waiting of a batch that goes out.
func (s *stitcher) settleEvents(h *Pending) {
	for i := range h.Attached {
		a := &h.Attached[i]
		if !a.waits {
			continue
		}
		a.waits = false
		if a.Cookie != 0 {
			a.Missing = PendingTooLong
			s.findLate(a, h.Records[i].TID)
		}
		s.countBare(h, &h.Records[i], a)
	}
}

// keepLast lets the last stacks of threads, which later events may share, outlive their
// batch, which is about to go out. What goes out does not change any more: it may be read at
// the same time.
func (s *stitcher) keepLast(h *Pending) {
	for _, x := range h.stacks {
		switch {
		case x.task.stitch.last != x:
		case !x.shared && s.kept > maxKeptStacks:
			x.task.stitch.last = nil
		default:
			last := *x
			last.pending = nil
			s.kept += last.detach()
			x.task.stitch.last = &last
		}
	}
}

// freeStacks takes back the stacks of a batch that nothing needs any more.
func (s *stitcher) freeStacks(h *Pending) {
	s.free = append(s.free, h.stacks...)
	clear(h.stacks)
	h.stacks = h.stacks[:0]
}

// forget ends the requests of a task that is dropped.
func (s *stitcher) forget(t *task) {
	if t.stitch.last != nil {
		s.kept -= t.stitch.last.size
	}
	t.stitch = taskStitch{}
}

// newStack returns a Stack to be set.
func (s *stitcher) newStack() *Stack {
	if n := len(s.free) - 1; n >= 0 {
		x := s.free[n]
		s.free = s.free[:n]
		return x
	}
	return new(Stack)
}

// detach copies the parts that belong to the batch, and returns how much memory
// that took.
func (s *Stack) detach() (size int) {
	if s.Result != nil {
		return 0 // a template has no process
	}
	if len(s.Frames) == 0 {
		s.Text, s.Frames, s.Attributions = nil, nil, nil
		return 0
	}
	first, last := s.Frames[0].Off, s.Frames[len(s.Frames)-1].End
	s.Text = bytes.Clone(s.Text[first:last])
	s.Frames = append([]tracefs.Frame(nil), s.Frames...)
	s.Attributions = append([]Attribution(nil), s.Attributions...)
	for i := range s.Frames {
		f := &s.Frames[i]
		f.Off, f.End, f.AddrEnd = f.Off-first, f.End-first, f.AddrEnd-first
	}
	const perFrame = 64 // a Frame and an Attribution
	s.size = len(s.Text) + perFrame*len(s.Frames)
	return s.size
}

// maxKeptStacks bounds the memory of stacks that are kept for events that may
// come later in the same entry into the kernel.
const maxKeptStacks = 8 << 20
