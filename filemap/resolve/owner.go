package resolve

import (
	"ustack/filemap"
	"ustack/tracefs"
)

// owners finds the stack that a mapping event belongs to.
//
// Invariants: the span of a thread whose stack is held begins at that stack, which has an
// identifier. Few files that were announced before a stack are kept, and only of one
// cookie.
type owners struct {
	queue  *queue
	losses *losses
}

// A span is the time in which mapping events of a task belong to its stack. The
// kernel reserves the stack record first and announces new files right after, from
// the same task, before that returns to user space; so the span ends with the
// task's next entry into the kernel, that is with a cookie that is not the stack's.
// Where records of its CPU are missing, the end is unknown.
type span struct {
	pending *Pending
	seq     int64
	rec     int
	pos     filemap.Pos
	cookie  uint64
	cpu     int32
	// unconfirmed are mapping events since the thread's last cookie.
	unconfirmed []earlyFile
}

// stack ends the span of a thread at its next stack, and begins the stack's span if
// mapping events can be about it. A continuation has a span if the stack before it
// has none.
func (o *owners) stack(t *task, h *Pending, i int, rec *tracefs.Record, identified bool) {
	if rec.Flags&tracefs.Continued != 0 && (!identified || t.span.pending != nil && o.queue.holds(t.span.seq)) {
		return
	}
	o.end(t)
	if identified {
		t.span = span{pending: h, seq: h.seq, rec: i, pos: h.pos(i), cookie: rec.Value, cpu: rec.CPU, unconfirmed: t.span.unconfirmed[:0]}
		h.names++
	}
}

// claim notes that a mapping event is taken for the span's. A mapping event asks for a
// stack, too, if its own instance has the option: the thread's next cookie is that of the
// entry into the kernel in which the event was made.
func (s *span) claim(id tracefs.Identifier, b *filemap.Binding) {
	if s.pending.Records[s.rec].Source == b.Source && len(s.unconfirmed) < maxEarly {
		s.unconfirmed = append(s.unconfirmed, earlyFile{id, *b})
	}
}

// disown takes back the mapping events that were made in another entry into the kernel
// than the span's stack: because of a stack of another instance, or of another tool. By
// then the mapping can be another one. The thread has another cookie; that is the event's
// if events of this input ask for stacks.
func (n *names) disown(t *task) {
	s := &t.span
	if s.pending == nil || !n.queue.holds(s.seq) || len(s.unconfirmed) == 0 {
		return
	}
	if !n.asking[s.pending.Records[s.rec].Source] {
		if len(n.undecided) == maxUndecided {
			n.decide()
		}
		if len(n.undecided) < maxUndecided {
			n.undecided = append(n.undecided, *s)
			s.pending.names++
			s.unconfirmed = nil
		}
		return
	}
	n.disownSpan(s)
}

// maxUndecided bounds the spans of which it is not known yet whether their mapping events
// are their own.
const maxUndecided = 1 << 10

// decide takes back the mapping events that inputs had before it was known that they ask
// for stacks, as far as their stacks are held.
func (n *names) decide() {
	list := n.undecided
	n.undecided = list[:0]
	for i := range list {
		switch s := list[i]; {
		case !n.queue.holds(s.seq):
		case n.asking[s.pending.Records[s.rec].Source]:
			n.disownSpan(&s)
			s.pending.names--
		default:
			n.undecided = append(n.undecided, s)
		}
	}
}

func (n *names) disownSpan(s *span) {
	for i := range s.unconfirmed {
		id, b := s.unconfirmed[i].id, &s.unconfirmed[i].b
		e := n.bindings.table.Entry(id)
		e.Disown(b.At)
		n.bindings.table.Version++
		at, ambiguous := e.At(s.pos)
		o := bound(b)
		switch {
		case ambiguous:
			o = unnamed(filemap.Ambiguous)
		case at != nil:
			o = bound(at)
		}
		s.pending.disown(s.rec, id, o)
		n.rename(e, b.From, b.At)
	}
	s.unconfirmed = s.unconfirmed[:0]
}

// ask notes the cookie of a thread: if it has had that before, and mapping events since,
// these ask for stacks, too.
func (n *names) ask(t *task, rec *tracefs.Record) {
	if t.announced && rec.Value == t.cookie && !n.asking[rec.Source] {
		n.asking[rec.Source] = true
		n.decide()
	}
	t.announced = false
	if rec.Value == t.span.cookie {
		t.span.unconfirmed = t.span.unconfirmed[:0]
		return
	}
	n.disown(t)
}

// enter ends the span of a thread if it has another cookie, and reports whether it
// did.
func (o *owners) enter(t *task, cookie uint64) (ended bool) {
	if t.span.pending == nil || t.span.cookie == cookie {
		return false
	}
	o.end(t)
	return true
}

// end ends the span of a thread, if it has one.
func (o *owners) end(t *task) {
	if s := &t.span; s.pending != nil {
		if o.queue.holds(s.seq) {
			s.pending.names--
		}
		s.pending = nil
	}
}

// of returns the stack that a mapping event of its task belongs to, nil if none.
// torn means that records of the stack's CPU were lost in between, so the owner
// is unknown.
func (o *owners) of(t *task, h *Pending, rec *tracefs.Record, id tracefs.Identifier) (s *span, torn bool) {
	s = &t.span
	if s.pending == nil || !o.queue.holds(s.seq) {
		return nil, false
	}
	stack := &s.pending.Records[s.rec]
	if !o.queue.limits.within(s.pending, stack, h, rec) || before(h, rec, s.pending, stack) {
		return nil, false
	}
	frames, _ := s.pending.StackFrames(stack)
	for k := range frames {
		if frames[k].ID == id {
			return s, o.losses.after(s.pos, s.cpu)
		}
	}
	return nil, false
}

// before reports whether a record after a stack of its task has an earlier time:
// then another trace begins in between, of another boot perhaps.
func before(h *Pending, rec *tracefs.Record, in *Pending, stack *tracefs.Record) bool {
	return h.Timed(rec) && in.Timed(stack) && h.Time(rec) < in.Time(stack)
}

// early are mapping events that the kernel made before it wrote a task's stack, as
// some kernels do. It belongs to the stack of the same entry into the kernel,
// which has its cookie.
type early struct {
	cookie uint64
	list   []earlyFile
}

type earlyFile struct {
	id tracefs.Identifier
	b  filemap.Binding
}

// maxEarly bounds the mapping events before one stack.
const maxEarly = 256

// expect keeps a mapping event for the stack that the task has asked for and that
// has not come.
func (o *owners) expect(t *task, id tracefs.Identifier, b *filemap.Binding) {
	if !t.pending || t.cookie == 0 {
		return
	}
	if t.early == nil {
		t.early = new(early)
	}
	if t.early.cookie != t.cookie {
		t.early.cookie, t.early.list = t.cookie, t.early.list[:0]
	}
	if len(t.early.list) < maxEarly {
		t.early.list = append(t.early.list, earlyFile{id, *b})
	}
}

// nameEarly names the frames of a stack whose files were announced before it.
func (o *owners) nameEarly(t *task, h *Pending, i int, rec *tracefs.Record) {
	if t.early.cookie == rec.Value {
		for k := range t.early.list {
			e := &t.early.list[k]
			h.restate(i, e.id, owned(&e.b))
		}
	}
	t.early.list = t.early.list[:0]
	t.early.cookie = 0
}
