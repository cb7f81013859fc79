package lines

import (
	"cmp"
	"slices"

	"ustack/filemap/symbol/image"
)

// maxRanges bounds the ranges of one entry.
const maxRanges = 1 << 20

// findPlaces learns which units are about which addresses: from
// .debug_aranges, and for units that are not in it, from their first entries.
// Compilers do as they like about it: gcc writes it, clang and Go do not.
func (d *Data) findPlaces(aranges *image.Data) error {
	known := make([]bool, len(d.units))
	d.readAranges(aranges, known)
	for i := range d.units {
		u := &d.units[i]
		if known[i] || u.kind != unitCompile && u.kind != unitSkeleton {
			continue
		}
		e, err := d.root(u)
		if err == ErrTooMuch {
			return err
		}
		if err != nil || e.tag == tagPartialUnit {
			continue
		}
		err = d.each(u, &e, func(low, high uint64) {
			if d.isCode(low) && len(d.places) <= maxRuns {
				d.places = append(d.places, run{low, high, uint64(i)})
			}
		})
		if err == ErrTooMuch || len(d.places) > maxRuns {
			return ErrTooMuch
		}
	}
	slices.SortFunc(d.places, byAddress)
	return nil
}

// readAranges reads .debug_aranges as far as it makes sense.
func (d *Data) readAranges(s *image.Data, known []bool) {
	const most = 256 << 20
	c, err := d.cursor(s, 0, min(s.Size(), most))
	if err != nil || d.spend(len(c.b)) != nil {
		return
	}
	for c.left() > 0 && !c.bad {
		from := c.at
		n, wide := c.length()
		set := cursor{b: c.take(n), order: c.order}
		if set.u16() != 2 || c.bad {
			continue
		}
		u := d.unitAt(set.offset(wide))
		size, segment := set.u8(), set.u8()
		if u == nil || segment != 0 || size != 4 && size != 8 || set.bad {
			continue
		}
		head := c.at - len(set.b) - from + set.at // tuples are aligned from the set's beginning on
		if over := head % (2 * int(size)); over != 0 {
			set.skip(uint64(2*int(size) - over))
		}
		i, _ := slices.BinarySearchFunc(d.units, u.off, func(u unit, off uint64) int { return cmp.Compare(u.off, off) })
		for set.left() >= 2*int(size) {
			low, n := set.uint(size), set.uint(size)
			if n != 0 && low+n > low && d.isCode(low) && len(d.places) <= maxRuns {
				d.places = append(d.places, run{low, low + n, uint64(i)})
				known[i] = true
			}
		}
	}
}

// candidates calls f for the units that may be about an address, the one whose
// range begins last first, until f says that it was the one.
func (d *Data) candidates(addr uint64, f func(u *unit) bool) {
	// Code of several units lies at one place by mistake, or where a linker has folded
	// functions.
	const most, mostUnits = 64, 8
	i, _ := slices.BinarySearchFunc(d.places, addr, func(p run, a uint64) int {
		if p.low <= a {
			return -1
		}
		return 1
	})
	last, units := -1, 0
	for n := 0; i > 0 && n < most && units < mostUnits; n++ {
		i--
		if p := d.places[i]; addr < p.high && int(p.of) != last {
			last = int(p.of)
			units++
			if f(&d.units[p.of]) {
				return
			}
		}
	}
}

// each calls f for the ranges of addresses of an entry.
func (d *Data) each(u *unit, e *entry, f func(low, high uint64)) error {
	if e.ranges.kind != isNone {
		return d.rangeList(u, e.ranges, f)
	}
	low, ok := d.address(u, e.low)
	if !ok {
		return nil
	}
	high, ok := d.address(u, e.high)
	if !ok && (e.high.kind == isNumber || e.high.kind == isOffset) {
		high, ok = low+e.high.n, true
	}
	if ok && low < high {
		f(low, high)
	}
	return nil
}

