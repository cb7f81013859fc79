package proof

import (
	"iter"
	"slices"

	"ustack/filemap"
	"ustack/tracefs"
)

// Mappings is the history of the mappings of all processes that the rules use. M names
// a mapping of a process from when it was made until it goes away: all that time it
// has one open file.
type Mappings[M comparable] interface {
	// Stays says what is known of a mapping between two times, the earlier one
	// first.
	Stays(m M, from, to tracefs.Time) Stay
	// There reports whether a mapping was there at a time.
	There(m M, t tracefs.Time) bool
	// Same reports whether two mappings are of one file, opened once or several times.
	Same(a, b M) bool
	// Called reports whether a mapping event can call the file of a mapping so.
	Called(m M, f *filemap.File) bool
}

// phantom is the statement that an identifier was a file at a time of which no
// mapping is known then.
type phantom struct {
	at   tracefs.Time
	file *filemap.File
}

// maxPhantoms bounds the phantoms of an identifier.
const maxPhantoms = 1 << 10

// Absent notes that the kernel called an identifier a file at a time, and that no
// mapping of that file is known then.
func (p *Pins[M]) Absent(id tracefs.Identifier, f *filemap.File, t tracefs.Time) {
	if len(p.phantoms[id]) < maxPhantoms {
		p.phantoms[id] = append(p.phantoms[id], phantom{t, f})
	}
}

// Carries is the identifier that a mapping is proven to carry, the zero one if none
// is, or if two are: then it went away and came back unseen.
func (p *Pins[M]) Carries(m M) tracefs.Identifier {
	if c := p.carried[m]; !c.split {
		return c.id
	}
	return tracefs.Identifier{}
}

// There reports whether a mapping was there at a time, and is known to be one all the
// time.
func (p *Pins[M]) There(m M, t tracefs.Time) bool { return !p.carried[m].split && p.maps.There(m, t) }

// Known reports whether an identifier was ever proven to be a mapping's.
func (p *Pins[M]) Known(id tracefs.Identifier) bool { return len(p.byID[id]) > 0 }

// Through returns the pin that says what an identifier is at two times and in
// between.
func (p *Pins[M]) Through(id tracefs.Identifier, from, to tracefs.Time) (pin Pin[M], ok bool) {
	pin, stay, ok := p.At(id, from)
	if !ok || stay != Stayed {
		return pin, false
	}
	return pin, to == from || p.There(pin.Mapping, to) || pin.First <= from && to <= pin.Last
}

// Excluded reports whether a mapping cannot carry an identifier, and why: it carries
// another one (CarriesOther), or it was there when the identifier was that of another
// file (WasOther).
func (p *Pins[M]) Excluded(id tracefs.Identifier, m M) (why Statement, excluded bool) {
	if other := p.Carries(m); !other.IsZero() && other != id {
		return CarriesOther, true
	}
	was := slices.ContainsFunc(p.byID[id], func(x Pin[M]) bool {
		return x.Mapping != m && !p.maps.Same(x.Mapping, m) && (p.There(m, x.First) || p.There(m, x.Last))
	}) || slices.ContainsFunc(p.phantoms[id], func(x phantom) bool {
		return p.There(m, x.at) && !p.maps.Called(m, x.file)
	})
	return WasOther, was
}

// Reused reports whether an identifier was proven to be that of another file than
// an announced one, at any time.
func (p *Pins[M]) Reused(id tracefs.Identifier, f *filemap.File) bool {
	return slices.ContainsFunc(p.byID[id], func(x Pin[M]) bool { return !p.maps.Called(x.Mapping, f) })
}

// Only is exclusion. of has all mappings that frames with an identifier between two
// times can lie in; Only leaves the ones that can carry it. If one is left that was
// there all the time, and the identifier was no other file's meanwhile, the
// identifier is that mapping's.
func (p *Pins[M]) Only(id tracefs.Identifier, of []M, from, to tracefs.Time) (left []M, only bool) {
	for _, m := range of {
		if _, excluded := p.Excluded(id, m); !excluded {
			left = append(left, m)
		}
	}
	only = len(left) == 1 && p.There(left[0], from) && p.There(left[0], to) && !p.conflict(id, left[0], from, to)
	return left, only
}

// conflict reports whether an identifier is proven to be another file's in a time in
// which a mapping would carry it.
func (p *Pins[M]) conflict(id tracefs.Identifier, m M, from, to tracefs.Time) bool {
	return slices.ContainsFunc(p.byID[id], func(x Pin[M]) bool {
		return !p.maps.Same(x.Mapping, m) && (p.There(x.Mapping, from) || p.There(x.Mapping, to) || p.There(m, x.First))
	})
}

// maxRivals bounds the mappings of other files that are looked at for a claim.
const maxRivals = 64

// Rival reports whether an identifier of an open file can by now be that of another
// file than claimed. The identifier was once proven to be that of a mapping that has
// gone; others are the mappings that the frame can lie in.
func (p *Pins[M]) Rival(id tracefs.Identifier, claimed M, others iter.Seq[M]) bool {
	if id.IsInode() || !p.Known(id) {
		return false
	}
	looks := 0
	for m := range others {
		if p.maps.Same(m, claimed) {
			continue
		}
		if _, excluded := p.Excluded(id, m); !excluded {
			return true
		}
		if looks++; looks == maxRivals {
			return true // there are too many to look at all of them
		}
	}
	return false
}

// Left is what is left of a claim.
type Left uint8

const (
	// Stands: nothing contradicts it.
	Stands Left = iota
	// Refuted: the mapping cannot carry the identifier.
	Refuted
	// Open: a mapping of another file can carry the identifier as well.
	Open

	leftCount
)

// Claim checks a claim against the proofs. The claim is that an identifier is that
// of a mapping in which the frame lies; the frame can lie in others, too.
func (p *Pins[M]) Claim(id tracefs.Identifier, claimed M, others iter.Seq[M]) Left {
	if _, excluded := p.Excluded(id, claimed); excluded {
		return Refuted
	}
	if p.Rival(id, claimed, others) {
		return Open
	}
	return Stands
}
