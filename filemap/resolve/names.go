package resolve

import (
	"bytes"
	"encoding/hex"

	"ustack/filemap"
	"ustack/tracefs"
	"ustack/tracefs/escape"
	"ustack/tracefs/text"
)

// specialMappings bounds the offsets of the vDSO and its like: they are a few
// pages, while mmap_min_addr keeps all other memory above.
const specialMappings = 1 << 16

// waiter is a frame whose identifier has not been announced yet.
type waiter struct {
	held *Held
	rec  int32
	id   tracefs.Identifier
	out  *Outcome
	// losses is how many there were before the frame.
	losses int64
}

// lookup gives a frame with an identifier its file, or lets it wait; then it
// returns false.
func (r *Resolver) lookup(h *Held, i int, rec *tracefs.Record, id tracefs.Identifier, pos filemap.Pos, out *Outcome) bool {
	e := r.table.Entry(id)
	e.LastUse = max(e.LastUse, pos)
	b, ambiguous := e.At(pos)
	switch {
	case b == nil && e.Forgotten:
		*out = unnamed(filemap.Forgotten)
	case b == nil:
		w := waiter{held: h, rec: int32(i), id: id, out: out, losses: r.losses.count()}
		r.waiting[e] = append(r.waiting[e], w)
		h.waiters = append(h.waiters, w)
		h.names++
		*out = unnamed(r.losses.unannounced())
		return false
	case ambiguous || r.opt.Sources > 1 && tied(h, rec, e, b):
		*out = unnamed(filemap.Ambiguous)
	default:
		*out = bound(b)
	}
	return true
}

// tied reports whether the binding in force has the stack's own time stamp but
// comes from another input: then their order is unknown.
func tied(h *Held, rec *tracefs.Record, e *filemap.Entry, b *filemap.Binding) bool {
	return !b.Owned && b.Source != rec.Source && e.Rival(b) && b.Time == h.Time(rec)
}

// announce puts an announcement in force and names the frames that it is for.
func (r *Resolver) announce(h *Held, rec *tracefs.Record) {
	a := h.Announcement(rec)
	r.totals.Announcements++
	if a.Bad != "" || a.ID.NoFile() || a.ID.NoVMA() {
		r.totals.BadAnnouncements++
		return
	}
	r.boundFiles()
	pos := h.pos(rec)
	e := r.table.Entry(a.ID)
	b := filemap.Binding{File: r.files.Intern(a.Path, a.BuildID), From: pos, At: pos, Source: rec.Source, Report: a.Report}
	if a.Report {
		b.Trust = filemap.Marked(a.Mark)
	}
	if r.opt.Sources > 1 {
		b.Time = h.Time(rec)
	}
	owner, torn := r.owners.of(r.tasks.get(rec.TID), h, rec, a.ID)
	if owner != nil && !torn {
		b.From, b.Owned = owner.pos, true
	}
	if last := e.Last(); last != nil && last.File != b.File {
		r.totals.Rebound++
	}
	version := e.Version
	rival := e.Bind(b)
	if e.Version != version {
		r.table.Version++
	}
	switch {
	case b.Owned:
		r.nameOwner(owner, a.ID, &b)
	case owner == nil:
		r.owners.expect(r.tasks.get(rec.TID), a.ID, &b)
	}
	r.nameWaiters(e, h, rec, &b)
	switch {
	case !rival:
	case owner != nil && torn:
		// It may be this stack's, and may be that of one that was lost.
		owner.held.restate(owner.rec, a.ID, unnamed(filemap.Ambiguous))
	case b.Owned:
		r.rename(e, b.From, pos)
	case !b.Owned && r.opt.Sources > 1:
		r.renameTied(e, b)
	}
}

// nameOwner names the frames of the stack that made the kernel announce.
func (r *Resolver) nameOwner(s *span, id tracefs.Identifier, b *filemap.Binding) {
	s.held.restate(s.rec, id, owned(b))
}

// nameWaiters names the frames that have waited for an identifier's first
// announcement.
func (r *Resolver) nameWaiters(e *filemap.Entry, h *Held, rec *tracefs.Record, b *filemap.Binding) {
	list := r.waiting[e]
	if list == nil {
		return
	}
	for _, w := range list {
		w.held.names--
		switch {
		case w.out.File != nil || !r.queue.limits.within(w.held, &w.held.Records[w.rec], h, rec):
		case w.losses != r.losses.count() && !b.Report:
			// Another file's announcement can be among what was lost.
			w.out.Reason = filemap.Lost
		default:
			*w.out = bound(b)
		}
	}
	delete(r.waiting, e)
}

// rename corrects what was said of frames between the place from which an
// announcement is in force and the announcement.
func (r *Resolver) rename(e *filemap.Entry, from, to filemap.Pos) {
	r.queue.stacks(from, to, func(h *Held, i int) {
		b, ambiguous := e.At(h.pos(&h.Records[i]))
		switch {
		case ambiguous:
			h.restate(i, e.ID, unnamed(filemap.Ambiguous))
		case b != nil:
			h.restate(i, e.ID, bound(b))
		}
	})
}

// renameTied marks the frames of stacks of other inputs that have an
// announcement's own time stamp.
func (r *Resolver) renameTied(e *filemap.Entry, b filemap.Binding) {
	r.queue.stacks(0, b.At, func(h *Held, i int) {
		if rec := &h.Records[i]; rec.Source != b.Source && h.Time(rec) == b.Time {
			h.restate(i, e.ID, unnamed(filemap.Ambiguous))
		}
	})
}

