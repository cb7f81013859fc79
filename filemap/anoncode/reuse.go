package anoncode

import (
	"bytes"
	"cmp"
	"slices"
	"sort"

	"ustack/tracefs"
)

// A program can make other code where it had some before. It writes the new code's line
// before it runs it, but which of the lines a frame of before a reading is of is unknown:
// the map has no times. Where that is so, an entry has the number of the reading that
// found it first, and counts for what is from after that reading.

// reading returns the number of the reading under way.
func (m *perfMap) reading() uint32 { return uint32(len(m.times)) + 1 }

// reading is when a reading began that did not find some entries yet, 0 if there was none,
// and when the reading ended that found them: the program wrote them in between.
type reading struct{ before, end tracefs.Time }

// removals reports whether memory that a process had at an address was unmapped between two
// times.
type removals func(addr uint64, from, to tracefs.Time) bool

// outlives reports whether an entry may be of memory that was removed since it was written, and
// what is there is other memory, of which the map need not know.
func (m *perfMap) outlives(e *entry, addr uint64, t tracefs.Time, removed removals) bool {
	if int(e.found) > len(m.found) {
		return true
	}
	r := m.found[e.found-1]
	return removed(addr, r.before, max(r.end, t+stamp))
}

// done notes that what was added since the last call was there at a time, t, which began at
// another one.
func (m *perfMap) done(began, t tracefs.Time) {
	if m.fresh {
		m.found = append(m.found, reading{m.last, t})
	}
	m.fresh, m.last = false, began
	if m.reused {
		m.times = append(m.times, t)
		m.reused = false
	}
	m.rewritten = false
}

// counts reports whether an entry is what was at its place at a time.
func (m *perfMap) counts(e *entry, t tracefs.Time) bool {
	return e.reading == 0 || int(e.reading) <= len(m.times) && t >= m.times[e.reading-1]
}

// settle finds out which of the fresh entries are where another one was, or is.
func (m *perfMap) settle(fresh []entry) {
	m.fresh = m.fresh || len(fresh) > 0
	for i := range fresh {
		e := &fresh[i]
		e.found = uint32(len(m.found)) + 1
		if e.reading = m.before(e); m.rewritten {
			e.reading = m.reading()
		}
	}
	order := make([]*entry, len(fresh))
	for i := range fresh {
		order[i] = &fresh[i]
	}
	slices.SortFunc(order, func(a, b *entry) int { return cmp.Compare(a.start, b.start) })
	for i := 0; i < len(order); {
		n, end, alike := i+1, order[i].end, true
		for ; n < len(order) && order[n].start < end; n++ {
			end = max(end, order[n].end)
			alike = alike && m.alike(order[i], order[n])
		}
		for _, e := range order[i:n] {
			if !alike {
				e.reading = m.reading()
			}
			m.reused = m.reused || e.reading == m.reading()
		}
		i = n
	}
}

// before returns since which reading an entry counts, by those of before.
func (m *perfMap) before(e *entry) (reading uint32) {
	for i := len(m.batches) - 1; i >= 0; i-- {
		b := &m.batches[i]
		k := sort.Search(len(b.spans), func(k int) bool { return b.spans[k].end > e.start })
		for ; k < len(b.spans) && b.spans[k].start < e.end; k++ {
			old := &b.entries[b.spans[k].entry]
			if !m.alike(old, e) {
				return m.reading()
			}
			reading = max(reading, old.reading)
		}
		if reading > 0 {
			break // what older batches have is below
		}
	}
	return reading
}

// alike reports whether two entries are of one function.
func (m *perfMap) alike(a, b *entry) bool {
	return a.start == b.start && a.end == b.end && bytes.Equal(m.names[a.name:][:a.size], m.names[b.name:][:b.size])
}
