package futex

import (
	"errors"
	"fmt"
	"slices"
)

// sites knows who waits at which address, and which calls let waiters go on: wake.go
// has what they are made of. A call is given waiters, or, if it has woken more than are
// known, is owed some.
//
// Invariants of a call, see wake:
//   - claimed, left, woken and proven are not negative; left and woken are 0 until it has
//     returned.
//   - Once it has returned, claimed + left ≥ woken: each thread that the kernel says it
//     has woken is one that it was given, or one that it is owed.
//   - proven, and waiters that have been given to it and not returned, are of the claimed.
//
// Invariants of a site:
//   - A thread is in waiters once, and that is its wait; a wait with a site is in there.
//   - A call in wakes has not returned, or is owed a waiter.
//   - past is empty while no thread waits.
//   - A site in byKey is there under its key, and not gone; one that is gone has no waiters.
type sites struct {
	byKey   map[lockKey]*site
	most    int
	empty   emptyWakes
	unaware bool    // calls under way have been forgotten: whom they wake is unknown
	past    []*wake // scratch

	tasks *tasks
	locks *locks

	// moved counts a wait at one futex whose thread was moved to another one at its end.
	moved func(*wait)
}

// sitesOfLock is how many sites are kept for each lock that is.
const sitesOfLock = 4

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
		if k.site != s || k.returned && k.left == 0 {
			return fmt.Errorf("a call of thread %d is kept that is over", k.th.tid)
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
	case k.returned && k.claimed+k.left < k.woken:
		return errors.New("lacks a waiter: " + k.counters())
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
