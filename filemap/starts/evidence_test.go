package starts

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

func (p *table) Judge(s *resolve.Subject) {
	p.when = append(p.when, s.Time)
	for k := range s.Frames {
		addr := s.Frames[k].Address(s.Text)
		o := &s.Outcomes[k]
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

func subject(tid int32, addrs ...uint64) *resolve.Subject {
	s := &resolve.Subject{TID: tid, Time: 9e8, Timed: true, Outcomes: make([]resolve.Outcome, len(addrs))}
	for _, a := range addrs {
		s.Frames = append(s.Frames, tracefs.Frame{Form: tracefs.FormPlain, Addr: a, HasAddr: true})
	}
	return s
}

func TestEvidence(t *testing.T) {
	places := &table{program: &filemap.File{Path: "/program"}, library: &filemap.File{Path: "/libc.so.6"}}
	judge := func(change func(*fake, *table, *resolve.Subject)) (*resolve.Subject, *fake) {
		f, r := newFake()
		p := *places
		s := subject(7, 0x700010, 0x700020)
		change(f, &p, s)
		New(Options{Inner: &p, Places: &p, Symbols: &proofs{p.library}, Reader: r}).Judge(s)
		for _, at := range p.when {
			if at != s.Time {
				t.Errorf("judged at %d, not at %d", at, s.Time)
			}
		}
		return s, f
	}
	s, _ := judge(func(*fake, *table, *resolve.Subject) {})
	if s.Outcomes[1].Calls != 0x1000 || s.Outcomes[0].Calls != 0 {
		t.Errorf("%+v", s.Outcomes)
	}
	for what, c := range map[string]struct {
		change func(*fake, *table, *resolve.Subject)
		asked  bool
	}{
		"no time":              {func(_ *fake, _ *table, s *resolve.Subject) { s.Timed = false }, false},
		"one frame":            {func(_ *fake, _ *table, s *resolve.Subject) { s.Frames, s.Outcomes = s.Frames[:1], s.Outcomes[:1] }, false},
		"no frame":             {func(_ *fake, _ *table, s *resolve.Subject) { s.Frames, s.Outcomes = nil, nil }, false},
		"another frame":        {func(_ *fake, _ *table, s *resolve.Subject) { s.Frames[0].Addr++ }, false},
		"rest of a stack":      {func(_ *fake, _ *table, s *resolve.Subject) { s.Continued = true }, false},
		"no file":              {func(_ *fake, _ *table, s *resolve.Subject) { s.Frames[1].Addr = 0x10 }, false},
		"no inner file":        {func(_ *fake, _ *table, s *resolve.Subject) { s.Frames[0].Addr = 0x10 }, false},
		"late":                 {func(_ *fake, p *table, _ *resolve.Subject) { p.late = true }, false},
		"inferred before":      {func(_ *fake, _ *table, s *resolve.Subject) { s.Frames[0].Inferred = true }, false},
		"outer one inferred":   {func(_ *fake, _ *table, s *resolve.Subject) { s.Frames[1].Inferred = true }, false},
		"no thread":            {func(_ *fake, _ *table, s *resolve.Subject) { s.TID = 8 }, false},
		"not called by it":     {func(f *fake, _ *table, _ *resolve.Subject) { f.tasks[7].start++ }, true},
		"function in no file":  {func(f *fake, _ *table, _ *resolve.Subject) { f.tasks[7].start = 0x901000 }, true},
		"function is the late": {func(f *fake, p *table, _ *resolve.Subject) { f.then = func() { p.late = true } }, true},
	} {
		s, f := judge(c.change)
		for k := range s.Outcomes {
			if s.Outcomes[k].Calls != 0 {
				t.Errorf("%s: %+v", what, s.Outcomes[k].Calls)
			}
		}
		if f.asked > 0 != c.asked {
			t.Errorf("%s: asked %d times", what, f.asked)
		}
	}
}

// TestEvidenceApart: threads with the same frames have each their own function.
func TestEvidenceApart(t *testing.T) {
	f, r := newFake()
	f.tasks[8] = &task{self: 0x7f0000002000, start: 0x402000, from: 5e8}
	f.tasks[9] = &task{self: 0x7f0000003000, start: 0x401000, from: 5e8}
	p := &table{program: &filemap.File{Path: "/program"}, library: &filemap.File{Path: "/libc.so.6"}}
	e := New(Options{Inner: p, Places: p, Symbols: &proofs{p.library}, Reader: r})
	for range 2 {
		for _, tid := range []int32{7, 8, 9} {
			s := subject(tid, 0x700010, 0x700020)
			e.Judge(s)
			if got, want := s.Outcomes[1].Calls, filemap.Begun(f.tasks[int(tid)].start&0xfffff); got != want {
				t.Fatalf("thread %d: %#x, want %#x", tid, got, want)
			}
		}
	}
}
