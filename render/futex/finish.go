package futex

import (
	"cmp"
	"slices"

	"ustack/tracefs"
)

// NeedsGaps reports whether loss was found too late to assess what it could
// hide: then a second reading, with Options.Gaps, can.
func (a *Analysis) NeedsGaps() bool { return a.losses.spans.late }

// Seen reports whether there was any record.
func (a *Analysis) Seen() bool { return a.losses.Begun }

// Calls returns the number of futex calls, entries and returns.
func (a *Analysis) Calls() int64 { return a.calls.entries + a.calls.exits }

// Gaps returns the gaps found.
func (a *Analysis) Gaps() *Gaps { return &a.losses.Gaps }

// Until notes that the trace has all records until a time, even if the last one is
// older: waits that have not ended have lasted so long. 0 has no effect.
func (a *Analysis) Until(t tracefs.Time) {
	a.losses.until = max(a.losses.until, t)
}

// Refused notes how many records the kernel refused to take since the trace began, as
// far as the trace itself does not say so: when that was is unknown, so nothing is
// sure any more.
func (a *Analysis) Refused(n uint64) { a.losses.refused = n }

// finish ends the calls under way at the end of the trace. Nothing can be added after it.
func (a *Analysis) finish() {
	a.losses.Close()
	a.losses.settleAll() // locks may become one
	for _, th := range a.tasks.inOrder() {
		a.calls.stopPaused(th)
	}
	a.losses.settleAll()
	a.dropPast()
}

// hiding is how much longer threads can have waited than was seen: all threads,
// threads whose process is unknown or was another one before, and the threads of
// each process.
type hiding struct {
	all, unknown tracefs.Time
	own          map[*process]tracefs.Time
	// more is how much longer all threads together can have waited, as no
	// more than the lost records can have been of waits.
	more tracefs.Time
}

func (u *underway) hiding() *hiding {
	h := &hiding{own: make(map[*process]tracefs.Time)}
	if !u.gaps.Any() {
		return h
	}
	h.more = u.broken + u.hidden.by(u.gaps.Records, u.gaps.Unknown)
	for th := range u.rp.tasks.threads.all() {
		hidden := th.hidden + u.threads[th]
		h.all += hidden
		if p := th.proc.find(); p.tgid == tracefs.NoTID || th.moved {
			h.unknown += hidden
		} else {
			h.own[p] += hidden
		}
	}
	return h
}

// from returns how much longer threads can have waited for a lock.
func (h *hiding) from(l *lock) tracefs.Time {
	if l.proc == nil || l.key.shared || l.proc.find().tgid == tracefs.NoTID {
		return h.all
	}
	return h.own[l.proc.find()] + h.unknown
}

// loss reports how loss changes the numbers.
func (rp *reporter) loss(r *Report) {
	r.Loss = Loss{Gaps: rp.losses.Gaps.Count, Records: rp.losses.Gaps.Records, Unknown: rp.losses.Gaps.Unknown, Refused: rp.losses.refused, Forgotten: rp.tasks.forgot}
	r.Loss.Bounded = rp.losses.refused == 0 && !rp.losses.spans.late && rp.tasks.forgot == 0 && !(rp.tasks.buried && rp.losses.Gaps.Any())
	r.Loss.Unseen = -1
	if !rp.losses.Gaps.Unknown && rp.losses.refused == 0 {
		window := uint64(max(rp.losses.End-rp.losses.Start, 1))
		if rp.losses.Gaps.Records < uint64(1<<62)/window {
			r.Loss.Unseen = tracefs.Time(rp.losses.Gaps.Records * window)
		}
	}
}

// blocked lists the waits that had not ended, and marks the ones that are wanted.
func (rp *reporter) blocked(r *Report, u *underway, byLock map[*lock]*Lock) (all []*Blocked) {
	if rp.calls.noReturns() {
		return nil
	}
	for th := range rp.tasks.threads.all() {
		w := th.wait
		if !th.in || w == nil {
			continue
		}
		b := &Blocked{TID: th.tid, Comm: th.comm, Since: w.from, Time: u.end - w.from, Val: w.val, Stack: rp.stacks.Get(w.stack),
			Missing: w.missing.String(), wait: w}
		_, _, b.Doubt = u.gaps.Within(th.since, u.end)
		if w.lock != nil {
			l := w.lock.find()
			if b.Lock = byLock[l]; b.Lock == nil {
				continue
			}
			u.owned(b, w, l)
		}
		all = append(all, b)
		if b.Lock == nil || b.Lock.wanted {
			r.Blocked = append(r.Blocked, b)
		}
	}
	slices.SortFunc(r.Blocked, func(x, y *Blocked) int {
		return cmp.Or(cmp.Compare(y.Time, x.Time), cmp.Compare(x.TID, y.TID))
	})
	return all
}
