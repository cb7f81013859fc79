package futex

import (
	"fmt"
	"slices"
)

// check returns what of the invariants does not hold.
func (a *activity) check() error {
	n, spans := 0, 0
	for tid, tl := range a.lines {
		n += len(tl.list)
		spans += len(tl.chain)
		for i, s := range tl.chain {
			if s.to <= s.from || s.proof > s.from || i > 0 && s.from < tl.chain[i-1].to {
				return fmt.Errorf("root %d of thread %d is from %d to %d, by %d", i, tid, s.from, s.to, s.proof)
			}
		}
		for i, m := range tl.list {
			if m.from > tl.seen || m.proof > m.from || i > 0 && m.from < tl.list[i-1].from {
				return fmt.Errorf("moment %d of thread %d is from %d, by %d, last seen %d", i, tid, m.from, m.proof, tl.seen)
			}
		}
	}
	if n != a.count || n > maxMoments || len(a.lines) > a.most {
		return fmt.Errorf("%d moments, %d are counted, of %d of %d threads", n, a.count, len(a.lines), a.most)
	}
	if len(a.off.list) > maxOffCPU {
		return fmt.Errorf("%d threads are listed as off their CPU", len(a.off.list))
	}
	for i, tl := range a.off.list {
		if !tl.listed || slices.Index(a.off.list, tl) != i {
			return fmt.Errorf("thread %d is listed as off its CPU, and not, or twice", tl.tid)
		}
	}
	for i, tl := range a.gone.list {
		if !tl.gone || slices.Index(a.gone.list, tl) != i {
			return fmt.Errorf("thread %d is listed as gone, and not, or twice", tl.tid)
		}
	}
	if spans != a.chains || spans > maxRootSpans {
		return fmt.Errorf("%d spans of roots, %d are counted", spans, a.chains)
	}
	for i := range a.recent {
		if r := &a.recent[i]; r.line != nil && a.lines[r.tid] != r.line {
			return fmt.Errorf("the last lookup of thread %d is not that of the table", r.tid)
		}
	}
	open := 0
	for th := range a.tasks.threads.all() {
		if w := th.wait; w != nil && w.counts && w.likeLock() {
			open++
			if a.oldest > w.began && a.oldest != 0 {
				return fmt.Errorf("thread %d waits since %d, the oldest wait is of %d", th.tid, w.began, a.oldest)
			}
		}
	}
	if open != a.open {
		return fmt.Errorf("%d waits are open, %d are counted", open, a.open)
	}
	return nil
}

// check returns what of the invariants does not hold.
func (sp *splits) check() error {
	pending := make(map[*division]bool)
	for _, p := range sp.list[sp.head:] {
		if pending[p.division] {
			return fmt.Errorf("a wait from %d is there twice", p.from)
		}
		pending[p.division] = true
		sum := p.from - p.to
		for _, x := range p.pieces {
			sum += x.time
			if x.time < 0 {
				return fmt.Errorf("a piece of the wait from %d is %d", p.from, x.time)
			}
		}
		if sum > 0 {
			return fmt.Errorf("the wait from %d has pieces for %d more", p.from, sum)
		}
	}
	if len(pending) > maxSpans {
		return fmt.Errorf("%d waits may be reached", len(pending))
	}
	for _, v := range sp.free {
		if v.kept || pending[v] {
			return fmt.Errorf("a division of %d may be used twice", v.from)
		}
	}
	return nil
}
