package symbolize

import (
	"bytes"
	"debug/elf"
	"fmt"

	"ustack/filemap"
	"ustack/filemap/callsite"
	"ustack/filemap/elfid"
	"ustack/filemap/symbol"
	"ustack/filemap/symbol/image"
)

// Kernel names the functions of a vDSO, the library that the kernel maps into
// every process (man 7 vdso).
type Kernel struct {
	id      elfid.ID
	image   *image.Image
	indexes []*index
	codes   map[uint64]*filemap.Code // by beginning
}

// OpenVDSO reads the symbol tables of a vDSO as it is in memory: all of the file
// is.
func OpenVDSO(memory []byte) (*Kernel, error) {
	r := bytes.NewReader(memory)
	x, err := image.Open(r, r.Size())
	if err != nil {
		return nil, fmt.Errorf("reading the vDSO: %w", err)
	}
	k := &Kernel{image: x, codes: make(map[uint64]*filemap.Code)}
	if k.id, err = elfid.Read(r); err != nil {
		return nil, fmt.Errorf("reading the vDSO: %w", err)
	}
	for _, kind := range []elf.SectionType{elf.SHT_SYMTAB, elf.SHT_DYNSYM} {
		t := x.Table(kind)
		if t == nil {
			continue
		}
		i, err := newIndex(x, x, t, symbol.VDSO, kind == elf.SHT_SYMTAB)
		if err != nil {
			return nil, fmt.Errorf("reading the vDSO: %w", err)
		}
		k.indexes = append(k.indexes, i)
	}
	return k, nil
}

// ID returns the vDSO's build ID, the zero ID if it has none.
func (k *Kernel) ID() elfid.ID { return k.id }

// Code returns the function at an offset, nil if the tables have none there.
// For ran see Symbols.Name. The same function is the same pointer.
func (k *Kernel) Code(offset uint64, ran bool) *filemap.Code {
	at := offset
	if !ran {
		if at == 0 || !k.returns(offset) {
			return nil
		}
		at--
	}
	addr, ok := k.image.Address(at)
	if !ok {
		return nil
	}
	for _, i := range k.indexes {
		name, start, ok := i.find(addr)
		if !ok {
			continue
		}
		start = at - (addr - start)
		if k.codes[start] == nil {
			k.codes[start] = &filemap.Code{Function: pretty(name), Start: start}
		}
		return k.codes[start]
	}
	return nil
}

// returns reports whether an offset can be a return address.
func (k *Kernel) returns(offset uint64) bool {
	code, err := k.image.Code(offset, callsite.Longest)
	return err == nil && (!callsite.Known(k.image.Machine) || callsite.Ends(k.image.Machine, code))
}
