package proof

import (
	"testing"

	"ustack/tracefs"
)

// TestPins: an identifier means the mapping that carries it for as long as that
// stays, and nothing more after it has gone.
func TestPins(t *testing.T) {
	p := NewPins(lives{})
	id, other := tracefs.HashIdentifier(1), tracefs.HashIdentifier(2)
	p.Add(id, life{from: 10, to: 20}, 12)
	p.Add(id, life{from: 30, to: -1}, 35)
	for _, test := range []struct {
		at   tracefs.Time
		from tracefs.Time
		want Stay
	}{{12, 10, Stayed}, {10, 10, Stayed}, {19, 10, Stayed}, {20, 30, Gone}, {9, 30, Gone}, {31, 30, Assumed}, {99, 30, Assumed}} {
		pin, stay, ok := p.At(id, test.at)
		if !ok || stay != test.want || pin.Mapping.from != test.from {
			t.Errorf("at %d: %+v %v %v, want %v", test.at, pin, stay, ok, test.want)
		}
	}
	if _, _, ok := p.At(other, 12); ok {
		t.Error("an identifier that was never pinned has a mapping")
	}
}

// TestPinsBounded: however many identifiers there are, few are kept.
func TestPinsBounded(t *testing.T) {
	p := NewPins(lives{})
	for i := range uint64(3 * maxPins) {
		p.Add(tracefs.HashIdentifier(i), life{file: 1}, 1)
	}
	for i := range 3 * maxPerID {
		p.Add(tracefs.HashIdentifier(1), life{file: i}, 1)
	}
	n := 0
	for _, list := range p.byID {
		n += len(list)
	}
	if n > maxPins || n != p.count || len(p.byID[tracefs.HashIdentifier(1)]) > maxPerID {
		t.Errorf("%d pins, counted %d, %d of one", n, p.count, len(p.byID[tracefs.HashIdentifier(1)]))
	}
}
