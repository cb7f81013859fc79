package futex

import (
	"errors"
	"fmt"
	"slices"
)

// check returns what of the invariants of the parts of an analysis does not hold.
func (a *Analysis) check() error {
	return errors.Join(a.stacks.Check(), a.losses.check(), a.tasks.check(), a.activity.check(), a.locks.check(), a.sites.check(), a.holders.check(), a.splits.check(), a.held.check(), a.log.check(), a.calls.check())
}

// check returns what of the invariants does not hold.
func (ls *losses) check() error {
	if ls.hidden.all < 0 || ls.broken < 0 || len(ls.hidden.most) > maxHidden {
		return fmt.Errorf("%d hidden in %d parts, %d in broken calls", ls.hidden.all, len(ls.hidden.most), ls.broken)
	}
	return errors.Join(ls.Losses.Check(), ls.spans.check())
}

func (s *spans) check() error {
	waiting := s.list[s.head:]
	if len(waiting) > maxSpans {
		return fmt.Errorf("%d spans wait", len(waiting))
	}
	for i := range waiting {
		if x := &waiting[i]; x.th == nil || x.to < x.from {
			return fmt.Errorf("span %d is %d to %d of %v", i, x.from, x.to, x.th)
		}
	}
	return nil
}

// check returns what of the invariants does not hold.
func (ts *tasks) check() error {
	if n := ts.threads.count(); n > ts.most {
		return fmt.Errorf("%d threads of %d", n, ts.most)
	}
	for th := range ts.threads.all() {
		if err := ts.checkThread(th); err != nil {
			return fmt.Errorf("thread %d: %w", th.tid, err)
		}
	}
	for i := range ts.recent {
		if r := &ts.recent[i]; r.set && r.th != ts.threads.get(r.tid) {
			return fmt.Errorf("the last lookup of thread %d is not that of the table", r.tid)
		}
	}
	for tgid, p := range ts.byLines {
		if p.parent != nil || p.tgid != tgid || !p.run.known {
			return fmt.Errorf("process %d of a line is that of %d, %+v", tgid, p.tgid, p.run)
		}
	}
	for tgid, p := range ts.byTGID {
		if root := p.find(); root.tgid != tgid || len(root.tids) > root.count || len(root.tids) > maxTIDs {
			return fmt.Errorf("process %d has number %d, %d threads, %v", tgid, root.tgid, root.count, root.tids)
		}
	}
	return nil
}

func (ts *tasks) checkThread(th *thread) error {
	switch {
	case ts.threads.get(th.tid) != th:
		return errors.New("another one has its number")
	case th.proc == nil:
		return errors.New("no process")
	case !th.in && (th.wait != nil || th.wake != nil):
		return errors.New("waits or wakes, and is in no call")
	case th.wait != nil && (th.wake != nil || th.paused != nil):
		return errors.New("does two things at once")
	case th.dead && (th.wait != nil || th.wake != nil || th.paused != nil):
		return errors.New("is dead and waits or wakes")
	case th.hidden < 0:
		return fmt.Errorf("loss hides %d of it", th.hidden)
	}
	if p := th.proc.find(); len(p.tids) < maxTIDs && !slices.Contains(p.tids, th.tid) {
		return fmt.Errorf("its process has only %v", p.tids)
	}
	return nil
}

// check returns what of the invariants does not hold.
func (lk *locks) check() error {
	roots := make(map[*lock]bool)
	for _, l := range lk.all {
		if l.parent != nil {
			continue
		}
		if roots[l] {
			return fmt.Errorf("lock %#x is there twice", l.key.addr)
		}
		roots[l] = true
		if err := lk.checkLock(l); err != nil {
			return fmt.Errorf("lock %#x: %w", l.key.addr, err)
		}
	}
	if len(roots) != lk.count || lk.count > lk.most {
		return fmt.Errorf("%d locks, %d are counted, of %d", len(roots), lk.count, lk.most)
	}
	for _, l := range lk.others {
		if l.parent != nil || l.proc != nil || roots[l] {
			return errors.New("the lock that others became is one itself")
		}
		roots[l] = true
	}
	return lk.checkActive(roots)
}

