package perf

import (
	"cmp"
	"encoding/binary"
	"sync/atomic"

	"ustack/tracefs"
)

// Merge reads the records of several rings where the kernel wrote them, in order of
// time. Its zero value is ready for records of the zero Layout.
type Merge struct {
	layout Layout
	heap   []*cursor // the next record of each ring, the first one at the top
	all    []cursor
}

// newMerge reads records of a layout.
func newMerge(l Layout) *Merge { return &Merge{layout: l} }

// cursor is how far a ring has been read.
type cursor struct {
	ring            *Ring
	given, at, next uint64 // room given back until; its record, and where that ends
	head            uint64
	time            tracefs.Time
	record          []byte
}

// Read passes the records up to a time to take, and each loss to lost, all in order of
// time. A record is valid until take returns; its room is the kernel's after that.
// Later records stay in the rings. The error wraps ErrRecord: a ring had bytes that
// are no record, and was emptied; this is a loss, too.
func (m *Merge) Read(rings []*Ring, until tracefs.Time, take func(tracefs.Time, []byte), lost func(Loss)) error {
	_, err := m.ReadSome(rings, until, func(t tracefs.Time, b []byte) bool {
		take(t, b)
		return true
	}, lost)
	return err
}

// ReadSome is Read until take returns false: the record is the last one then, and all
// others stay. more is set if there may be some that are not too late.
func (m *Merge) ReadSome(rings []*Ring, until tracefs.Time, take func(tracefs.Time, []byte) bool, lost func(Loss)) (more bool, err error) {
	m.heap, m.all = m.heap[:0], m.all[:0]
	for _, r := range rings { // all at first: a cursor must not move
		tail, head := r.bounds()
		m.all = append(m.all, cursor{ring: r, given: tail, at: tail, next: tail, head: head})
	}
	for i := range m.all {
		more, lerr := m.load(&m.all[i], until, lost)
		if more {
			m.push(&m.all[i])
		}
		err = cmp.Or(lerr, err)
	}
	for len(m.heap) > 0 {
		c := m.heap[0]
		c.ring.note(m.layout, c.record, c.time, lost)
		if !isLoss(c.record) && !take(c.time, c.record) {
			m.leave(c)
			return true, err
		}
		more, lerr := m.load(c, until, lost)
		if !more {
			last := len(m.heap) - 1
			m.heap[0] = m.heap[last]
			m.heap = m.heap[:last]
		}
		err = cmp.Or(lerr, err)
		m.sink()
	}
	return false, err
}

// leave gives the room of all records back that were taken, the last one of c.
func (m *Merge) leave(c *cursor) {
	c.at = c.next
	for _, c := range m.heap {
		atomic.StoreUint64(c.ring.tail, c.at)
	}
}

// load finds the next record of a ring, and gives the room of earlier ones back. It
// reports whether there is one that is not too late.
func (m *Merge) load(c *cursor, until tracefs.Time, lost func(Loss)) (more bool, err error) {
	const often = 8 // the part of the ring that is given back at once
	c.at = c.next
	end := c.at == c.head
	if !end {
		if err = m.look(c); err != nil {
			c.at, end = c.head, true
			lost(Loss{c.ring.CPU, 0, c.ring.last, max(until, c.ring.last)})
		}
		end = end || c.time > until
	}
	if end || c.at-c.given > uint64(len(c.ring.data)/often) {
		atomic.StoreUint64(c.ring.tail, c.at)
		c.given = c.at
	}
	return !end, err
}

// look takes the record where the cursor is.
func (m *Merge) look(c *cursor) error {
	left := c.head - c.at
	if left < headerSize {
		return bad("its header is cut off", int(left))
	}
	n := uint64(binary.NativeEndian.Uint16(c.ring.view(c.at, headerSize)[6:]))
	b := c.ring.view(c.at, int(min(max(n, headerSize), left)))
	if _, err := size(b); err != nil {
		return err
	}
	c.record, c.next = b, c.at+n
	var err error
	c.time, err = m.layout.when(b)
	return err
}

// push adds a cursor to the heap.
func (m *Merge) push(c *cursor) {
	m.heap = append(m.heap, c)
	for i := len(m.heap) - 1; i > 0; {
		up := (i - 1) / 2
		if m.heap[up].time <= m.heap[i].time {
			return
		}
		m.heap[up], m.heap[i] = m.heap[i], m.heap[up]
		i = up
	}
}

// sink puts the cursor at the top of the heap in its place.
func (m *Merge) sink() {
	for i := 0; ; {
		down := 2*i + 1
		if down >= len(m.heap) {
			return
		}
		if down+1 < len(m.heap) && m.heap[down+1].time < m.heap[down].time {
			down++
		}
		if m.heap[i].time <= m.heap[down].time {
			return
		}
		m.heap[i], m.heap[down] = m.heap[down], m.heap[i]
		i = down
	}
}
