package resolve

import (
	"math"

	"ustack/filemap"
	"ustack/tracefs"
)

// names gives the frames with identifiers their files, by the mapping events before them
// or, while their batch is held, after them.
//
// Invariants: of a held batch that is not final, as many frames wait and spans are open or
// undecided as it counts. Frames wait in the order of their batches, which are held, for an
// identifier that is not announced, and have no file, or had their own mapping event.
type names struct {
	waiting map[*filemap.Entry][]waiter
	// announced counts mapping events, bad the unusable ones, rebound the ones
	// that changed an identifier's meaning.
	announced, bad, rebound int64
	// asking are the inputs in which mapping events ask for stacks, too; undecided are the
	// spans of others with mapping events of another entry into the kernel, if they do.
	asking    [math.MaxUint8 + 1]bool
	undecided []span

	sources  int
	first    func(tracefs.Identifier) (a tracefs.MappingEvent, losses int64, ok bool) // Options.First
	queue    *queue
	losses   *losses
	bindings *bindings
	texts    *texts
	owners   *owners
}

// waiter is a frame whose identifier has not been announced yet.
type waiter struct {
	pending *Pending
	rec     int32
	entry   *filemap.Entry // the table may have forgotten it
	out     *Attribution
	// losses is how many there were before the frame.
	losses int64
}

// frames gives the frames of a stack their attributions. identified means that
// mapping events can be about the stack, waits that it waits for one.
func (n *names) frames(h *Pending, i int, rec *tracefs.Record, frames []tracefs.Frame, text []byte, out []Attribution) (identified, waits bool) {
	pos := h.pos(i)
	plain := 0
	for k := range frames {
		f := &frames[k]
		switch {
		case f.Form == tracefs.FormIdentifier && !f.ID.NoFile() && !f.ID.NoVMA():
			identified = true
			if !n.lookup(h, i, rec, f.ID, pos, &out[k]) {
				waits = true
			}
			continue
		case f.Form == tracefs.FormPlain:
			if !f.Followed() {
				plain++
			}
			out[k] = unnamed(filemap.NoAddressSpace)
			continue
		}
		out[k] = n.texts.attribution(text, f)
	}
	if plain > 0 && rec.Flags&tracefs.Deferred != 0 {
		n.texts.plainStack(text, frames, out)
	}
	return identified, waits
}

// lookup gives a frame with an identifier its file, or lets it wait; then it
// returns false.
func (n *names) lookup(h *Pending, i int, rec *tracefs.Record, id tracefs.Identifier, pos filemap.Pos, out *Attribution) bool {
	e := n.bindings.table.Entry(id)
	e.LastUse = max(e.LastUse, pos)
	b, ambiguous := e.At(pos)
	switch {
	case b == nil && e.Forgotten:
		*out = unnamed(filemap.Forgotten)
	case b == nil:
		w := waiter{pending: h, rec: int32(i), entry: e, out: out, losses: n.losses.count()}
		n.waiting[e] = append(n.waiting[e], w)
		h.waiters = append(h.waiters, w)
		h.names++
		*out = unnamed(n.losses.unannounced())
		return false
	case ambiguous || n.sources > 1 && tied(h, rec, e, b):
		*out = unnamed(filemap.Ambiguous)
	default:
		*out = bound(b)
	}
	return true
}

// tied reports whether the binding in force has the stack's own time stamp but
// comes from another input: then their order is unknown.
func tied(h *Pending, rec *tracefs.Record, e *filemap.Entry, b *filemap.Binding) bool {
	return !b.Owned && b.Source != rec.Source && e.Rival(b) && b.Time == h.Time(rec)
}

// announce puts a mapping event in force and names the frames that it is for.
func (n *names) announce(t *task, h *Pending, i int, rec *tracefs.Record) {
	a := h.MappingEvent(rec)
	n.announced++
	if a.Bad != "" || a.ID.NoFile() || a.ID.NoVMA() {
		n.bad++
		return
	}
	t.announced = !a.Report
	n.bindings.bound()
	pos := h.pos(i)
	e := n.bindings.table.Entry(a.ID)
	b := filemap.Binding{File: n.bindings.files.Intern(a.Path, a.BuildID), From: pos, At: pos, Source: rec.Source, Report: a.Report}
	if a.Report {
		b.Trust = filemap.Marked(a.Mark)
	}
	if n.sources > 1 {
		b.Time = h.Time(rec)
	}
	owner, torn := n.owners.of(t, h, rec, a.ID)
	if owner != nil && !torn {
		b.From, b.Owned = owner.pos, true
	}
	if last := e.Last(); last != nil && last.File != b.File {
		n.rebound++
	}
	version := e.Version
	rival := e.Bind(b)
	if e.Version != version {
		n.bindings.table.Version++
	}
	switch {
	case b.Owned:
		n.nameOwner(owner, a.ID, &b)
		owner.claim(a.ID, &b)
	case owner == nil:
		n.owners.expect(t, a.ID, &b)
	}
	n.nameWaiters(e, h, rec, &b)
	switch {
	case !rival:
	case owner != nil && torn:
		// It may be about this stack, or about one that was lost.
		owner.pending.restate(owner.rec, a.ID, unnamed(filemap.Ambiguous))
	case b.Owned:
		n.rename(e, b.From, pos)
	case !b.Owned && n.sources > 1:
		n.renameTied(e, b)
	}
}

