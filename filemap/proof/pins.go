package proof

import (
	"slices"

	"ustack/tracefs"
)

// Stay is what is known of a mapping between two times.
type Stay uint8

const (
	// Gone: it ended in between, or something else was seen in its place.
	Gone Stay = iota
	// Assumed: nothing says that it went away, but that would not have been
	// seen either.
	Assumed
	// Stayed: it was there all the time.
	Stayed
)

// Pins say which mappings carry an identifier: since a mapping keeps its open
// file, the identifier means that file for as long as the mapping stays. M
// names a mapping of a process from when it was made until it goes away.
type Pins[M comparable] struct {
	stays func(m M, from, to tracefs.Time) Stay
	byID  map[tracefs.Identifier][]Pin[M]
	count int
}

// Pin is the statement that a mapping carries an identifier at a time.
type Pin[M comparable] struct {
	Mapping M
	// First and Last are the earliest and the latest time at which it was
	// proven.
	First, Last tracefs.Time
	// Inferred: it is what exclusion has left, or rests on that.
	Inferred bool
}

const (
	// maxPins bounds the pins that are kept, maxPerID those of one identifier:
	// a hash that processes inherit has one in each of them.
	maxPins  = 1 << 16
	maxPerID = 16
)

// NewPins returns no pins. stays says what is known of a mapping between two
// times, the earlier one first.
func NewPins[M comparable](stays func(m M, from, to tracefs.Time) Stay) *Pins[M] {
	return &Pins[M]{stays: stays, byID: make(map[tracefs.Identifier][]Pin[M])}
}

// Add notes that a mapping carries an identifier at a time. It reports whether
// that is new.
func (p *Pins[M]) Add(id tracefs.Identifier, m M, t tracefs.Time) bool {
	return p.add(id, Pin[M]{Mapping: m, First: t, Last: t})
}

// Infer is Add for what exclusion has left between two times.
func (p *Pins[M]) Infer(id tracefs.Identifier, m M, from, to tracefs.Time) bool {
	return p.add(id, Pin[M]{Mapping: m, First: from, Last: to, Inferred: true})
}

func (p *Pins[M]) add(id tracefs.Identifier, pin Pin[M]) bool {
	list := p.byID[id]
	if i := slices.IndexFunc(list, func(x Pin[M]) bool { return x.Mapping == pin.Mapping }); i >= 0 {
		x := &list[i]
		if x.Inferred && !pin.Inferred {
			*x = pin // what was inferred is proven
			return true
		}
		x.First, x.Last = min(x.First, pin.First), max(x.Last, pin.Last)
		return false
	}
	if p.count++; p.count > maxPins {
		clear(p.byID)
		list, p.count = nil, 1
	}
	if len(list) == maxPerID {
		list = slices.Delete(list, 0, 1)
		p.count--
	}
	p.byID[id] = append(list, pin)
	return true
}

// Of returns the pins of an identifier. They are not to be changed.
func (p *Pins[M]) Of(id tracefs.Identifier) []Pin[M] { return p.byID[id] }

// At returns the pin of an identifier whose mapping is known best to be there
// at a time, and how well. ok is false if the identifier was never pinned.
func (p *Pins[M]) At(id tracefs.Identifier, t tracefs.Time) (best Pin[M], stay Stay, ok bool) {
	for _, pin := range p.byID[id] {
		// From the nearest time at which it was so.
		from, to := pin.Last, t
		switch {
		case t < pin.First:
			from, to = t, pin.First
		case t <= pin.Last:
			from, to = t, t
		}
		s := Stayed // it carried the identifier before and after
		if from != to {
			s = p.stays(pin.Mapping, from, to)
		}
		if better := s > stay || s == stay && (best.Inferred || !pin.Inferred); !ok || better {
			best, stay, ok = pin, s, true
		}
	}
	return best, stay, ok
}
