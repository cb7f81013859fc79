package proof

import (
	"fmt"
	"slices"
	"testing"

	"ustack/filemap"
	"ustack/tracefs"
)

// life is a mapping of a test: its file, and how long it was there; to is negative
// if unknown.
type life struct {
	file     int
	from, to tracefs.Time
}

// lives are what is known of them.
type lives struct{}

func (lives) Stays(m life, from, to tracefs.Time) Stay {
	switch {
	case m.from <= from && to < m.to:
		return Stayed
	case m.to < 0 && m.from <= from:
		return Assumed
	}
	return Gone
}

func (lives) There(m life, t tracefs.Time) bool { return m.from <= t && t < m.to }

func (lives) Same(a, b life) bool { return a.file == b.file }

func (lives) Called(m life, f *filemap.File) bool { return f.Path == fmt.Sprint("/", m.file) }

// statement is one that a test makes.
type statement func(p *Pins[life])

func carries(id uint64, m life, t tracefs.Time) statement {
	return func(p *Pins[life]) { p.Add(tracefs.HashIdentifier(id), m, t) }
}

func inferred(id uint64, m life, from, to tracefs.Time) statement {
	return func(p *Pins[life]) { p.Infer(tracefs.HashIdentifier(id), m, from, to) }
}

func absent(id uint64, path string, t tracefs.Time) statement {
	return func(p *Pins[life]) { p.Absent(tracefs.HashIdentifier(id), &filemap.File{Path: path}, t) }
}

var (
	a      = life{1, 10, 90}
	b      = life{2, 10, 90}
	again  = life{1, 50, 90} // another mapping of a's file
	newer  = life{3, 60, 90}
	before = life{4, 1, 9}
)

// TestExcluded: what cannot carry identifier 1, and why.
func TestExcluded(t *testing.T) {
	for _, c := range []struct {
		name  string
		known []statement
		of    life
		want  bool
		why   Statement
	}{
		{"nothing is known", nil, a, false, 0},
		{"it carries it", []statement{carries(1, a, 20)}, a, false, 0},
		{"it carries another one", []statement{carries(2, a, 20)}, a, true, CarriesOther},
		{"it is supposed to carry another one", []statement{inferred(2, a, 20, 30)}, a, true, CarriesOther},
		{"it has carried two", []statement{carries(2, a, 20), carries(3, a, 30)}, a, false, 0},
		{"it was there when another file's mapping carried it", []statement{carries(1, b, 20)}, a, true, WasOther},
		{"another mapping of its file carried it", []statement{carries(1, again, 55)}, a, false, 0},
		{"it came later", []statement{carries(1, b, 20)}, newer, false, 0},
		{"it came between", []statement{carries(1, b, 20), carries(1, b, 70)}, newer, true, WasOther},
		{"it had gone by then", []statement{carries(1, b, 20)}, before, false, 0},
		{"it was there when the identifier was a file that is not known", []statement{absent(1, "/9", 20)}, a, true, WasOther},
		{"it is that file", []statement{absent(1, "/1", 20)}, a, false, 0},
		{"it came after that", []statement{absent(1, "/9", 20)}, newer, false, 0},
	} {
		p := NewPins(lives{})
		for _, s := range c.known {
			s(p)
		}
		why, excluded := p.Excluded(tracefs.HashIdentifier(1), c.of)
		if excluded != c.want || excluded && why != c.why {
			t.Errorf("%s: %v (%d), want %v (%d)", c.name, excluded, why, c.want, c.why)
		}
	}
}

