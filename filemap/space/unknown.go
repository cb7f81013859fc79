package space

import (
	"slices"

	"ustack/tracefs"
)

// addresses are those from start up to end.
type addresses struct{ start, end uint64 }

// maxUnknown bounds the unknown ranges of a version: more of them become one.
const maxUnknown = 64

// Unknown notes that from t on the mappings of a process between two addresses
// are unknown, until they are seen again. (After Unmap they are known: there are
// none.) It reports whether that is news.
func (s *Spaces) Unknown(pid int, start, end uint64, t tracefs.Time) bool {
	return s.update(pid, func(old *Space) *Space {
		return old.unmapped(start, end, t, func(u unknown) unknown { return u.with(addresses{start, end}) })
	})
}

// Knows reports whether it is known what a process had at an address, if only that
// it had no code there. It is false where changes went unseen.
func (v *Version) Knows(addr uint64) bool {
	return v != nil && !v.Partial && !slices.ContainsFunc(v.unknown, func(a addresses) bool { return a.start <= addr && addr < a.end })
}

// UnknownBetween calls fn with the unknown ranges between two addresses.
func (v *Version) UnknownBetween(start, end uint64, fn func(start, end uint64)) {
	if v == nil {
		return
	}
	for _, a := range v.unknown {
		if from, to := max(a.start, start), min(a.end, end); from < to {
			fn(from, to)
		}
	}
}

// unknown are the addresses of a version at which it may have had more than its
// mappings. They are never changed.
type unknown []addresses

func (u unknown) with(a addresses) unknown {
	next := append(u.without(a), a)
	if len(next) <= maxUnknown {
		return next
	}
	for _, b := range next {
		a.start, a.end = min(a.start, b.start), max(a.end, b.end)
	}
	return unknown{a}
}

// without returns the addresses that are not among others.
func (u unknown) without(a addresses) unknown {
	if len(u) == 0 {
		return nil
	}
	next := make(unknown, 0, len(u)+1)
	for _, b := range u {
		if left := (addresses{b.start, min(b.end, a.start)}); left.start < left.end {
			next = append(next, left)
		}
		if right := (addresses{max(b.start, a.end), b.end}); right.start < right.end {
			next = append(next, right)
		}
	}
	return next
}