func (lk *locks) checkLock(l *lock) error {
	switch {
	case l.proc == nil:
		return errors.New("no process")
	case l.gone && l.proc.find().locks.get(l.key) == l:
		return fmt.Errorf("the lock at %#x is gone, and found there", l.key.addr)
	case !l.gone && l.proc.find().locks.get(l.key) == nil || !l.gone && l.proc.find().locks.get(l.key).find() != l:
		return errors.New("another lock is at its address")
	case l.file != (fileKey{}) && (lk.files[l.file] == nil || lk.files[l.file].find() != l):
		return errors.New("another lock is in its file")
	case l.time < 0 || l.doubt < 0 || l.doubt > l.time:
		return fmt.Errorf("%d of its time %d are in doubt", l.doubt, l.time)
	}
	for r, n := range l.results {
		if n < 0 {
			return fmt.Errorf("%d waits were %s", n, Result(r))
		}
	}
	return nil
}

// checkActive compares what locks say is under way with what the threads do.
func (lk *locks) checkActive(roots map[*lock]bool) error {
	active := make(map[*lock]int)
	for th := range lk.tasks.threads.all() {
		if w := th.wait; w != nil && w.counts {
			active[w.lock.find()]++
		}
		if k := th.wake; k != nil && k.lock != nil && !k.returned {
			active[k.lock.find()]++
		}
	}
	for l := range roots {
		if l.active != active[l] {
			return fmt.Errorf("%d waits and calls are under way at lock %#x, which counts %d", active[l], l.key.addr, l.active)
		}
	}
	return nil
}

// check returns what of the invariants does not hold.
func (st *sites) check() error {
	given := make(map[*wake]int)
	calls := make(map[*wake]bool)
	seen := make(map[*site]bool)
	for th := range st.tasks.threads.all() {
		if k := th.wake; k != nil {
			calls[k] = true
		}
		w := th.wait
		if w == nil {
			continue
		}
		if k := w.waker.wake; k != nil {
			calls[k] = true
			given[k]++
		}
		if w.site == nil {
			continue
		}
		seen[w.site] = true
		if n := count(w.site.waiters, w); n != 1 {
			return fmt.Errorf("thread %d is %d times at its site", th.tid, n)
		}
	}
	for key, s := range st.byKey {
		if s.key != key || s.gone {
			return fmt.Errorf("site %#x is at %#x, gone: %v", s.key.addr, key.addr, s.gone)
		}
		seen[s] = true
	}
	for s := range seen {
		if err := s.check(calls); err != nil {
			return fmt.Errorf("site %#x: %w", s.key.addr, err)
		}
	}
	for k := range calls {
		if err := k.check(given[k]); err != nil {
			return fmt.Errorf("call of thread %d at %#x: %w", k.th.tid, k.key.addr, err)
		}
	}
	return nil
}

func count[T comparable](list []T, x T) (n int) {
	for _, y := range list {
		if y == x {
			n++
		}
	}
	return n
}

// check adds the calls at the site to others, and returns what of the invariants does
// not hold.
func (s *site) check(calls map[*wake]bool) error {
	if len(s.waiters) == 0 && len(s.past.list) > 0 || s.gone && len(s.waiters) > 0 {
		return fmt.Errorf("%d wait, %d calls are kept, gone: %v", len(s.waiters), len(s.past.list), s.gone)
	}
	if len(s.waiters) > maxSiteWaiters || len(s.wakes) > maxSiteCalls || len(s.past.list) > maxPastWakes {
		return fmt.Errorf("%d wait, %d calls are under way, %d are kept", len(s.waiters), len(s.wakes), len(s.past.list))
	}
	for _, w := range s.waiters {
		if w.site != s || w.th.wait != w {
			return fmt.Errorf("thread %d does not wait there", w.th.tid)
		}
	}
	for _, k := range s.wakes {
		if len(s.waiters) == 0 && k.returned || k.site != s || k.returned && k.left == 0 {
			return fmt.Errorf("a call of thread %d is kept that is over, %d wait: %s", k.th.tid, len(s.waiters), k.counters())
		}
		calls[k] = true
	}
	for _, k := range s.past.list {
		calls[k.wake] = true
	}
	return nil
}

