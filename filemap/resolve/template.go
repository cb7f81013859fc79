package resolve

import (
	"math"
	"slices"

	"ustack/filemap"
	"ustack/filemap/symbol"
	"ustack/tracefs"
)

// Result has the attributions of the frames of a template. All stacks of the template
// share it until a mapping event changes what identifiers mean.
type Result struct {
	// Fields that are read often come first, in one line of the processor's cache.

	// ID is the result's number among those of its Resolver, which count from 1; 0 if
	// it belongs to one stack.
	ID           uint64
	Attributions []Attribution
	table        int64  // of the table, when version was last right
	marked       uint32 // where the use of entries was noted, see markUse
	named        uint16 // frames, if all have one trust
	trust        filemap.Trust
	identified   bool
	counted      bool  // the files are marked as used
	version      int64 // of its identifiers, see versions

	entries []*filemap.Entry
	// Functions is parallel to Attributions, nil without names.
	Functions []symbol.Function
	private   bool // belongs to one stack
	settled   bool // the Attributor has attributed it, for all stacks of a settled template
	// far is how far the stacks go, if looked is set.
	far    Far
	looked bool
}

// use is a batch's use of the Result of one of its templates.
type use struct {
	res        *Result // nil: look at the template
	named      uint16  // frames, if all have one trust
	trust      filemap.Trust
	identified bool
	stacks     uint32 // that share the result since the table last changed, see shares
}

// templates gives the stacks that are templates their results, which they share until an
// mapping event changes one.
//
// Invariants: of a held batch, the results that stacks have are those that it counts: named
// the frames of the ones whose frames all have one trust, mixed the others.
type templates struct {
	table *filemap.Table
	names *names
	made  uint64 // the ID of the newest shared result
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

// stack gives a stack that is a template its result. A batch looks at a template
// once, until a mapping event changes something. alike is whether the stack is counted with
// the others of its template, see shares.
func (s *templates) stack(h *Pending, i int, rec *tracefs.Record, alike bool) (identified bool) {
	switch h.table {
	case s.table.Version:
	case noTable:
		s.recallAll(h)
	default:
		h.forgetUses(s.table.Version)
	}
	u := &h.uses[rec.Template-1]
	if u.res == nil && !s.recall(h, u, h.Templates[rec.Template-1]) {
		h.shares.apart = append(h.shares.apart, int32(i))
		return s.attributeTemplate(h, i, rec)
	}
	if alike {
		h.share(rec.Template-1, u)
	} else {
		h.shares.apart = append(h.shares.apart, int32(i))
	}
	h.Results[i] = u.res
	h.named[u.trust] += int64(u.named)
	if u.named == 0 {
		h.mixed = append(h.mixed, u.res)
	}
	return u.identified
}

// noTable is Held.table before the first look.
const noTable = -1

// recallAll looks up all templates of a batch. They are far away in memory, and
// here they come all at once instead of one after the other.
func (s *templates) recallAll(h *Pending) {
	h.table = s.table.Version
	for k := range h.uses {
		s.recall(h, &h.uses[k], h.Templates[k])
	}
}

// recall takes the result that the last stack of a template had, if it still
// holds.
func (s *templates) recall(h *Pending, u *use, sh *tracefs.Template) bool {
	m, ok := sh.Memo.(*Result)
	if !ok || m.table != s.table.Version && m.version != m.versions() {
		return false
	}
	m.table = s.table.Version // nothing to look at until the table changes
	u.res, u.identified, u.named, u.trust = m, m.identified, m.named, m.trust
	m.markUse(h)
	return true
}

// attributeTemplate resolves the frames of a stack, for all stacks of its template if they do
// not wait for a mapping event.
func (s *templates) attributeTemplate(h *Pending, i int, rec *tracefs.Record) (identified bool) {
	sh := h.Templates[rec.Template-1]
	res := &Result{Attributions: make([]Attribution, len(sh.Frames))}
	h.Results[i] = res
	h.mixed = append(h.mixed, res)
	identified, waits := s.names.frames(h, i, rec, sh.Frames, sh.Text, res.Attributions)
	if waits {
		res.private = true
		return identified
	}
	s.made++
	res.ID, res.identified = s.made, identified
	res.countNamed()
	for k := range sh.Frames {
		if id := sh.Frames[k].ID; !id.NoFile() && !id.NoVMA() {
			if e := s.table.Entry(id); !slices.Contains(res.entries, e) {
				res.entries = append(res.entries, e)
			}
		}
	}
	res.version, res.table = res.versions(), s.table.Version
	res.markUse(h)
	sh.Memo = res
	return identified
}

// countNamed notes how many frames there are if all have a file, with one trust.
func (res *Result) countNamed() {
	n := len(res.Attributions)
	if n == 0 || n > math.MaxUint16 {
		return
	}
	t := res.Attributions[0].Trust
	if t != filemap.NoTrust && !slices.ContainsFunc(res.Attributions, func(o Attribution) bool { return o.Trust != t }) {
		res.named, res.trust = uint16(n), t
	}
}

// settle notes that the Attributor has attributed the result.
func (res *Result) settle() {
	res.settled = true
	res.countNamed()
}

// markUse notes the use of a result's identifiers, once in 8,192 records: it decides
// about their age alone.
func (res *Result) markUse(h *Pending) {
	end := h.pos(len(h.Records))
	at := uint32(end>>13) + 1
	if res.marked == at {
		return
	}
	res.marked = at
	for _, e := range res.entries {
		e.LastUse = end
	}
}

// StackAttributions returns the attributions of a stack's frames, with the Result they
// are part of if the stack is a template.
func (h *Pending) StackAttributions(i int) ([]Attribution, *Result) {
	rec := &h.Records[i]
	if rec.Template != 0 {
		return h.Results[i].Attributions, h.Results[i]
	}
	return h.Attributions[rec.Lo:rec.Hi:rec.Hi], nil
}

// ownAttributions returns the attributions of a stack, to be changed: a stack that
// shares a result gets a copy of it.
func (h *Pending) ownAttributions(i int) []Attribution {
	rec := &h.Records[i]
	if rec.Template == 0 {
		return h.Attributions[rec.Lo:rec.Hi]
	}
	res := h.Results[i]
	if !res.private {
		h.unshare(res)
		h.own(i, res)
		res = &Result{Attributions: slices.Clone(res.Attributions), private: true}
		h.Results[i] = res
		h.mixed = append(h.mixed, res)
		for _, s := range h.stacks {
			if s.rec == int32(i) {
				s.Attributions, s.Result, s.ResultID = res.Attributions, res, 0
			}
		}
	}
	return res.Attributions
}

// unshare takes one use of a shared result off the counts.
func (h *Pending) unshare(res *Result) {
	if k := slices.Index(h.mixed, res); k >= 0 {
		h.mixed = slices.Delete(h.mixed, k, k+1)
		return
	}
	h.named[res.trust] -= int64(res.named)
}
