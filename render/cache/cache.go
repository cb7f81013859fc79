// Package cache has what renderers keep of what they have made: the rendered form
// of a stack, the number of a stack in a profile. The values of packages filemap and
// tracefs hold nothing of a renderer; they have numbers (resolve.Result.ID,
// resolve.Stack.ID, symbol.Name.ID), by which each renderer keeps its own.
package cache

// Numbered keeps what was made of numbered values. Their owner counts up from 1; 0 is
// a value without a number, of which nothing is kept. It has a fixed number of
// slots, and a value takes the slot of one whose number differs by a multiple of
// that: what the owner has dropped goes as newer values come.
type Numbered[V any] struct {
	slots []slot[V]
	size  int
}

type slot[V any] struct {
	id   uint64
	made V
}

// New returns a Numbered of 1<<bits slots. They need no memory before the first Put.
func New[V any](bits int) Numbered[V] { return Numbered[V]{size: 1 << bits} }

// Get returns what was kept of a value, false if it is not there.
func (c *Numbered[V]) Get(id uint64) (made V, ok bool) {
	if i := id & uint64(len(c.slots)-1); i < uint64(len(c.slots)) && id != 0 {
		s := &c.slots[i]
		return s.made, s.id == id
	}
	return made, false
}

// Put keeps what was made of a value.
func (c *Numbered[V]) Put(id uint64, made V) {
	if id == 0 {
		return
	}
	if c.slots == nil {
		c.slots = make([]slot[V], c.size)
	}
	c.slots[id&uint64(len(c.slots)-1)] = slot[V]{id, made}
}

// drop empties the slot of a number, and returns what was in it.
func (c *Numbered[V]) drop(id uint64) (made V) {
	if i := id & uint64(len(c.slots)-1); i < uint64(len(c.slots)) {
		made, c.slots[i] = c.slots[i].made, slot[V]{}
	}
	return made
}

// Texts keeps rendered text of numbered values, up to a number of bytes.
type Texts struct {
	numbered Numbered[[]byte]
	bytes    int // that are kept
	limit    int
}

// NewTexts returns Texts of 1<<bits slots and at most limit bytes.
func NewTexts(bits, limit int) Texts { return Texts{numbered: New[[]byte](bits), limit: limit} }

// Get returns the text of a value, nil if it is not kept.
func (t *Texts) Get(id uint64) []byte {
	if text, ok := t.numbered.Get(id); ok {
		return text
	}
	return nil
}

// Put keeps a copy of the text of a value if there is room. The text that was in the
// value's slot is dropped in any case, so there is room again once its owner has made
// as many values as there are slots. A slice that Get has returned stays as it is.
func (t *Texts) Put(id uint64, text []byte) {
	if id == 0 {
		return
	}
	t.bytes -= len(t.numbered.drop(id))
	if t.bytes+len(text) > t.limit {
		return
	}
	t.bytes += len(text)
	t.numbered.Put(id, append(make([]byte, 0, len(text)), text...))
}
