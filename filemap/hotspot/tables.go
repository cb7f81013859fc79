package hotspot

import "fmt"

// Symbols are the addresses of what libjvm.so exports, by name.
type Symbols map[string]uint64

// Exported is what all names of Symbols begin with that the package needs.
const Exported = "gHotSpotVM"

// tables is what the virtual machine says of its own data.
type tables struct {
	pages     pages
	symbols   Symbols
	fields    map[[2]string]uint64 // by type and field: the offset, of a static one the address
	sizes     map[string]uint64    // of types
	constants map[string]int32
}

// maxEntries bounds each table; version 17 has some 1,000.
const maxEntries = 1 << 14

// readTables reads the tables of a process.
func readTables(m Memory, s Symbols) (*tables, error) {
	t := &tables{pages: pages{m, make(map[uint64][]byte)}, symbols: s,
		fields: make(map[[2]string]uint64), sizes: make(map[string]uint64), constants: make(map[string]int32)}
	for _, read := range [...]func() error{t.readFields, t.readSizes, t.readConstants} {
		if err := read(); err != nil {
			return nil, fmt.Errorf("reading what the virtual machine says of its data: %w", err)
		}
	}
	return t, nil
}

// number returns the value of an exported variable.
func (t *tables) number(name string) (uint64, error) {
	addr, ok := t.symbols[Exported+name]
	if !ok {
		return 0, fmt.Errorf("libjvm.so has no %s%s", Exported, name)
	}
	b, err := t.pages.bytes(addr, 8)
	if err != nil {
		return 0, err
	}
	return u64(b, 0), nil
}

// each calls f for the entries of a table, with the pieces of each that are named by the
// exported offsets. The first piece is a pointer to a name, and 0 at the end.
func (t *tables) each(table, entry string, pieces []string, f func(v []uint64) error) error {
	from, err := t.number(table)
	if err != nil {
		return err
	}
	stride, err := t.number(entry + "ArrayStride")
	if err != nil {
		return err
	}
	offsets := make([]uint64, len(pieces))
	const widest = 256
	if stride < 8 || stride > widest {
		return errBounds
	}
	for i, p := range pieces {
		if offsets[i], err = t.number(entry + p + "Offset"); err != nil {
			return err
		}
		if offsets[i] > stride-8 {
			return errBounds
		}
	}
	v := make([]uint64, len(pieces))
	for n := uint64(0); n < maxEntries; n++ {
		b, err := t.pages.bytes(from+n*stride, int(stride))
		if err != nil {
			return err
		}
		for i, off := range offsets {
			v[i] = u64(b, int(off))
		}
		if v[0] == 0 {
			return nil
		}
		if err := f(v); err != nil {
			return err
		}
	}
	return errBounds
}

func (t *tables) readFields() error {
	pieces := []string{"TypeName", "FieldName", "IsStatic", "Offset", "Address"}
	return t.each("Structs", "StructEntry", pieces, func(v []uint64) error {
		of, err := t.pages.text(v[0])
		if err != nil {
			return err
		}
		field, err := t.pages.text(v[1])
		if err != nil {
			return err
		}
		at := v[3]
		if uint32(v[2]) != 0 {
			at = v[4]
		}
		t.fields[[2]string{of, field}] = at
		return nil
	})
}

func (t *tables) readSizes() error {
	return t.each("Types", "TypeEntry", []string{"TypeName", "Size"}, func(v []uint64) error {
		name, err := t.pages.text(v[0])
		t.sizes[name] = v[1]
		return err
	})
}

func (t *tables) readConstants() error {
	return t.each("IntConstants", "IntConstantEntry", []string{"Name", "Value"}, func(v []uint64) error {
		name, err := t.pages.text(v[0])
		t.constants[name] = int32(v[1])
		return err
	})
}
