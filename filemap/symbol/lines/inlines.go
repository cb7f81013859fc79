package lines

import "slices"

// maxDepth bounds how deep entries lie in each other; what lies deeper is left
// out.
const maxDepth = 512

// scans is how often a function's entries are walked before they are kept as a
// tree: most functions of a trace have few addresses.
const scans = 4

// perByte bounds the work on inlined functions by the size of the debug
// information: each byte is read so often. Only entries of functions that lie in
// each other, as no compiler nests them, are read more often.
const perByte = 8

// walked is how much of a function's entries has been read.
type walked struct {
	bytes, reach int   // in all, and in one walk at most
	tree         *tree // nil if there is none yet
}

// inlines finds the functions that are inlined at an address of the function
// whose entry is at a place. Entries beside each other are about different
// addresses; if they are not, the first one counts.
func (d *Data) inlines(u *unit, in *contents, t *table, at, addr uint64, l *Location) error {
	if in.walks == nil {
		in.walks = make(map[uint64]*walked)
	}
	w := in.walks[at]
	if w == nil {
		w = new(walked)
		in.walks[at] = w
		d.charge(u, 64)
	}
	if w.tree == nil && w.bytes > scans*w.reach {
		if err := d.grow(u, in, at, w); err != nil {
			return err
		}
	}
	var err error
	if w.tree != nil {
		err = w.tree.find(d, u, in, t, addr, l)
	} else {
		err = d.scan(u, in, t, at, addr, l, w)
	}
	slices.Reverse(l.Inlined)
	return err
}

// scanned notes that so many bytes of entries were read for inlined functions.
func (d *Data) scanned(n int) error {
	const least = 4 << 20
	if d.inlined += n; uint64(d.inlined) > least+perByte*d.info.Size() {
		return ErrTooMuch
	}
	return d.spend(n)
}

// scan walks the entries of a function, as far as it takes.
func (d *Data) scan(u *unit, in *contents, t *table, at, addr uint64, l *Location, w *walked) (err error) {
	c := cursor{b: in.bytes, at: int(at - u.off), order: d.order}
	from := c.at
	defer func() {
		n := c.at - from
		w.bytes, w.reach = w.bytes+n, max(w.reach, n)
		if serr := d.scanned(n); err == nil {
			err = serr
		}
	}()
	var e entry
	if err := u.entry(&c, in.tables, &e); err != nil || !e.children {
		return err
	}
	var opaque []bool // of the entries around: it has its own addresses
	for {
		if err := u.entry(&c, in.tables, &e); err != nil {
			return err
		}
		if e.tag == 0 {
			if len(opaque) == 0 || opaque[len(opaque)-1] {
				return nil // nothing beside it holds the address
			}
			opaque = opaque[:len(opaque)-1]
			continue
		}
		what := scopeOf(&e)
		inside := false
		if what == inlinedScope || what == blockScope {
			some := false
			if inside, some, err = d.holds(u, &e, addr); err == ErrTooMuch {
				return err
			}
			if !some && what == blockScope {
				what = openScope
			}
		}
		if inside && what == inlinedScope {
			l.Inlined = append(l.Inlined, d.inline(u, t, &e))
		}
		switch {
		case !e.children && inside:
			return nil
		case !e.children:
		case (inside || what == openScope) && len(opaque) < maxDepth:
			opaque = append(opaque, inside)
		default:
			if err := u.skipChildren(&c, in.tables, &e); err != nil {
				return err
			}
		}
	}
}

// scope is what an entry means for those in it.
type scope uint8

const (
	noScope      scope = iota // they are of no concern
	inlinedScope              // an inlined function
	blockScope                // a block with its own addresses, if its list of them is not empty
	openScope                 // a block without: its contents are beside it
)

func scopeOf(e *entry) scope {
	switch e.tag {
	case tagInlinedSubroutine:
		return inlinedScope
	case tagLexicalBlock, tagTryBlock, tagCatchBlock:
		if e.ranges.kind == isNone && e.low.kind == isNone {
			return openScope
		}
		return blockScope
	}
	return noScope
}

// skipChildren goes past the children of an entry.
func (u *unit) skipChildren(c *cursor, t *abbrevs, e *entry) error {
	if e.sibling.kind == isRef {
		if to := e.sibling.n - u.off; to > uint64(c.at) && to <= uint64(len(c.b)) {
			c.at = int(to)
			return nil
		}
	}
	var inner entry
	for depth := 1; depth > 0; {
		if err := u.entry(c, t, &inner); err != nil {
			return err
		}
		switch {
		case inner.tag == 0:
			depth--
		case inner.children:
			depth++
		}
	}
	return nil
}
