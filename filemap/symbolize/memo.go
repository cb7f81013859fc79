package symbolize

import (
	"ustack/filemap"
	"ustack/filemap/resolve"
	"ustack/filemap/symbol"
	"ustack/tracefs"
)

// memo remembers the functions of stacks of raw addresses: the same few come over and
// over, and are no templates. The functions of a frame depend only on its place in a
// file, on the next frame and the function that it is known to have called, and on how
// the frames were found, so these are the key.
type memo struct {
	slots []known // by hash
	kept  int     // bytes, about
}

// known is the last stack of a slot that came twice in a row.
type known struct {
	hash      uint64 // of the last one that came
	innermost bool   // see Stage.functions
	places    []placed
	functions []symbol.Function
}

// placed is a frame of it.
type placed struct {
	file   *filemap.File
	offset uint64
	calls  filemap.Begun
	how    tracefs.How
}

const (
	memoBits   = 12
	memoLimit  = 8 << 20
	memoFrames = 40 + 16 // bytes of a placed and of a Function
)

// find returns where a stack has its place, nil if it is not to be remembered. seen
// means that the stack before in that place had the same hash.
func (m *memo) find(frames []tracefs.Frame, out []resolve.Attribution, innermost bool) (place *known, seen bool) {
	const prime = 0x9e3779b97f4a7c15
	hash := uint64(len(out))
	if innermost {
		hash += 1 << 32
	}
	for k := range out {
		o := &out[k]
		if frames[k].Inferred() || o.File != nil && !o.HasOffset || o.File == nil && o.Memory != nil {
			return nil, false
		}
		hash = (hash ^ o.Offset) * prime
		hash ^= hash >> 32
	}
	if m.slots == nil {
		m.slots = make([]known, 1<<memoBits)
	}
	place = &m.slots[hash*prime>>(64-memoBits)]
	seen = place.hash == hash
	place.hash = hash
	return place, seen
}

// is reports whether a stack is the one that is known.
func (w *known) is(frames []tracefs.Frame, out []resolve.Attribution, innermost bool) bool {
	if len(w.places) != len(out) || w.functions == nil || w.innermost != innermost {
		return false
	}
	for k := range out {
		how, _ := frames[k].Unwound()
		if p, o := &w.places[k], &out[k]; p.offset != o.Offset || p.file != o.File || p.calls != o.Calls || p.how != how {
			return false
		}
	}
	return true
}

// keep remembers the functions of a stack.
func (m *memo) keep(w *known, frames []tracefs.Frame, out []resolve.Attribution, innermost bool, list []symbol.Function) {
	m.kept += memoFrames * (len(list) - len(w.places))
	w.innermost, w.functions, w.places = innermost, list, make([]placed, len(out))
	for k := range out {
		how, _ := frames[k].Unwound()
		w.places[k] = placed{out[k].File, out[k].Offset, out[k].Calls, how}
	}
	if m.kept > memoLimit {
		clear(m.slots)
		m.kept = 0
	}
}
