package threadentry

import (
	"ustack/filemap"
	"ustack/filemap/callsite"
	"ustack/filemap/resolve"
	"ustack/filemap/symbol"
	"ustack/tracefs"
)

// Symbols reports where functions are missing. symbolize.Symbols implements it.
type Symbols interface {
	Start(inner, outer symbol.Place) *callsite.Start
	Begun(f *filemap.File, offset uint64) filemap.Begun
	Missing(inner, outer symbol.Place) bool
}

// Options are what an Attributor works with.
type Options struct {
	// Inner attributes stacks first, Places the addresses of functions.
	Inner, Places resolve.Attributor
	Symbols       Symbols
	Reader        *Reader
}

// Attributor adds the function that a thread began with to stacks that lack it
// (resolve.Attribution.Calls). It implements resolve.Attributor.
type Attributor struct {
	opt Options
	// For the address at hand.
	query       resolve.Query
	frame       [1]tracefs.Frame
	attribution [1]resolve.Attribution
}

// New returns an Attributor.
func New(opt Options) *Attributor { return &Attributor{opt: opt} }

// Attribute implements resolve.Attributor. The outermost frame is the one that called
// the function: the creator of the thread has no frame.
func (e *Attributor) Attribute(s *resolve.Query) {
	e.opt.Inner.Attribute(s)
	n := len(s.Frames) - 1
	if n < 1 || !s.Timed || s.Frames[n-1].Inferred() || s.Frames[n].Inferred() || s.Frames[n].Followed() {
		return
	}
	in, out := &s.Attributions[n-1], &s.Attributions[n]
	if in.File == nil || !in.HasOffset || !sure(out) {
		return
	}
	inner := symbol.Place{File: in.File, Offset: in.Offset, Ran: n == 1 && !s.Continued}
	outer := symbol.Place{File: out.File, Offset: out.Offset}
	site := e.opt.Symbols.Start(inner, outer)
	if site == nil {
		return
	}
	addr, ok := e.opt.Reader.Start(int(s.TID), s.Time, site)
	if !ok {
		return
	}
	outer.Calls = e.function(s, addr)
	if outer.Calls != 0 && e.opt.Symbols.Missing(inner, outer) { // else stacks would differ by what is not shown
		out.Calls = outer.Calls
	}
}

// sure reports whether a frame was at its offset of its file, for sure.
func sure(o *resolve.Attribution) bool {
	return o.File != nil && o.HasOffset && o.Trust == filemap.Verified
}

// function returns what was at an address when the stack was taken, 0 if
// it is not known for sure.
func (e *Attributor) function(s *resolve.Query, addr uint64) filemap.Begun {
	e.frame[0] = tracefs.Frame{Form: tracefs.FormPlain, Addr: addr, HasAddr: true}
	e.attribution[0] = resolve.Unnamed(filemap.NoAddressSpace)
	e.query = resolve.Query{TID: s.TID, TGID: s.TGID, Time: s.Time, Timed: true, Continued: true, Frames: e.frame[:], Attributions: e.attribution[:]}
	e.opt.Places.Attribute(&e.query)
	o := &e.attribution[0]
	if !sure(o) {
		return 0
	}
	return e.opt.Symbols.Begun(o.File, o.Offset)
}