// check returns what of the invariants does not hold for a call that was given so many
// of the threads that wait.
func (k *wake) check(given int) error {
	switch {
	case min(k.claimed, k.left, k.woken, k.proven) < 0:
		return errors.New(k.counters())
	case !k.returned && (k.left > 0 || k.woken > 0 || k.th.wake != k):
		return errors.New("has not returned: " + k.counters())
	case k.returned && k.left != max(k.woken-k.claimed, 0):
		return errors.New("is not owed what it lacks: " + k.counters())
	case k.proven+given > k.claimed:
		return fmt.Errorf("%d wait that were given to it: %s", given, k.counters())
	case slices.Contains(k.site.wakes, k) && k.returned && k.left == 0:
		return errors.New("is owed none: " + k.counters())
	}
	return nil
}

func (k *wake) counters() string {
	return fmt.Sprintf("claimed %d, left %d, woken %d, proven %d", k.claimed, k.left, k.woken, k.proven)
}

// check returns what of the invariants does not hold.
func (hs *holders) check() error {
	if len(hs.order) > maxOrder {
		return fmt.Errorf("%d orders of locks", len(hs.order))
	}
	for k := range hs.order {
		if k.held == k.wanted {
			return fmt.Errorf("lock %#x is held and waited for", k.held.key.addr)
		}
	}
	for _, l := range hs.locks.all {
		if l.parent != nil {
			continue
		}
		if l.owner != 0 && l.owning != nil && l.owning.tid != l.owner {
			return fmt.Errorf("lock %#x is owned by %d, and by %d", l.key.addr, l.owner, l.owning.tid)
		}
		if len(l.read) > maxRecent {
			return fmt.Errorf("lock %#x has %d readings", l.key.addr, len(l.read))
		}
	}
	for th := range hs.tasks.threads.all() {
		if len(th.holds) > maxHolds {
			return fmt.Errorf("thread %d holds %d locks", th.tid, len(th.holds))
		}
	}
	return nil
}

// check returns what of the invariants does not hold.
func (g *callLog) check() error {
	for _, l := range g.numbered.locks.all {
		if n := int(l.logged); l.parent == nil && n > 0 && (n > len(g.numbered.list) || g.numbered.list[n-1].find() != l) {
			return fmt.Errorf("lock %#x has number %d, which is another one's", l.key.addr, n)
		}
	}
	if g.file == nil && g.err == nil && g.size > 0 {
		return fmt.Errorf("%d bytes are in no file", g.size)
	}
	return nil
}

// check returns what of the invariants does not hold.
func (c *calls) check() error {
	free := make(map[*wait]bool, len(c.freeWaits))
	for _, w := range c.freeWaits {
		if free[w] || w.counts || w.site != nil {
			return fmt.Errorf("a wait of thread %d may be used twice", w.th.tid)
		}
		free[w] = true
	}
	for th := range c.tasks.threads.all() {
		if w := th.wait; w != nil && (w.th != th || free[w] || w.counts != (w.lock != nil) || !th.futex.Cmd.Waits() && !w.resumed) {
			return fmt.Errorf("thread %d waits with a wait of %d: free %v, counts %v", th.tid, w.th.tid, free[w], w.counts)
		}
		if w := th.paused; w != nil && (w.th != th || free[w] || w.counts || w.site != nil) {
			return fmt.Errorf("thread %d is to go on with a wait of %d: free %v, counts %v", th.tid, w.th.tid, free[w], w.counts)
		}
		if k := th.wake; k != nil && (k.th != th || k.returned) {
			return fmt.Errorf("thread %d is in a call of %d, returned: %v", th.tid, k.th.tid, k.returned)
		}
	}
	for s, list := range c.longest {
		for i := range list {
			if len(list) > maxLongest || list[i].Time < list[0].Time {
				return fmt.Errorf("wait %d of the %d longest of section %d is shorter than the first", i, len(list), s)
			}
		}
	}
	return nil
}
