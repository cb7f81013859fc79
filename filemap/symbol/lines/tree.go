package lines

import (
	"cmp"
	"slices"
)

// tree is the inlined functions and blocks of one function. Addresses are found in
// it in a time that grows with the logarithm of its size.
type tree struct {
	nodes []node // the first one is the function
	spans []run
}

// node is an inlined function or block.
type node struct {
	entry    uint32 // of an inlined function, from the beginning of the unit on
	inlined  bool
	from, to int32 // of spans: those in it, by address and without overlap
}

// level is a node that is being read.
type level struct {
	node  int32 // -1: its contents belong to the level around
	spans []run
}

// grow keeps the entries of a function as a tree.
func (d *Data) grow(u *unit, in *contents, at uint64, w *walked) error {
	c := cursor{b: in.bytes, at: int(at - u.off), order: d.order}
	from := c.at
	t := &tree{nodes: make([]node, 1)}
	err := t.read(d, u, in, &c)
	if serr := d.scanned(c.at - from); err == nil {
		err = serr
	}
	if err == nil {
		w.tree = t
		const perNode, perSpan = 16, 24
		d.charge(u, perNode*len(t.nodes)+perSpan*len(t.spans))
	}
	return err
}

// read reads the entries that begin at a cursor.
func (t *tree) read(d *Data, u *unit, in *contents, c *cursor) error {
	var e entry
	if err := u.entry(c, in.tables, &e); err != nil || !e.children {
		return err
	}
	levels := []level{{node: 0}}
	for len(levels) > 0 {
		if err := u.entry(c, in.tables, &e); err != nil {
			return err
		}
		last := len(levels) - 1
		if e.tag == 0 {
			t.close(&levels[last])
			levels = levels[:last]
			continue
		}
		enter, own := false, int32(-1)
		switch what := scopeOf(&e); what {
		case inlinedScope, blockScope:
			own = int32(len(t.nodes))
			t.nodes = append(t.nodes, node{entry: uint32(e.off - u.off), inlined: what == inlinedScope})
			list := around(levels)
			before := len(*list)
			err := d.each(u, &e, func(low, high uint64) { *list = append(*list, run{low, high, uint64(own)}) })
			if err == ErrTooMuch || len(*list) > maxRuns {
				return ErrTooMuch
			}
			if enter = len(*list) > before; !enter && what == blockScope {
				enter, own = true, -1
			}
		case openScope:
			enter = true
		}
		switch {
		case !e.children:
		case enter && len(levels) <= maxDepth:
			levels = append(levels, level{node: own})
		default:
			if err := u.skipChildren(c, in.tables, &e); err != nil {
				return err
			}
		}
	}
	return nil
}

// around returns where the addresses of an entry belong.
func around(levels []level) *[]run {
	for i := len(levels) - 1; i > 0; i-- {
		if levels[i].node >= 0 {
			return &levels[i].spans
		}
	}
	return &levels[0].spans
}

// close ends a node: all that lies in it has been read.
func (t *tree) close(l *level) {
	if l.node < 0 {
		return
	}
	n := &t.nodes[l.node]
	n.from = int32(len(t.spans))
	t.spans = append(t.spans, apart(l.spans)...)
	n.to = int32(len(t.spans))
}

// find finds the inlined functions at an address, outermost first.
func (t *tree) find(d *Data, u *unit, in *contents, lines *table, addr uint64, l *Location) error {
	for n := &t.nodes[0]; ; {
		list := t.spans[n.from:n.to]
		i, found := slices.BinarySearchFunc(list, addr, func(s run, a uint64) int { return cmp.Compare(s.low, a) })
		if !found {
			i--
		}
		if i < 0 || addr >= list[i].high {
			return nil
		}
		n = &t.nodes[list[i].of]
		if !n.inlined {
			continue
		}
		var e entry
		c := cursor{b: in.bytes, at: int(n.entry), order: d.order}
		if err := u.entry(&c, in.tables, &e); err != nil {
			return err
		}
		l.Inlined = append(l.Inlined, d.inline(u, lines, &e))
		if err := d.scanned(c.at - int(n.entry)); err != nil {
			return err
		}
	}
}

// apart sorts spans by address. Where some overlap, the one of the node that comes
// first keeps what they share.
func apart(list []run) []run {
	slices.SortFunc(list, func(a, b run) int { return cmp.Or(cmp.Compare(a.low, b.low), cmp.Compare(a.of, b.of)) })
	for i := 1; ; i++ {
		if i >= len(list) {
			return list
		}
		if list[i].low < list[i-1].high {
			break
		}
	}
	var out []run
	var open runHeap // spans that begin before at, and perhaps end, too
	for at, next := uint64(0), 0; next < len(list) || len(open) > 0; {
		if len(open) == 0 {
			at = max(at, list[next].low)
		}
		for next < len(list) && list[next].low <= at {
			open.push(list[next])
			next++
		}
		first := open[0]
		if first.high <= at {
			open.pop()
			continue
		}
		end := first.high
		if next < len(list) {
			end = min(end, list[next].low)
		}
		if n := len(out); n > 0 && out[n-1].of == first.of && out[n-1].high == at {
			out[n-1].high = end
		} else {
			out = append(out, run{at, end, first.of})
		}
		at = end
	}
	return slices.Clip(out)
}

// runHeap has the run of the first node first.
type runHeap []run

func (h *runHeap) push(s run) {
	*h = append(*h, s)
	list := *h
	for i := len(list) - 1; i > 0; {
		up := (i - 1) / 2
		if list[up].of <= list[i].of {
			return
		}
		list[up], list[i] = list[i], list[up]
		i = up
	}
}

func (h *runHeap) pop() {
	list := *h
	last := len(list) - 1
	list[0] = list[last]
	list = list[:last]
	*h = list
	for i := 0; ; {
		down := 2*i + 1
		if down+1 < last && list[down+1].of < list[down].of {
			down++
		}
		if down >= last || list[i].of <= list[down].of {
			return
		}
		list[i], list[down] = list[down], list[i]
		i = down
	}
}
