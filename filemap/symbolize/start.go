package symbolize

import (
	"ustack/filemap"
	"ustack/filemap/callsite"
	"ustack/filemap/symbol"
)

// Start reports whether unwinding by frame pointers may have skipped the function
// that the thread began with, between two frames: the call before the outer frame's
// address calls it, and the code of the inner frame has left the frame pointer
// alone. Only the thread's memory shows which function it is; then Skipped proves
// the rest. It is nil for other frames.
func (s *Symbols) Start(inner, outer symbol.Place) *callsite.Start {
	if s.opt.NoInfer || inner.File == nil || outer.File == nil || outer.Ran {
		return nil
	}
	key := pair{inner, outer}
	if c, ok := s.starts[key]; ok {
		return c
	}
	if len(s.starts) >= maxPairs || s.starts == nil {
		s.starts = make(map[pair]*callsite.Start)
	}
	var found *callsite.Start
	if !s.prove(inner, outer, outer.File, func(p *proof, _ *source) {
		if c, ok := p.outer.start(outer.Offset); ok && p.untouched(inner) {
			found = &c
		}
	}) {
		found = nil
	}
	s.starts[key] = found
	return found
}

// Begun numbers a function that begins at an offset of a file, for threads that
// are known to have begun with it: Place.Calls. It is 0 if there are too many.
func (s *Symbols) Begun(f *filemap.File, offset uint64) filemap.Begun {
	return s.begun.number(begun{f, offset})
}

// begun is a function that threads have begun with.
type begun struct {
	file   *filemap.File
	offset uint64
}

// begunTable has these functions by their numbers, from 1.
type begunTable struct {
	list    []begun
	numbers map[begun]filemap.Begun
}

// maxBegun bounds these functions.
const maxBegun = 1 << 14

func (t *begunTable) number(b begun) filemap.Begun {
	n, ok := t.numbers[b]
	if ok || len(t.list) >= maxBegun {
		return n
	}
	if t.numbers == nil {
		t.numbers = make(map[begun]filemap.Begun)
	}
	t.list = append(t.list, b)
	n = filemap.Begun(len(t.list))
	t.numbers[b] = n
	return n
}

// get returns the function with a number, nil if there is none.
func (t *begunTable) get(n filemap.Begun) *begun {
	if n == 0 || int(n) > len(t.list) {
		return nil
	}
	return &t.list[n-1]
}