// blameLoss marks waiting frames of a CPU that has lost records: their
// announcement may be among them.
func (r *Resolver) blameLoss(h *Held, rec *tracefs.Record) {
	for _, list := range r.waiting {
		for _, w := range list {
			stack := &w.held.Records[w.rec]
			if stack.CPU == rec.CPU && w.out.File == nil && r.queue.limits.within(w.held, stack, h, rec) {
				w.out.Reason = filemap.Lost
			}
		}
	}
}

// settle decides about the frames of a batch that still wait, and lets the
// evidence judge: the batch goes out, or its stacks do with an earlier one.
func (r *Resolver) settle(h *Held) {
	if h.final {
		return
	}
	h.final = true
	r.settleWaiters(h)
	if r.opt.Evidence != nil {
		r.judge(h)
	}
	if r.opt.Strict {
		for i := range h.Outcomes {
			if o := &h.Outcomes[i]; o.Trust == filemap.Claimed {
				*o = unnamed(filemap.OnlyClaimed)
			}
		}
	}
}

func (r *Resolver) settleWaiters(h *Held) {
	for _, w := range h.waiters {
		e := r.table.Entry(w.id)
		if list := r.waiting[e]; len(list) > 0 && list[0].held == h {
			n := 0
			for n < len(list) && list[n].held == h {
				n++
			}
			if n == len(list) {
				delete(r.waiting, e)
			} else {
				r.waiting[e] = list[n:]
			}
		}
		if w.out.File != nil || w.out.Reason == filemap.Ambiguous || r.opt.First == nil || e.Forgotten {
			continue
		}
		r.nameLater(&w)
	}
	clear(h.waiters)
	h.waiters = h.waiters[:0]
}

// nameLater names a frame by the first announcement of its identifier, however
// much later that is. Where records were lost in between, it may be another file's
// by then, and its own announcement be among them.
func (r *Resolver) nameLater(w *waiter) {
	a, losses, ok := r.opt.First(w.id)
	switch {
	case !ok:
	case losses != w.losses && !a.Report:
		*w.out = unnamed(filemap.Lost)
	case a.Report:
		*w.out = Named(r.files.Intern(a.Path, a.BuildID), filemap.Marked(a.Mark))
	default:
		*w.out = Named(r.files.Intern(a.Path, a.BuildID), filemap.Claimed)
	}
}

// other is the outcome of a frame that has no identifier to look up.
func (r *Resolver) other(txt []byte, f *tracefs.Frame) Outcome {
	switch f.Form {
	case tracefs.FormIdentifier:
		switch {
		case f.ID.NoVMA():
			return unnamed(filemap.NoVMA)
		case f.Address(txt) < specialMappings:
			return unnamed(filemap.VDSO)
		}
		return unnamed(filemap.Anonymous)
	case tracefs.FormResolved:
		o := r.alreadyNamed(txt[f.Stem:f.End])
		if o.File != nil {
			o.Trust = writtenTrust(f)
		}
		return o
	case tracefs.FormUnresolved:
		return unnamed(givenReason(txt[f.Stem:f.End]))
	case tracefs.FormObject:
		if text.ObjectOffset(txt[f.Off:f.Stem]) >= 1<<63 {
			return unnamed(filemap.NoVMA)
		}
		return unnamed(filemap.VMAOffset)
	case tracefs.FormCut:
		return unnamed(filemap.Truncated)
	}
	return unnamed(filemap.Unreadable)
}

// writtenTrust is the trust of a frame that has its file in the text: never more
// than an earlier run of ustack had. Where there is no mark, it is that of the
// kernel, which writes the file of a frame that it looks at.
func writtenTrust(f *tracefs.Frame) filemap.Trust {
	if f.Inferred && f.Mark() == tracefs.NoMark {
		return filemap.Inferred
	}
	return filemap.Marked(f.Mark())
}

// alreadyNamed takes " : path=PATH build_id={…}" of a frame as it is.
func (r *Resolver) alreadyNamed(suffix []byte) Outcome {
	_, file, _ := bytes.Cut(suffix, []byte("path="))
	r.boundFiles()
	if path, id, ok := hexID(file); ok {
		return Named(r.files.InternID(r.plain(path), id), filemap.Announced)
	}
	path, words := text.SplitFile(file)
	path = r.plain(path)
	if !text.UsablePath(path) {
		return unnamed(filemap.Unreadable)
	}
	return Named(r.files.Intern(path, words), filemap.Announced)
}

// plain is a piece of a batch's text as it was before it was escaped.
func (r *Resolver) plain(piece []byte) []byte {
	if r.escaped {
		return escape.Undo(piece)
	}
	return piece
}

// hexID takes "PATH [build_id=HEX]" apart, as render writes it on demand.
func hexID(file []byte) (path []byte, id filemap.BuildID, ok bool) {
	const open = text.HexMark
	at := bytes.LastIndex(file, []byte(open))
	if at < 0 || file[len(file)-1] != ']' {
		return nil, id, false
	}
	n, err := hex.Decode(id[:], file[at+len(open):min(len(file)-1, at+len(open)+2*len(id))])
	return file[:at], id, err == nil && at+len(open)+2*n == len(file)-1
}

// givenReason reads the reason an earlier run gave.
func givenReason(suffix []byte) filemap.Reason {
	word := bytes.TrimSuffix(bytes.TrimPrefix(suffix, []byte(text.UnresolvedMark)), []byte(")"))
	if reason, ok := filemap.ParseReason(string(word)); ok {
		return reason
	}
	return filemap.Unreadable
}
