package resolve

import (
	"slices"

	"ustack/tracefs"
)

// shares are the stacks of a batch by the results that they have: most stacks share theirs,
// so that what holds for all stacks of a result is looked at once.
//
// Invariants: each stack of the batch is in one of the four: counted in the use of its
// template, counted in before, or in apart, or in owned. apart is in order.
type shares struct {
	touched []uint32 // templates whose uses count stacks, each once
	before  []shared // uses that did before the table changed
	apart   []int32  // stacks without a template, of waits, that continue others, and the first ones of their templates
	owned   []int32  // stacks that shared a result and have got their own
}

// shared is a number of stacks of a template that share a result.
type shared struct {
	res      *Result
	template uint32
	stacks   uint32
}

// emptied returns shares without stacks, with the memory of s.
func (s *shares) emptied() shares {
	clear(s.before)
	return shares{touched: s.touched[:0], before: s.before[:0], apart: s.apart[:0], owned: s.owned[:0]}
}

// share counts one more stack of a template.
func (h *Pending) share(template uint32, u *use) {
	if u.stacks == 0 {
		h.shares.touched = append(h.shares.touched, template)
	}
	u.stacks++
}

// forgetUses makes the batch look at its templates again: the table has changed.
func (h *Pending) forgetUses(version int64) {
	h.shares.before = h.appendShared(h.shares.before)
	h.shares.touched = h.shares.touched[:0]
	h.table = version
	clear(h.uses)
}

// appendShared appends the stacks that are counted in uses.
func (h *Pending) appendShared(list []shared) []shared {
	for _, k := range h.shares.touched {
		u := &h.uses[k]
		list = append(list, shared{res: u.res, template: k, stacks: u.stacks})
	}
	return list
}

// own notes that a stack that shared a result has its own.
func (h *Pending) own(i int, res *Result) {
	s := &h.shares
	if _, apart := slices.BinarySearch(s.apart, int32(i)); apart {
		return
	}
	s.owned = append(s.owned, int32(i))
	k := h.Records[i].Template - 1
	if u := &h.uses[k]; u.res == res && u.stacks > 0 {
		if u.stacks--; u.stacks == 0 {
			at := slices.Index(s.touched, k)
			s.touched = slices.Delete(s.touched, at, at+1)
		}
		return
	}
	for j := range s.before {
		if x := &s.before[j]; x.res == res && x.stacks > 0 {
			x.stacks--
			return
		}
	}
}

// countShares counts the stacks of a batch that goes out by how far they go, and marks the
// files of the results that they share as used.
func (r *tally) countShares(h *Pending) {
	s := &h.shares
	s.before = h.appendShared(s.before)
	r.countApart(h)
	for _, i := range s.owned {
		r.others(r.farOf(h, int(i)), 1)
	}
	for j := range s.before {
		if x := &s.before[j]; x.stacks > 0 {
			r.markFiles(x.res)
			r.others(r.farOfShared(x.res, h.Templates[x.template].Frames), int64(x.stacks))
		}
	}
}

// countApart counts the stacks that are looked at one by one.
func (r *tally) countApart(h *Pending) {
	waits := h.waits
	for _, i := range h.shares.apart {
		rec := &h.Records[i]
		if rec.Template != 0 {
			r.markFiles(h.Results[i])
		}
		switch {
		case rec.Flags&tracefs.Continued != 0:
		case len(waits) > 0 && waits[0] == i:
			waits = waits[1:]
			if f := r.farOf(h, int(i)); f != nil {
				r.totals.waits.Add(*f, 1)
			}
		case r.totals.waits.sum.Stacks == 0:
			r.others(r.farOf(h, int(i)), 1)
		}
	}
}

// others counts stacks of which it is unknown that they are of waits; far is nil if they
// have no frame. They do not matter once one is known to be.
func (r *tally) others(far *Far, stacks int64) {
	if far == nil || r.totals.waits.sum.Stacks > 0 {
		return
	}
	r.totals.all.Add(*far, stacks)
	if far.Unwound {
		r.totals.unwound.Add(*far, stacks)
	}
}

// markFiles marks the files of a result as used whose frames all have one trust. The
// others are marked where their frames are counted.
func (r *tally) markFiles(res *Result) {
	if res.named == 0 || res.counted {
		return
	}
	res.counted = true
	for i := range res.Attributions {
		r.files.MarkUsed(res.Attributions[i].File)
	}
}
