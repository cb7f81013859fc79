// Package lines reads DWARF debug information, versions 2 to 5, as far as it
// takes to find the source line of an address and the functions inlined there.
//
// It is read lazily: opening a file reads only which unit an address is
// in; the units asked for are read later. The work for one file and
// the memory that it takes are bounded.
package lines

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"

	"ustack/filemap/symbol/image"
)

var (
	errDamaged = errors.New("damaged debug information")
	// ErrTooMuch ends the reading of a file whose debug information takes more
	// work than any real one.
	ErrTooMuch = errors.New("debug information that takes too much work")
)

// Bounds. A file of hostile numbers can send the reader over the same bytes
// again and again.
const (
	maxWork  = 8 << 30  // bytes read of one file, in all
	maxUnits = 1 << 19  // of one file
	maxRuns  = 4 << 20  // of addresses: of the units of a file, of the functions of a unit
	maxKept  = 48 << 20 // bytes of units that are kept
	maxUnit  = 512 << 20
	maxNames = 8 << 20  // bytes of names of functions that are kept
	maxTable = 32 << 20 // bytes of abbreviations that are kept
)

// Data is the debug information of one file.
type Data struct {
	order  binary.ByteOrder
	code   []image.Section
	info   image.Data
	abbrev image.Data
	line   image.Data
	str    image.Data
	lstr   image.Data // .debug_line_str
	ranges image.Data
	rngs   image.Data // .debug_rnglists
	addr   image.Data
	stroff image.Data

	alt    *Data // the file that dwz has moved common entries to, nil if none
	units  []unit
	places []run
	tables map[uint64]*abbrevs
	names  map[uint64]string // of functions, by the place of their entry
	kept   []*unit
	memory int // of the units
	named  int // of the names
	table  int // of the abbreviations
	work   int
	tick   int
	// inlined is what was read for inlined functions, of work.
	inlined int
}

// Open reads which unit of a file's debug information is about which addresses. It
// returns nil if there is no debug information. alt is the file that
// .gnu_debugaltlink names, opened by OpenAlt; nil if there is none.
func Open(x *image.Image, alt *Data) (*Data, error) {
	d, err := open(x)
	if d == nil || err != nil {
		return nil, err
	}
	d.alt = alt
	for i := range x.Sections {
		if s := x.Sections[i]; s.Flags&elf.SHF_EXECINSTR != 0 && s.Size > 0 && s.Addr+s.Size > s.Addr {
			d.code = append(d.code, s)
		}
	}
	aranges, err := x.Data(x.Section(".debug_aranges"))
	if err == nil {
		err = d.findPlaces(&aranges)
	}
	if err != nil {
		return nil, err
	}
	return d, nil
}

// OpenAlt opens debug information that other files refer to. It is about no
// addresses itself.
func OpenAlt(x *image.Image) (*Data, error) { return open(x) }

// open opens the sections and reads the headers of the units.
func open(x *image.Image) (*Data, error) {
	if !x.Has(".debug_info") || !x.Has(".debug_abbrev") {
		return nil, nil
	}
	d := &Data{order: x.Order, tables: make(map[uint64]*abbrevs), names: make(map[uint64]string)}
	for _, s := range []struct {
		name string
		data *image.Data
	}{
		{".debug_info", &d.info}, {".debug_abbrev", &d.abbrev}, {".debug_line", &d.line}, {".debug_str", &d.str},
		{".debug_line_str", &d.lstr}, {".debug_ranges", &d.ranges}, {".debug_rnglists", &d.rngs},
		{".debug_addr", &d.addr}, {".debug_str_offsets", &d.stroff},
	} {
		var err error
		if *s.data, err = x.Data(x.Section(s.name)); err != nil {
			return nil, err
		}
	}
	return d, d.findUnits()
}

// Memory returns about how many bytes are kept.
func (d *Data) Memory() int {
	n := d.memory + len(d.units)*160 + len(d.places)*24 + d.named + d.table
	for _, s := range []*image.Data{&d.info, &d.abbrev, &d.line, &d.str, &d.lstr, &d.ranges, &d.rngs, &d.addr, &d.stroff} {
		n += s.Memory()
	}
	if d.alt != nil {
		n += d.alt.Memory()
	}
	return n
}

// spend notes that bytes were read.
func (d *Data) spend(n int) error {
	if d.work += n; d.work > maxWork {
		return ErrTooMuch
	}
	return nil
}

// cursor is at some bytes of a section.
func (d *Data) cursor(s *image.Data, off, n uint64) (cursor, error) {
	b, err := s.Bytes(off, n)
	return cursor{b: b, order: d.order}, err
}

// isCode reports whether an address is in code of the file. Code that the
// linker has thrown away has an address of 0, or near it.
func (d *Data) isCode(addr uint64) bool {
	if addr == 0 {
		return false
	}
	for i := range d.code {
		if d.code[i].Holds(addr) {
			return true
		}
	}
	return false
}

// findUnits reads the headers of all units.
func (d *Data) findUnits() error {
	for off := uint64(0); off < d.info.Size(); {
		if len(d.units) == maxUnits {
			return ErrTooMuch
		}
		u, err := d.unitHeader(off)
		if err != nil {
			if len(d.units) > 0 {
				return nil // what stands before the damage is good
			}
			return err
		}
		d.units = append(d.units, u)
		off = u.end
	}
	return nil
}

// Numbers of kinds of units (DW_UT_).
const (
	unitCompile  = 1
	unitType     = 2
	unitPartial  = 3
	unitSkeleton = 4
	unitSplit    = 5
	unitSplitTyp = 6
)

func (d *Data) unitHeader(off uint64) (unit, error) {
	const longest = 40
	c, err := d.cursor(&d.info, off, min(longest, d.info.Size()-off))
	if err != nil {
		return unit{}, err
	}
	n, wide := c.length()
	from := uint64(c.at)
	u := unit{off: off, wide: wide, version: c.u16(), kind: unitCompile}
	if u.version >= 5 {
		u.kind, u.addrSize = c.u8(), c.u8()
		u.abbrevOff = c.offset(wide)
	} else {
		u.abbrevOff = c.offset(wide)
		u.addrSize = c.u8()
	}
	switch u.kind {
	case unitSkeleton, unitSplit:
		c.skip(8)
	case unitType, unitSplitTyp:
		c.skip(8)
		c.offset(wide)
	}
	u.first = uint32(c.at)
	if c.bad || n > d.info.Size()-off-from || n < uint64(c.at)-from || u.version < 2 || u.version > 5 ||
		u.addrSize != 4 && u.addrSize != 8 {
		return u, fmt.Errorf("unit at %#x: %w", off, errDamaged)
	}
	u.end = off + from + n
	return u, nil
}
