package lines

import (
	"cmp"
	"fmt"
	"slices"

	"ustack/tracefs/sorting"
)

// row says that the code from an address on belongs to a line.
type row struct {
	addr       uint64
	file, line uint32
}

// sequence is a run of rows for code that lies in one piece; its end is known.
type sequence struct {
	low, high uint64
	from, to  int // rows
}

// table is the line table of a unit.
type table struct {
	version   uint16
	rows      []row
	sequences []sequence
	dirs      []value
	files     []file
}

// file is a source file: its name, and the number of its directory.
type file struct {
	name value
	dir  uint64
}

// Bounds on one line table.
const (
	maxProgram = 64 << 20 // bytes
	maxRows    = 8 << 20
	maxFiles   = 1 << 20
)

// find returns the row for an address, nil if there is none.
func (t *table) find(addr uint64) *row {
	i, _ := slices.BinarySearchFunc(t.sequences, addr, func(s sequence, a uint64) int {
		if s.low <= a {
			return -1
		}
		return 1
	})
	const most = 8
	for n := 0; i > 0 && n < most; n++ {
		i--
		s := &t.sequences[i]
		if addr >= s.high {
			continue
		}
		rows := t.rows[s.from:s.to]
		k, _ := slices.BinarySearchFunc(rows, addr, func(r row, a uint64) int {
			if r.addr <= a {
				return -1
			}
			return 1
		})
		if k > 0 {
			return &rows[k-1]
		}
	}
	return nil
}

// file returns the path of a source file by its number. Before version 5, number
// 0 is no file, and directory 0 is the unit's.
func (t *table) file(d *Data, u *unit, n uint64) string {
	if t.version < 5 {
		n--
	}
	if n >= uint64(len(t.files)) {
		return ""
	}
	f := &t.files[n]
	name, ok := d.text(u, f.name)
	if !ok || name == "" || name[0] == '/' {
		return name
	}
	if dir := t.directory(d, u, f.dir); dir != "" {
		return dir + "/" + name
	}
	return name
}

func (t *table) directory(d *Data, u *unit, n uint64) string {
	home, _ := d.text(u, u.dir)
	if t.version < 5 {
		if n == 0 {
			return home
		}
		n--
	}
	if n >= uint64(len(t.dirs)) {
		return home
	}
	dir, _ := d.text(u, t.dirs[n])
	switch {
	case dir == "":
		return home
	case dir[0] == '/' || home == "" || dir == home:
		return dir
	}
	return home + "/" + dir
}

// lineTable reads the line table of a unit. It is empty if there is none.
func (d *Data) lineTable(u *unit, in *contents) (*table, error) {
	if in.lines != nil {
		return in.lines, nil
	}
	t := new(table)
	if !u.noLines {
		if err := d.readProgram(u, t); err != nil {
			return nil, fmt.Errorf("line table at %#x: %w", u.lineOff, err)
		}
	}
	in.lines = t
	d.charge(u, 16*len(t.rows)+32*len(t.sequences)+40*len(t.files)+16*len(t.dirs))
	return t, nil
}

// program is a line number program while it runs.
type program struct {
	cursor
	base       uint64 // of the bytes in .debug_line
	wide       bool
	addrSize   uint8
	minLength  uint64
	maxOps     uint64
	lineBase   int64
	lineRange  uint64
	opcodeBase uint8
	lengths    []byte

	addr, op uint64
	file     uint64
	line     uint64
	from     int // the first row of the sequence
}

// readProgram reads the header of a line number program and runs it (DWARF 5,
// section 6.2).
func (d *Data) readProgram(u *unit, t *table) error {
	head, err := d.cursor(&d.line, u.lineOff, min(12, d.line.Size()-min(u.lineOff, d.line.Size())))
	if err != nil {
		return err
	}
	n, wide := head.length()
	if head.bad || n > maxProgram {
		return errDamaged
	}
	c, err := d.cursor(&d.line, u.lineOff+uint64(head.at), n)
	if err != nil {
		return err
	}
	p := &program{cursor: c, base: u.lineOff + uint64(head.at), wide: wide, addrSize: u.addrSize}
	if err := p.header(t); err != nil {
		return err
	}
	if err := p.run(d, t); err != nil {
		return err
	}
	sorting.Func(t.sequences, func(a, b sequence) int {
		return cmp.Or(cmp.Compare(a.low, b.low), cmp.Compare(b.high, a.high), cmp.Compare(a.from, b.from))
	})
	t.rows = slices.Clip(t.rows)
	return d.spend(len(p.b))
}

func (p *program) header(t *table) error {
	t.version = p.u16()
	if t.version < 2 || t.version > 5 {
		return fmt.Errorf("version %d: %w", t.version, errDamaged)
	}
	if t.version >= 5 {
		p.addrSize = p.u8()
		p.skip(1) // the size of a segment selector
	}
	size := p.offset(p.wide)
	start := uint64(p.at) + size
	p.minLength, p.maxOps = uint64(p.u8()), 1
	if t.version >= 4 {
		p.maxOps = uint64(p.u8())
	}
	p.skip(1) // default_is_stmt
	p.lineBase = int64(int8(p.u8()))
	p.lineRange, p.opcodeBase = uint64(p.u8()), p.u8()
	if p.bad || p.lineRange == 0 || p.maxOps == 0 || p.opcodeBase == 0 || size > uint64(len(p.b)) || start > uint64(len(p.b)) {
		return errDamaged
	}
	p.lengths = p.take(uint64(p.opcodeBase) - 1)
	var err error
	if t.version >= 5 {
		err = p.entries(t)
	} else {
		p.oldEntries(t)
	}
	if err != nil || p.bad {
		return errDamaged
	}
	p.at = int(start)
	return nil
}
