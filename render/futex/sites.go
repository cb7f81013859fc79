package futex

// sites knows who waits at which address, and which calls let waiters go on: wake.go
// has what they are made of. A call is given waiters, or, if it has woken more than are
// known, is owed some.
//
// Invariants of a call, see wake:
//   - claimed, left, woken and proven are not negative; left and woken are 0 until it has
//     returned.
//   - Once it has returned, left is how many claimed waiters are missing to woken, 0
//     if none are: each thread that the kernel says it has woken is one that it was
//     given, or one that it is owed.
//   - proven, and waiters that have been given to it and not returned, are of the claimed.
//
// Invariants of a site:
//   - A thread is in waiters once, and that is its wait; a wait with a site is in there.
//   - A call in wakes has not returned, or is owed a waiter.
//   - While no thread waits past is empty, and no call in wakes has returned.
//   - A site in byKey is there under its key, and not gone; one that is gone has no waiters.
type sites struct {
	byKey   map[lockKey]*site
	recent  [1 << recentSiteBits]*site // some of byKey, by their addresses; they may be gone
	most    int
	empty   emptyWakes
	unaware bool    // calls under way have been forgotten: whom they wake is unknown
	past    []*wake // scratch

	tasks    *tasks
	activity *activity
	locks    *locks

	// moved counts a wait at one futex whose thread was moved to another one at its end.
	moved func(*wait)
}

// recentSiteBits is for the sites that are looked up without the map.
const recentSiteBits = 9

// sitesOfLock is how many sites are kept for each lock.
const sitesOfLock = 4
