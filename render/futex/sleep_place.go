package futex

import (
	"ustack/filemap"
	"ustack/render/stackset"
)

// places numbers where in the code threads went to sleep in calls that the trace does not
// have. A place is the innermost frames of a stack: calls that a C library makes by one
// function differ in its callers.
type places struct {
	stacks *stackset.Set
	depth  int     // how many frames a place has
	of     []int32 // by stack: the first stack of its place, and 1; 0 if that is not known yet
	first  map[sleepPlace]int32
}

// placeDepth is how many frames a place has at most.
const placeDepth = 3

// sleepPlace is where a thread went to sleep.
type sleepPlace [placeDepth]placeFrame

// placeFrame is a frame of a place: where in which file, or an address, and why it has no file.
type placeFrame struct {
	file *filemap.File
	at   uint64
	why  filemap.Reason
}

// stack returns the stack that stands for all of the same place, noStack if there is none.
func (p *places) stack(id int32) int32 {
	if id < 0 {
		return noStack
	}
	for int(id) >= len(p.of) {
		p.of = append(p.of, 0)
	}
	if n := p.of[id]; n > 0 {
		return n - 1
	}
	first := id
	if key := sleepPlaceOf(p.stacks.Get(id), p.depth); p.first == nil {
		p.first = map[sleepPlace]int32{key: id}
	} else if known, ok := p.first[key]; ok {
		first = known
	} else {
		p.first[key] = id
	}
	p.of[id] = first + 1
	return first
}

func sleepPlaceOf(s *stackset.Stack, depth int) (key sleepPlace) {
	for i := range s.Frames[:min(len(s.Frames), depth)] {
		f := &s.Frames[i]
		if key[i] = (placeFrame{file: f.File, at: f.Offset}); f.File == nil {
			key[i].at, key[i].why = f.Address, f.Reason
		}
	}
	return key
}