// nameOwner names the frames of the stack that made the kernel announce.
func (n *names) nameOwner(s *span, id tracefs.Identifier, b *filemap.Binding) {
	s.pending.restate(s.rec, id, owned(b))
}

// nameWaiters names the frames that have waited for an identifier's first
// mapping event.
func (n *names) nameWaiters(e *filemap.Entry, h *Pending, rec *tracefs.Record, b *filemap.Binding) {
	list := n.waiting[e]
	if list == nil {
		return
	}
	for _, w := range list {
		w.pending.names--
		switch {
		case w.out.File != nil || !n.queue.limits.within(w.pending, &w.pending.Records[w.rec], h, rec):
		case w.losses != n.losses.count() && !b.Report:
			// Another file's mapping event can be among the lost records.
			w.out.Reason = filemap.Lost
		default:
			*w.out = bound(b)
		}
	}
	delete(n.waiting, e)
}

// rename corrects frames between the place from which a mapping event is in
// force and the mapping event.
func (n *names) rename(e *filemap.Entry, from, to filemap.Pos) {
	n.queue.stacks(from, to, func(h *Pending, i int) {
		b, ambiguous := e.At(h.pos(i))
		switch {
		case ambiguous:
			h.restate(i, e.ID, unnamed(filemap.Ambiguous))
		case b != nil:
			h.restate(i, e.ID, bound(b))
		}
	})
}

// renameTied marks the frames of stacks of other inputs that have an
// mapping event's own time stamp.
func (n *names) renameTied(e *filemap.Entry, b filemap.Binding) {
	n.queue.stacks(0, b.At, func(h *Pending, i int) {
		if rec := &h.Records[i]; rec.Source != b.Source && h.Time(rec) == b.Time {
			h.restate(i, e.ID, unnamed(filemap.Ambiguous))
		}
	})
}

// blame marks waiting frames of a CPU at the first place where it has lost records:
// their mapping event may be among them.
func (n *names) blame(h *Pending, i int, rec *tracefs.Record) {
	if !n.losses.mark(h.pos(i), rec.CPU) {
		return
	}
	for _, list := range n.waiting {
		for _, w := range list {
			stack := &w.pending.Records[w.rec]
			if stack.CPU == rec.CPU && w.out.File == nil && n.queue.limits.within(w.pending, stack, h, rec) {
				w.out.Reason = filemap.Lost
			}
		}
	}
}

// settle decides about the frames of a batch that still wait: the batch goes out, or its
// stacks do with an earlier one.
func (n *names) settle(h *Pending) {
	for _, w := range h.waiters {
		if list := n.waiting[w.entry]; len(list) > 0 && list[0].pending == h {
			k := 0
			for k < len(list) && list[k].pending == h {
				k++
			}
			if k == len(list) {
				delete(n.waiting, w.entry)
			} else {
				n.waiting[w.entry] = list[k:]
			}
		}
		if w.out.File != nil || w.out.Reason == filemap.Ambiguous || n.first == nil || n.bindings.table.Entry(w.entry.ID).Forgotten {
			continue
		}
		n.nameLater(&w)
	}
	clear(h.waiters)
	h.waiters = h.waiters[:0]
}

// nameLater names a frame by the first mapping event of its identifier, however
// much later that is. Where records were lost in between, it may be another file's
// by then, and its own mapping event be among them.
func (n *names) nameLater(w *waiter) {
	a, losses, ok := n.first(w.entry.ID)
	switch {
	case !ok:
	case losses != w.losses && !a.Report:
		*w.out = unnamed(filemap.Lost)
	case a.Report:
		*w.out = Named(n.bindings.files.Intern(a.Path, a.BuildID), filemap.Marked(a.Mark))
	default:
		*w.out = Named(n.bindings.files.Intern(a.Path, a.BuildID), filemap.Claimed)
	}
}