// holds reports whether the ranges of an entry hold an address, and whether it has some:
// of a block of which nothing but inlined functions is left gcc writes an empty list
// (-flto -flto-partition=max).
func (d *Data) holds(u *unit, e *entry, addr uint64) (found, some bool, err error) {
	err = d.each(u, e, func(low, high uint64) { found, some = found || low <= addr && addr < high, true })
	return found, some, err
}

// rangeList reads a list of ranges.
func (d *Data) rangeList(u *unit, v value, f func(low, high uint64)) error {
	if u.version < 5 {
		off := v.n
		if u.kind == unitSkeleton {
			off += u.rngBase
		}
		return d.oldRanges(u, off, f)
	}
	off := v.n
	if v.kind == isRange {
		size := uint64(4)
		if u.wide {
			size = 8
		}
		if v.n > d.rngs.Size() {
			return errDamaged
		}
		c, err := d.cursor(&d.rngs, u.rngBase+v.n*size, size)
		if err != nil {
			return err
		}
		off = u.rngBase + c.offset(u.wide)
	}
	return d.newRanges(u, off, f)
}

// chunk is how much of a list of ranges is read at once.
const chunk = 4096

// oldRanges reads a list of .debug_ranges, of DWARF 2 to 4.
func (d *Data) oldRanges(u *unit, off uint64, f func(low, high uint64)) error {
	base, size := u.low, uint64(u.addrSize)
	last := ^uint64(0) >> (64 - 8*size)
	for range maxRanges / (chunk / 16) {
		c, err := d.cursor(&d.ranges, off, min(chunk, d.ranges.Size()-min(off, d.ranges.Size())))
		if err != nil {
			return err
		}
		for c.left() >= int(2*size) {
			low, high := c.uint(u.addrSize), c.uint(u.addrSize)
			switch {
			case low == 0 && high == 0:
				return d.spend(c.at)
			case low == last:
				base = high
			case low < high:
				f(base+low, base+high)
			}
		}
		if c.at == 0 {
			return errDamaged
		}
		off += uint64(c.at)
		if err := d.spend(c.at); err != nil {
			return err
		}
	}
	return ErrTooMuch
}

// Kinds of entries in a list of ranges (DW_RLE_).
const (
	rleEnd = iota
	rleBaseAddrx
	rleStartxEndx
	rleStartxLength
	rleOffsetPair
	rleBaseAddress
	rleStartEnd
	rleStartLength
)

// newRanges reads a list of .debug_rnglists, of DWARF 5.
func (d *Data) newRanges(u *unit, off uint64, f func(low, high uint64)) error {
	base := u.low
	index := func(c *cursor) uint64 {
		a, ok := d.address(u, value{c.uleb(), isIndex})
		c.bad = c.bad || !ok
		return a
	}
	for range maxRanges {
		const longest = 1 + 2*10
		c, err := d.cursor(&d.rngs, off, min(chunk, d.rngs.Size()-min(off, d.rngs.Size())))
		if err != nil {
			return err
		}
		for c.at == 0 || c.left() >= longest {
			var low, high uint64
			switch c.u8() {
			case rleEnd:
				if c.bad {
					return errDamaged
				}
				return d.spend(c.at)
			case rleBaseAddrx:
				base = index(&c)
				continue
			case rleBaseAddress:
				base = c.uint(u.addrSize)
				continue
			case rleStartxEndx:
				low, high = index(&c), index(&c)
			case rleStartxLength:
				low = index(&c)
				high = low + c.uleb()
			case rleOffsetPair:
				low, high = base+c.uleb(), base+c.uleb()
			case rleStartEnd:
				low, high = c.uint(u.addrSize), c.uint(u.addrSize)
			case rleStartLength:
				low = c.uint(u.addrSize)
				high = low + c.uleb()
			default:
				return errDamaged
			}
			if c.bad {
				return errDamaged
			}
			if low < high {
				f(low, high)
			}
		}
		off += uint64(c.at)
		if err := d.spend(c.at); err != nil {
			return err
		}
	}
	return ErrTooMuch
}
