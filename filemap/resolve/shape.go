package resolve

import (
	"slices"

	"ustack/filemap"
	"ustack/tracefs"
)

// Result is what became of the frames of a shape. All stacks of the shape
// share it until an announcement changes what identifiers mean.
type Result struct {
	Outcomes []Outcome
	// Text and JSON are for renderers: how they write the frames. Mark is
	// what a renderer that counts stacks calls this one, 0 for nothing yet.
	Text, JSON []byte
	Mark       int32

	version    int64 // of its identifiers, see versions
	table      int64 // of the table, when that was last right
	seq        int64 // of the batch in which the entries were last marked
	entries    []*filemap.Entry
	identified bool
	private    bool // belongs to one stack
	allNamed   bool // all frames are Announced
	counted    bool // the files are marked as used
}

// versions sums the versions of the result's identifiers. Versions only grow,
// so the sum changes when one of them does.
func (res *Result) versions() int64 {
	var n int64
	for _, e := range res.entries {
		n += e.Version
	}
	return n
}

// shaped gives a stack that is a shape its result.
func (r *Resolver) shaped(h *Held, i int, rec *tracefs.Record, pos filemap.Pos) (identified bool) {
	sh := h.Shapes[rec.Shape-1]
	if m, ok := sh.Memo.(*Result); ok && (m.table == r.table.Version || m.version == m.versions()) {
		m.table = r.table.Version // nothing to look at until the table changes
		h.Results[i] = m
		if m.seq != h.seq {
			r.markUse(h, m)
		}
		return m.identified
	}
	res := &Result{Outcomes: make([]Outcome, len(sh.Frames))}
	h.Results[i] = res
	identified, waits := r.frames(h, i, rec, sh.Frames, sh.Text, res.Outcomes)
	if waits {
		res.private = true
		return identified
	}
	res.identified = identified
	res.allNamed = !slices.ContainsFunc(res.Outcomes, func(o Outcome) bool { return o.File == nil })
	for k := range sh.Frames {
		if id := sh.Frames[k].ID; !id.NoFile() && !id.NoVMA() {
			if e := r.table.Entry(id); !slices.Contains(res.entries, e) {
				res.entries = append(res.entries, e)
			}
		}
	}
	res.version, res.table = res.versions(), r.table.Version
	r.markUse(h, res)
	sh.Memo = res
	return identified
}

// markUse notes the use of a result's identifiers. Once a batch is enough; the
// place is the batch's end, as the stack may come again in it.
func (r *Resolver) markUse(h *Held, res *Result) {
	res.seq = h.seq
	for _, e := range res.entries {
		e.LastUse = filemap.Pos(h.end.pos)
	}
}

// StackOutcomes are the outcomes of a stack's frames, with the Result they
// are part of if the stack is a shape.
func (h *Held) StackOutcomes(i int) ([]Outcome, *Result) {
	rec := &h.Records[i]
	if rec.Shape != 0 {
		return h.Results[i].Outcomes, h.Results[i]
	}
	return h.Outcomes[rec.Lo:rec.Hi:rec.Hi], nil
}

// ownOutcomes are the outcomes of a stack, to be changed: a stack that shares
// a result gets a copy of it.
func (h *Held) ownOutcomes(i int) []Outcome {
	rec := &h.Records[i]
	if rec.Shape == 0 {
		return h.Outcomes[rec.Lo:rec.Hi]
	}
	res := h.Results[i]
	if !res.private {
		res = &Result{Outcomes: slices.Clone(res.Outcomes), private: true}
		h.Results[i] = res
		for _, s := range h.stacks {
			if s.rec == int32(i) {
				s.Outcomes, s.Result = res.Outcomes, res
			}
		}
	}
	return res.Outcomes
}
