package starts

import (
	"ustack/filemap"
	"ustack/filemap/callsite"
	"ustack/filemap/resolve"
	"ustack/filemap/symbol"
	"ustack/tracefs"
)

// Symbols reports where functions are missing. symbol.Symbols implements it.
type Symbols interface {
	Start(inner, outer symbol.Place) *callsite.Start
	Begun(f *filemap.File, offset uint64) filemap.Begun
	Missing(inner, outer symbol.Place) bool
}

// Options are what an Evidence works with.
type Options struct {
	// Inner judges stacks first, Places judges the addresses of functions.
	Inner, Places resolve.Evidence
	Symbols       Symbols
	Reader        *Reader
}

// Evidence adds the function that a thread began with to stacks that lack it
// (resolve.Outcome.Calls). It implements resolve.Evidence.
type Evidence struct {
	opt Options
	// For the address at hand.
	subject resolve.Subject
	frame   [1]tracefs.Frame
	outcome [1]resolve.Outcome
}

// New returns an Evidence.
func New(opt Options) *Evidence { return &Evidence{opt: opt} }

// Judge implements resolve.Evidence. The outermost frame is the one that called
// the function: the creator of the thread has no frame.
func (e *Evidence) Judge(s *resolve.Subject) {
	e.opt.Inner.Judge(s)
	n := len(s.Frames) - 1
	if n < 1 || !s.Timed || s.Frames[n-1].Inferred || s.Frames[n].Inferred || s.Frames[n].Followed() {
		return
	}
	in, out := &s.Outcomes[n-1], &s.Outcomes[n]
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
func sure(o *resolve.Outcome) bool {
	return o.File != nil && o.HasOffset && o.Trust == filemap.Verified
}

// function returns what was at an address when the stack was taken, 0 if
// it is not known for sure.
func (e *Evidence) function(s *resolve.Subject, addr uint64) filemap.Begun {
	e.frame[0] = tracefs.Frame{Form: tracefs.FormPlain, Addr: addr, HasAddr: true}
	e.outcome[0] = resolve.Unnamed(filemap.NoAddressSpace)
	e.subject = resolve.Subject{TID: s.TID, TGID: s.TGID, Time: s.Time, Timed: true, Continued: true, Frames: e.frame[:], Outcomes: e.outcome[:]}
	e.opt.Places.Judge(&e.subject)
	o := &e.outcome[0]
	if !sure(o) {
		return 0
	}
	return e.opt.Symbols.Begun(o.File, o.Offset)
}
