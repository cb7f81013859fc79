package threadentry

import (
	"testing"

	"ustack/filemap"
	"ustack/filemap/callsite"
	"ustack/filemap/resolve"
	"ustack/filemap/symbol"
	"ustack/tracefs"
)

// table judges addresses: 0x401000 is 0x1000 of the program.
type table struct {
	program, library *filemap.File
	late             bool
	when             []tracefs.Time
}

func (p *table) Attribute(s *resolve.Query) {
	p.when = append(p.when, s.Time)
	for k := range s.Frames {
		addr := s.Frames[k].Address(s.Text)
		o := &s.Attributions[k]
		switch {
		case addr>>20 == 0x4:
			*o = resolve.Named(p.program, filemap.Verified)
			o.Offset, o.HasOffset = addr&0xfffff, true
		case addr>>20 == 0x7:
			*o = resolve.Named(p.library, filemap.Verified)
			o.Offset, o.HasOffset = addr&0xfffff, true
		}
		if p.late {
			o.Trust = filemap.Late
		}
	}
}

// proofs prove what begins at even addresses, between 0x10 and 0x20 of the library.
type proofs struct{ library *filemap.File }

func (p *proofs) Start(inner, outer symbol.Place) *callsite.Start {
	if inner == (symbol.Place{File: p.library, Offset: 0x10, Ran: true}) && outer == (symbol.Place{File: p.library, Offset: 0x20}) {
		return &callsite.Start{Head: site.Head, Pointer: site.Pointer}
	}
	return nil
}

// Begun takes offsets of the program for numbers.
func (p *proofs) Begun(f *filemap.File, offset uint64) filemap.Begun {
	if f == p.library {
		return 0
	}
	return filemap.Begun(offset)
}

func (p *proofs) Missing(inner, outer symbol.Place) bool {
	return outer.Calls != 0 && outer.Calls%2 == 0
}

func query(tid int32, addrs ...uint64) *resolve.Query {
	s := &resolve.Query{TID: tid, Time: 9e8, Timed: true, Attributions: make([]resolve.Attribution, len(addrs))}
	for _, a := range addrs {
		s.Frames = append(s.Frames, tracefs.Frame{Form: tracefs.FormPlain, Addr: a, HasAddr: true})
	}
	return s
}

func TestAttribute(t *testing.T) {
	places := &table{program: &filemap.File{Path: "/program"}, library: &filemap.File{Path: "/libc.so.6"}}
	attribute := func(change func(*fake, *table, *resolve.Query)) (*resolve.Query, *fake) {
		f, r := newFake()
		p := *places
		s := query(7, 0x700010, 0x700020)
		change(f, &p, s)
		New(Options{Inner: &p, Places: &p, Symbols: &proofs{p.library}, Reader: r}).Attribute(s)
		for _, at := range p.when {
			if at != s.Time {
				t.Errorf("judged at %d, not at %d", at, s.Time)
			}
		}
		return s, f
	}
	s, _ := attribute(func(*fake, *table, *resolve.Query) {})
	if s.Attributions[1].Calls != 0x1000 || s.Attributions[0].Calls != 0 {
		t.Errorf("%+v", s.Attributions)
	}
	for what, c := range map[string]struct {
		change func(*fake, *table, *resolve.Query)
		asked  bool
	}{
		"no time":              {func(_ *fake, _ *table, s *resolve.Query) { s.Timed = false }, false},
		"one frame":            {func(_ *fake, _ *table, s *resolve.Query) { s.Frames, s.Attributions = s.Frames[:1], s.Attributions[:1] }, false},
		"no frame":             {func(_ *fake, _ *table, s *resolve.Query) { s.Frames, s.Attributions = nil, nil }, false},
		"another frame":        {func(_ *fake, _ *table, s *resolve.Query) { s.Frames[0].Addr++ }, false},
		"rest of a stack":      {func(_ *fake, _ *table, s *resolve.Query) { s.Continued = true }, false},
		"no file":              {func(_ *fake, _ *table, s *resolve.Query) { s.Frames[1].Addr = 0x10 }, false},
		"no inner file":        {func(_ *fake, _ *table, s *resolve.Query) { s.Frames[0].Addr = 0x10 }, false},
		"late":                 {func(_ *fake, p *table, _ *resolve.Query) { p.late = true }, false},
		"inferred before":      {func(_ *fake, _ *table, s *resolve.Query) { s.Frames[0].SetInferred(true) }, false},
		"outer one inferred":   {func(_ *fake, _ *table, s *resolve.Query) { s.Frames[1].SetInferred(true) }, false},
		"no thread":            {func(_ *fake, _ *table, s *resolve.Query) { s.TID = 8 }, false},
		"not called by it":     {func(f *fake, _ *table, _ *resolve.Query) { f.tasks[7].start++ }, true},
		"function in no file":  {func(f *fake, _ *table, _ *resolve.Query) { f.tasks[7].start = 0x901000 }, true},
		"function is the late": {func(f *fake, p *table, _ *resolve.Query) { f.then = func() { p.late = true } }, true},
	} {
		s, f := attribute(c.change)
		for k := range s.Attributions {
			if s.Attributions[k].Calls != 0 {
				t.Errorf("%s: %+v", what, s.Attributions[k].Calls)
			}
		}
		if f.asked > 0 != c.asked {
			t.Errorf("%s: asked %d times", what, f.asked)
		}
	}
}

// TestAttributeApart: threads with the same frames have each their own function.
func TestAttributeApart(t *testing.T) {
	f, r := newFake()
	f.tasks[8] = &task{self: 0x7f0000002000, start: 0x402000, from: 5e8}
	f.tasks[9] = &task{self: 0x7f0000003000, start: 0x401000, from: 5e8}
	p := &table{program: &filemap.File{Path: "/program"}, library: &filemap.File{Path: "/libc.so.6"}}
	e := New(Options{Inner: p, Places: p, Symbols: &proofs{p.library}, Reader: r})
	for range 2 {
		for _, tid := range []int32{7, 8, 9} {
			s := query(tid, 0x700010, 0x700020)
			e.Attribute(s)
			if got, want := s.Attributions[1].Calls, filemap.Begun(f.tasks[int(tid)].start&0xfffff); got != want {
				t.Fatalf("thread %d: %#x, want %#x", tid, got, want)
			}
		}
	}
}
