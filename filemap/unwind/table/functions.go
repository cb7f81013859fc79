package table

// Functions calls f for the code that each entry of the table is about, until it
// returns false. Malformed entries are left out.
func (t *Table) Functions(f func(Span) bool) {
	if t.simple != nil {
		for i := range t.simple.n {
			if d, ok := t.simple.descriptor(i); ok && d.size > 0 && !f(Span{d.start, d.start + d.size}) {
				return
			}
		}
		return
	}
	for i := range t.index.count() {
		e, ok := t.frames.entry(t.index.at(i))
		if !ok || len(e.b) == 0 {
			continue
		}
		if _, start, size, ok := t.frames.span(&e); ok && !f(Span{start, start + size}) {
			return
		}
	}
}

// Version returns the version of .sframe, 0 of other tables.
func (t *Table) Version() int {
	if t.simple == nil {
		return 0
	}
	return int(t.simple.version)
}

func (h *header) count() int      { return len(h.table) / 8 }
func (h *header) at(i int) uint64 { return h.number(2*i+1) - h.frame }
func (l *list) count() int        { return len(l.entries) }
func (l *list) at(i int) uint64   { return uint64(l.entries[i].off) }

// Functions calls f for Go's functions, until it returns false.
func (g *Go) Functions(f func(Span) bool) {
	for i := range g.n {
		start, end := g.start+uint64(g.entry(i)), g.start+uint64(g.entry(i+1))
		if end > start && !f(Span{start, end}) {
			return
		}
	}
}