// TestOnly: what exclusion leaves of mappings that frames of identifier 1 can lie in.
func TestOnly(t *testing.T) {
	for _, c := range []struct {
		name     string
		known    []statement
		of       []life
		from, to tracefs.Time
		left     []life
		only     bool
	}{
		{"one", nil, []life{a}, 20, 30, []life{a}, true},
		{"two", nil, []life{a, b}, 20, 30, []life{a, b}, false},
		{"two, one of which carries another", []statement{carries(2, b, 40)}, []life{a, b}, 20, 30, []life{a}, true},
		{"one that came in between", nil, []life{newer}, 20, 70, []life{newer}, false},
		{"one that went in between", nil, []life{a}, 20, 95, []life{a}, false},
		{"one, but the identifier was another file's", []statement{carries(1, before, 5)}, []life{newer}, 60, 70, []life{newer}, true},
		{"one, but it is another file's, elsewhere", []statement{carries(1, b, 20)}, []life{newer}, 60, 70, []life{newer}, false},
		{"none", []statement{carries(2, a, 20)}, []life{a}, 20, 30, nil, false},
	} {
		p := NewPins(lives{})
		for _, s := range c.known {
			s(p)
		}
		left, only := p.Only(tracefs.HashIdentifier(1), c.of, c.from, c.to)
		if only != c.only || !slices.Equal(left, c.left) {
			t.Errorf("%s: %v %v, want %v %v", c.name, left, only, c.left, c.only)
		}
	}
}

// TestClaim: what is left of a claim that identifier 1 is a mapping's.
func TestClaim(t *testing.T) {
	for _, c := range []struct {
		name    string
		known   []statement
		claimed life
		others  []life
		want    Left
	}{
		{"nothing is known", nil, a, []life{a, b}, Stands},
		{"it carries another one", []statement{carries(2, a, 20)}, a, []life{a}, Refuted},
		{"the identifier was another file's then", []statement{carries(1, b, 20)}, a, []life{a}, Refuted},
		{"it was proven once, and another one came later", []statement{carries(1, a, 20)}, a, []life{a, newer}, Open},
		{"it was proven once, and others were there", []statement{carries(1, a, 20)}, a, []life{a, b}, Stands},
		{"it was proven once, and another one that came later carries another", []statement{carries(1, a, 20), carries(2, newer, 70)},
			a, []life{a, newer}, Stands},
		{"it was another file's that has gone", []statement{carries(1, before, 5)}, a, []life{a, b}, Open},
		{"it was another file's that has gone, and nothing else has the frame", []statement{carries(1, before, 5)}, a, []life{a}, Stands},
	} {
		p := NewPins(lives{})
		for _, s := range c.known {
			s(p)
		}
		if got := p.Claim(tracefs.HashIdentifier(1), c.claimed, slices.Values(c.others)); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
	p := NewPins(lives{})
	p.Add(tracefs.InodeIdentifier(1, 8, 1), before, 5)
	if got := p.Claim(tracefs.InodeIdentifier(1, 8, 1), a, slices.Values([]life{a, b})); got != Stands {
		t.Errorf("an inode that was another file's: %d", got)
	}
}

// TestThrough: an identifier is a mapping's between two times if that was there all
// the time, or is proven to have carried it before and after.
func TestThrough(t *testing.T) {
	p := NewPins(lives{})
	p.Add(tracefs.HashIdentifier(1), a, 20)
	unsure := life{5, 10, -1}
	p.Add(tracefs.HashIdentifier(2), unsure, 20)
	p.Add(tracefs.HashIdentifier(2), unsure, 40)
	split := life{6, 10, 90}
	p.Add(tracefs.HashIdentifier(3), split, 20)
	p.Add(tracefs.HashIdentifier(4), split, 30)
	for _, c := range []struct {
		id       uint64
		from, to tracefs.Time
		want     bool
	}{{1, 11, 12, true}, {1, 30, 80, true}, {1, 80, 95, false}, {1, 95, 96, false}, {2, 20, 40, true}, {2, 20, 41, false}, {2, 50, 50, false},
		{3, 20, 20, true}, {3, 25, 25, false}, {9, 20, 20, false}} {
		if _, ok := p.Through(tracefs.HashIdentifier(c.id), c.from, c.to); ok != c.want {
			t.Errorf("identifier %d from %d to %d: %v", c.id, c.from, c.to, ok)
		}
	}
}
