package anoncode

import (
	"bytes"
	"slices"
	"sort"
	"strings"

	"ustack/filemap"
	"ustack/tracefs"
)

// perfMap is a program's list of the code that it makes while it runs
// (tools/perf/Documentation/jit-interface.txt in the kernel's sources): lines
//
//	START SIZE NAME
//
// with numbers in hexadecimal. A program appends lines, so the last line with an
// address counts.
type perfMap struct {
	batches []batch // the oldest first, each much larger than the next
	names   []byte
	codes   map[codeKey]*filemap.Code
	count   int // of entries
	bad     int // lines that are none
	first   int // of those, counted from 1
	lines   int

	times     []tracefs.Time // of the readings that entries have
	found     []reading      // that found entries, see entry.found
	fresh     bool           // the reading under way has found some
	last      tracefs.Time   // when the last reading began
	reused    bool           // so has one of the reading under way
	rewritten bool           // there was another map before
}

// entry is a line.
type entry struct {
	start, end uint64
	name, size uint32 // in perfMap.names
	reading    uint32 // see perfMap.settle; 0 if nothing else was there
	found      uint32 // by which of perfMap.found, counted from 1
}

// codeKey identifies a function: the map may have it in several lines.
type codeKey struct {
	start uint64
	name  string
}

// batch are entries that follow each other.
type batch struct {
	entries []entry
	spans   []span
}

// span is a run of addresses that belong to one entry.
type span struct {
	start, end uint64
	entry      int32
}

// Bounds of a map. A larger one is not used at all: the lines that count are at
// its end.
const (
	maxMapSize = 64 << 20
	maxEntries = 1 << 20
	maxName    = 4 << 10
	maxCodes   = 1 << 16
)

// entryBytes is about what an entry needs, with its spans.
const entryBytes = 96

func (m *perfMap) memory() int { return len(m.names) + entryBytes*m.count + 16*len(m.found) }

// add takes lines that a program has appended, and returns how many bytes it
// took: a line without its end is not whole yet. ok is false if there are too
// many.
func (m *perfMap) add(text []byte) (taken int, ok bool) {
	var fresh []entry
	for {
		line, _, whole := bytes.Cut(text[taken:], []byte("\n"))
		if !whole {
			break
		}
		taken += len(line) + 1
		m.lines++
		e, name, ok := parseEntry(line)
		switch {
		case !ok:
			if m.bad++; m.first == 0 {
				m.first = m.lines
			}
			continue
		case e.start == e.end:
			continue
		case m.count == maxEntries:
			return taken, false
		}
		e.name, e.size = uint32(len(m.names)), uint32(len(name))
		m.names = append(m.names, name...)
		m.count++
		fresh = append(fresh, e)
	}
	m.settle(fresh)
	m.append(fresh)
	return taken, true
}

// append makes a batch of entries, with those before it that are not much
// larger, so that there are few.
func (m *perfMap) append(fresh []entry) {
	if len(fresh) == 0 {
		return
	}
	n := len(m.batches)
	for n > 0 && len(m.batches[n-1].entries) <= 2*len(fresh) {
		n--
		fresh = slices.Concat(m.batches[n].entries, fresh)
	}
	m.batches = append(m.batches[:n], batch{fresh, flatten(fresh)})
}

// parseEntry reads a line without its line feed.
func parseEntry(line []byte) (e entry, name []byte, ok bool) {
	start, rest, ok1 := hexField(line)
	size, name, ok2 := hexField(rest)
	e = entry{start: start, end: start + size}
	return e, name, ok1 && ok2 && e.end >= e.start && len(name) > 0 && len(name) <= maxName
}

// hexField reads a number and the blank after it.
func hexField(b []byte) (v uint64, rest []byte, ok bool) {
	for i, c := range b {
		digit := strings.IndexByte("0123456789abcdef", c|0x20)
		switch {
		case c == ' ' && i > 0:
			return v, b[i+1:], true
		case i == 16, digit < 0, c < '0':
			return 0, nil, false
		}
		v = v<<4 | uint64(digit)
	}
	return 0, nil, false
}

// flatten makes spans of entries, in order and without overlap: the last one of
// several entries for an address counts.
func flatten(entries []entry) []span {
	order := make([]int32, len(entries))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortStableFunc(order, func(a, b int32) int {
		switch x, y := entries[a].start, entries[b].start; {
		case x < y:
			return -1
		case x > y:
			return 1
		}
		return 0
	})
	var spans []span
	var open latest
	pos := uint64(0)
	for len(order) > 0 || len(open) > 0 {
		for len(open) > 0 && entries[open[0]].end <= pos {
			open.pop()
		}
		if len(open) == 0 {
			if len(order) == 0 {
				break
			}
			pos = max(pos, entries[order[0]].start)
		}
		for len(order) > 0 && entries[order[0]].start <= pos {
			open.push(order[0])
			order = order[1:]
		}
		top := open[0]
		end := entries[top].end
		if len(order) > 0 {
			end = min(end, entries[order[0]].start)
		}
		if n := len(spans); n > 0 && spans[n-1].end == pos && spans[n-1].entry == top {
			spans[n-1].end = end
		} else {
			spans = append(spans, span{pos, end, top})
		}
		pos = end
	}
	return spans
}

// latest are entries by number, a heap with the largest on top.
type latest []int32

func (h *latest) push(v int32) {
	*h = append(*h, v)
	s := *h
	for i := len(s) - 1; i > 0; {
		up := (i - 1) / 2
		if s[up] >= s[i] {
			break
		}
		s[up], s[i], i = s[i], s[up], up
	}
}

func (h *latest) pop() {
	s := *h
	n := len(s) - 1
	s[0] = s[n]
	s = s[:n]
	*h = s
	for i := 0; ; {
		big := i
		for _, k := range [...]int{2*i + 1, 2*i + 2} {
			if k < n && s[k] > s[big] {
				big = k
			}
		}
		if big == i {
			return
		}
		s[i], s[big], i = s[big], s[i], big
	}
}

// at returns the entry of an address, nil if there is none.
func (m *perfMap) at(addr uint64) *entry {
	for i := len(m.batches) - 1; i >= 0; i-- {
		b := &m.batches[i]
		k := sort.Search(len(b.spans), func(k int) bool { return b.spans[k].end > addr })
		if k < len(b.spans) && b.spans[k].start <= addr {
			return &b.entries[b.spans[k].entry]
		}
	}
	return nil
}

// code returns the function that a frame is in, nil if it is not in the map. ran
// means that the thread was at the address itself. Others are return addresses,
// and the call is before them. If a function begins at the address, the call is
// not sure: a signal may have interrupted the thread there, which the stack does
// not show. t is when that was: of what has come and gone at the address, none is sure. The
// same holds for memory that has been removed; removed may be nil.
func (m *perfMap) code(addr uint64, ran bool, t tracefs.Time, removed removals) *filemap.Code {
	e, at := m.at(addr), addr
	if !ran {
		at--
		before := m.at(at)
		if before != e && e != nil && (before != nil || e.start == addr) {
			return nil
		}
		e = before
	}
	if e == nil || !m.counts(e, t) || removed != nil && m.outlives(e, at, t, removed) {
		return nil
	}
	key := codeKey{e.start, string(m.names[e.name:][:e.size])}
	c := m.codes[key]
	if c == nil {
		if m.codes == nil || len(m.codes) >= maxCodes {
			m.codes = make(map[codeKey]*filemap.Code)
		}
		c = &filemap.Code{Function: key.name, Start: key.start}
		m.codes[key] = c
	}
	return c
}
