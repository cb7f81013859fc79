package futex

import (
	"slices"

	"ustack/tracefs"
)

// goneLines are the timelines of threads that have ended. What such a thread did is needed
// as long as a wait lasts that began before its end; after that its moments go, and the
// roots of its waits. A trace in which processes come and go has many times more of them
// than of threads that run.
//
// Invariants:
//   - list has a timeline with gone set, once. One whose number is used again is in there
//     until the next look.
//   - left is how many stayed at the last look.
type goneLines struct {
	list []*timeline
	left int
}

// A look is due when some timelines more are listed, and one of so many of all: floor walks
// all threads, and a look must not cost each that ends more than a few of them.
const (
	someGone = 1 << 6
	perLook  = 1 << 4
)

// ends notes that a thread has ended: it does nothing more, unless its number is used again.
func (a *activity) ends(tl *timeline) {
	a.silent(tl)
	tl.keep, tl.ended = 0, true
	tl.list = exactly(tl.list)
	if tl.gone {
		return
	}
	tl.gone = true
	a.gone.list = append(a.gone.list, tl)
	if len(a.gone.list) >= someGone+2*a.gone.left+len(a.lines)/perLook {
		a.gone.forget(a, a.floor())
	}
}

// forget forgets what threads did that have ended, as far as no wait needs it that has not
// ended: none of these began before a time.
func (g *goneLines) forget(a *activity, oldest tracefs.Time) {
	left := g.list[:0]
	for _, tl := range g.list {
		if !tl.ended {
			tl.gone = false
			continue
		}
		a.trim(tl, oldest)
		a.chains -= tl.unchainBefore(oldest)
		if tl.gone = len(tl.list) > 1 || len(tl.chain) > 0; tl.gone {
			left = append(left, tl)
			continue
		}
		tl.list, tl.chain = exactly(tl.list), nil
	}
	clear(g.list[len(left):])
	g.list, g.left = left, len(left)
}

// unchainBefore forgets the roots of a thread's waits that ended before a time, and returns
// how many these are.
func (tl *timeline) unchainBefore(t tracefs.Time) (n int) {
	for n < len(tl.chain) && tl.chain[n].to <= t {
		n++
	}
	tl.chain = slices.Delete(tl.chain, 0, n)
	return n
}

// exactly returns a list in as much memory as it needs.
func exactly[T any](list []T) []T {
	if len(list) == cap(list) {
		return list
	}
	return append(make([]T, 0, len(list)), list...)
}
