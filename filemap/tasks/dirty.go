package tasks

import (
	"slices"

	"ustack/tracefs"
)

// span is the addresses from start up to end.
type span struct{ start, end uint64 }

// whole is all addresses.
var whole = span{0, ^uint64(0)}

func (s span) empty() bool { return s.start >= s.end }

func (s span) overlaps(o span) bool { return s.start < o.end && o.start < s.end }

// and returns the addresses that are in both.
func (s span) and(o span) span { return span{max(s.start, o.start), min(s.end, o.end)} }

// part is addresses of which it is unknown what is there, and since when nothing has
// changed it: an answer holds from then on.
type part struct {
	span
	since tracefs.Time
}

// dirty are the parts of an address space that have to be asked for, in order of address;
// they do not overlap.
type dirty []part

// maxDirty bounds the parts that are kept apart.
const maxDirty = 64

// add notes that something can have changed addresses until a time.
func (d dirty) add(s span, until tracefs.Time) dirty {
	if s.empty() {
		return d
	}
	next := make(dirty, 0, len(d)+2)
	at := s.start // up to which s is in next
	for _, p := range d {
		both := p.span.and(s)
		if both.empty() {
			if p.start >= s.end && at < s.end {
				next = append(next, part{span{at, s.end}, until})
				at = s.end
			}
			next = append(next, p)
			continue
		}
		if before := (span{p.start, both.start}); !before.empty() {
			next = append(next, part{before, p.since})
		}
		if gap := (span{at, both.start}); !gap.empty() {
			next = append(next, part{gap, until})
		}
		next = append(next, part{both, max(p.since, until)})
		at = both.end
		if after := (span{both.end, p.end}); !after.empty() {
			next = append(next, part{after, p.since})
		}
	}
	if at < s.end {
		next = append(next, part{span{at, s.end}, until})
	}
	return next.joined().bounded()
}

// joined returns the parts with those that touch, and are as old, as one.
func (d dirty) joined() dirty {
	out := d[:0]
	for _, p := range d {
		if n := len(out); n > 0 && out[n-1].end == p.start && out[n-1].since == p.since {
			out[n-1].end = p.end
			continue
		}
		out = append(out, p)
	}
	return out
}

// bounded returns the parts, or one that has all of them if there are too many.
func (d dirty) bounded() dirty {
	if len(d) <= maxDirty {
		return d
	}
	all := d[0]
	for _, p := range d[1:] {
		all.end, all.since = p.end, max(all.since, p.since)
	}
	return dirty{all}
}

// without returns the parts without some addresses.
func (d dirty) without(s span) dirty {
	next := make(dirty, 0, len(d)+1)
	for _, p := range d {
		if before := (span{p.start, min(p.end, s.start)}); !before.empty() {
			next = append(next, part{before, p.since})
		}
		if after := (span{max(p.start, s.end), p.end}); !after.empty() {
			next = append(next, part{after, p.since})
		}
	}
	return next
}

// overlaps reports whether any of the addresses are among the parts.
func (d dirty) overlaps(s span) bool {
	return slices.ContainsFunc(d, func(p part) bool { return p.overlaps(s) })
}
