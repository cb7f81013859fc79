package render

import (
	"slices"

	"ustack/filemap"
	"ustack/filemap/resolve"
	"ustack/tracefs"
)

// memo remembers how stacks were written, with names. Stacks of raw addresses are no
// templates: each is looked up anew, at its own time. But the text of a frame depends
// only on its place in a file, on the next frame and the function that it is known to
// have called, and on how the frame was found, so these are the key of a remembered
// stack.
type memo struct {
	slots []rendered // by hash
	kept  int        // bytes, about
}

// rendered is the last stack of a slot that came twice in a row.
type rendered struct {
	hash   uint64 // of the last one that came
	places []placed
	text   []byte // from the first frame to the last one
}

// placed is a frame of it.
type placed struct {
	file   *filemap.File
	offset uint64
	calls  filemap.Begun
	trust  filemap.Trust
	how    tracefs.How
}

const memoBits = 12

// find returns where a stack has its place, nil if it is not to be remembered: a
// frame is not in a file, or its line is not made of its place alone. seen means
// that the stack before in that place had the same hash.
func (m *memo) find(txt []byte, frames []tracefs.Frame, out []resolve.Attribution) (w *rendered, seen bool) {
	const prime = 0x9e3779b97f4a7c15
	hash := uint64(len(out))
	for k := range out {
		f, o := &frames[k], &out[k]
		if o.File == nil || !o.HasOffset || f.Inferred() || k > 0 && !follows(txt, &frames[k-1], f) {
			return nil, false
		}
		hash = (hash ^ o.Offset) * prime
		hash ^= hash >> 32
	}
	if m.slots == nil {
		m.slots = make([]rendered, 1<<memoBits)
	}
	w = &m.slots[hash*prime>>(64-memoBits)]
	seen = w.hash == hash
	w.hash = hash
	return w, seen
}

// follows reports whether only a line feed is between two frames.
func follows(txt []byte, a, b *tracefs.Frame) bool { return b.Off == a.End+1 && txt[a.End] == '\n' }

// is reports whether a stack is the one that was written.
func (w *rendered) is(frames []tracefs.Frame, out []resolve.Attribution) bool {
	if len(w.places) != len(out) {
		return false
	}
	for k := range out {
		how, _ := frames[k].Unwound()
		if p := &w.places[k]; p.how != how || p.offset != out[k].Offset || p.file != out[k].File || p.calls != out[k].Calls || p.trust != out[k].Trust {
			return false
		}
	}
	return true
}

// cost returns about how many bytes are kept.
func (w *rendered) cost() int {
	const each = 32 // a placed
	return len(w.text) + each*len(w.places)
}

// keep remembers a stack. The one before may still wait to be rendered, so
// nothing is rendered over it.
func (m *memo) keep(w *rendered, frames []tracefs.Frame, out []resolve.Attribution, text []byte) {
	m.kept -= w.cost()
	w.text, w.places = slices.Clone(text), make([]placed, len(out))
	for k := range out {
		how, _ := frames[k].Unwound()
		w.places[k] = placed{out[k].File, out[k].Offset, out[k].Calls, out[k].Trust, how}
	}
	if m.kept += w.cost(); m.kept > keepAtMost {
		clear(m.slots)
		m.kept = 0
	}
}
