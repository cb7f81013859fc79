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

// Pins say which mappings carry an identifier: since a mapping keeps its open file,
// the identifier means that file for as long as the mapping stays. rules.go has the
// consequences.
type Pins[M comparable] struct {
	maps     Mappings[M]
	byID     map[tracefs.Identifier][]Pin[M]
	carried  map[M]carriage
	phantoms map[tracefs.Identifier][]phantom
	count    int
}

// carriage is the identifier of a mapping; split: it has carried two.
type carriage struct {
	id    tracefs.Identifier
	split bool
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
	// maxPins bounds the pins that are kept, maxPerID the ones of one identifier:
	// a hash that processes inherit has one in each of them.
	maxPins  = 1 << 16
	maxPerID = 16
)

// NewPins returns no pins of mappings.
func NewPins[M comparable](maps Mappings[M]) *Pins[M] {
	return &Pins[M]{maps: maps, byID: make(map[tracefs.Identifier][]Pin[M]), carried: make(map[M]carriage),
		phantoms: make(map[tracefs.Identifier][]phantom)}
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
	if p.count++; p.count > maxPins || len(p.carried) > maxPins {
		clear(p.byID)
		clear(p.carried)
		list, p.count = nil, 1
	}
	p.carry(id, pin.Mapping)
	if len(list) == maxPerID {
		list = slices.Delete(list, 0, 1)
		p.count--
	}
	p.byID[id] = append(list, pin)
	return true
}

// carry notes that a mapping carries an identifier.
func (p *Pins[M]) carry(id tracefs.Identifier, m M) {
	c, known := p.carried[m]
	p.carried[m] = carriage{id, c.split || known && c.id != id}
}

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

func (p *Pins[M]) stays(m M, from, to tracefs.Time) Stay {
	if p.carried[m].split {
		return Gone
	}
	return p.maps.Stays(m, from, to)
}
