package lines

import (
	"fmt"
	"slices"
)

// unit is what was read of a unit: first its header, then its first entry, then
// its contents, which can be dropped again.
type unit struct {
	off, end  uint64 // in .debug_info
	abbrevOff uint64
	first     uint32 // where the first entry begins, from off on
	version   uint16
	kind      uint8
	addrSize  uint8
	wide      bool
	rooted    bool // the fields below are set
	noLines   bool
	dir       value
	name      value
	lineOff   uint64
	low       uint64
	strBase   uint64
	addrBase  uint64
	rngBase   uint64

	loaded *contents
}

// contents is the data of a unit that was asked for.
type contents struct {
	bytes  []byte
	tables *abbrevs
	funcs  []run
	listed bool // funcs is set
	lines  *table
	walks  map[uint64]*walked // of functions, by the place of their entry
	tick   int
	cost   int
}

// load reads the bytes of a unit and drops the bytes of the units that were not
// used for the longest time.
func (d *Data) load(u *unit) (*contents, error) {
	d.tick++
	if u.loaded != nil {
		u.loaded.tick = d.tick
		return u.loaded, nil
	}
	if u.end-u.off > maxUnit {
		return nil, fmt.Errorf("unit of %d bytes: %w", u.end-u.off, ErrTooMuch)
	}
	b, err := d.info.Bytes(u.off, u.end-u.off)
	if err != nil {
		return nil, err
	}
	t, err := d.readAbbrevs(u.abbrevOff)
	if err != nil {
		return nil, err
	}
	u.loaded = &contents{bytes: b, tables: t, tick: d.tick}
	d.kept = append(d.kept, u)
	cost := 256 + t.cost // it may have gone from the others that are kept
	if d.info.Memory() == 0 {
		cost += len(b)
	}
	d.charge(u, cost)
	return u.loaded, d.spend(len(b))
}

// charge notes that a unit takes more memory.
func (d *Data) charge(u *unit, n int) {
	u.loaded.cost += n
	d.memory += n
	for d.memory > maxKept && len(d.kept) > 1 {
		oldest := -1
		for i, k := range d.kept {
			if k != u && (oldest < 0 || k.loaded.tick < d.kept[oldest].loaded.tick) {
				oldest = i
			}
		}
		d.memory -= d.kept[oldest].loaded.cost
		d.kept[oldest].loaded = nil
		d.kept = slices.Delete(d.kept, oldest, oldest+1)
	}
}

// root reads the first entry of a unit: only that, for a unit of which nothing
// else may be asked.
func (d *Data) root(u *unit) (entry, error) {
	var e entry
	t, err := d.readAbbrevs(u.abbrevOff)
	if err != nil {
		return e, err
	}
	const most = 4096 // of the first entry: numbers, and a name or two
	c, err := d.cursor(&d.info, u.off, min(most, u.end-u.off))
	if err != nil {
		return e, err
	}
	c.at = int(u.first)
	if err := u.entry(&c, t, &e); err != nil {
		return e, err
	}
	u.rooted = true
	u.name, u.dir = e.name, e.dir
	u.lineOff, u.noLines = e.lines.n, e.lines.kind != isOffset
	u.addrBase, u.strBase, u.rngBase = e.addrBase.n, e.strBase.n, e.rngBase.n
	if u.version >= 5 {
		u.rngBase = d.defaultBase(e.rngBase, u.wide, 12)
		u.strBase = d.defaultBase(e.strBase, u.wide, 8)
		u.addrBase = d.defaultBase(e.addrBase, u.wide, 8)
	}
	u.low, _ = d.address(u, e.low)
	return e, d.spend(c.at)
}

// defaultBase returns where a unit's part of a section begins, if it does not say:
// after the section's header.
func (d *Data) defaultBase(v value, wide bool, header uint64) uint64 {
	if v.kind != isNone {
		return v.n
	}
	if wide {
		return header + 8
	}
	return header
}

// unitAt returns the unit that holds a place of .debug_info, nil if none does.
func (d *Data) unitAt(off uint64) *unit {
	i, found := slices.BinarySearchFunc(d.units, off, func(u unit, off uint64) int {
		switch {
		case u.off < off:
			return -1
		case u.off > off:
			return 1
		}
		return 0
	})
	if !found {
		i--
	}
	if i < 0 || off >= d.units[i].end {
		return nil
	}
	return &d.units[i]
}
