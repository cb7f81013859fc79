package hotspot

import (
	"encoding/binary"
	"errors"
	"fmt"

	"ustack/filemap/procmem"
)

// Memory reads the memory of a process: all parts, or none.
type Memory interface {
	Read(parts ...procmem.Part) error
}

// errBounds: something is larger than it can be, or where nothing can be.
var errBounds = errors.New("the memory of the virtual machine makes no sense")

// lowest is below all addresses of memory, highest above those of processes.
const lowest, highest = 1 << 12, 1 << 47

// at reads n bytes of memory.
func at(m Memory, addr uint64, n int) ([]byte, error) {
	if addr < lowest || addr >= highest-uint64(n) {
		return nil, fmt.Errorf("reading %d bytes at %#x: %w", n, addr, errBounds)
	}
	b := make([]byte, n)
	if err := m.Read(procmem.Part{Addr: addr, To: b}); err != nil {
		return nil, err
	}
	return b, nil
}

// word reads a pointer.
func word(m Memory, addr uint64) (uint64, error) {
	b, err := at(m, addr, 8)
	if err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint64(b), nil
}

// Fields of a structure that was read. An offset is bounded by its reader.
func u64(b []byte, at int) uint64 { return binary.LittleEndian.Uint64(b[at:]) }
func u32(b []byte, at int) uint32 { return binary.LittleEndian.Uint32(b[at:]) }
func i32(b []byte, at int) int32  { return int32(u32(b, at)) }
func u16(b []byte, at int) uint16 { return binary.LittleEndian.Uint16(b[at:]) }

// pages reads strings and numbers that lie close together, page by page.
type pages struct {
	mem  Memory
	kept map[uint64][]byte
}

const pageSize, maxPages = 4096, 4096

func (p *pages) page(number uint64) ([]byte, error) {
	if b := p.kept[number]; b != nil {
		return b, nil
	}
	if len(p.kept) >= maxPages {
		return nil, fmt.Errorf("reading more than %d pages: %w", maxPages, errBounds)
	}
	b, err := at(p.mem, number*pageSize, pageSize)
	if err == nil {
		p.kept[number] = b
	}
	return b, err
}

// bytes returns n bytes, which may lie in two pages.
func (p *pages) bytes(addr uint64, n int) ([]byte, error) {
	b, err := p.page(addr / pageSize)
	if err != nil {
		return nil, err
	}
	b = b[addr%pageSize:]
	if len(b) >= n {
		return b[:n], nil
	}
	next, err := p.page(addr/pageSize + 1)
	if err != nil {
		return nil, err
	}
	return append(append([]byte(nil), b...), next[:n-len(b)]...), nil
}

// maxText bounds the names of fields and types.
const maxText = 256

// text returns a string that ends with a zero.
func (p *pages) text(addr uint64) (string, error) {
	if addr == 0 {
		return "", nil
	}
	var out []byte
	for len(out) < maxText {
		b, err := p.page(addr / pageSize)
		if err != nil {
			return "", err
		}
		for _, c := range b[addr%pageSize:] {
			if c == 0 {
				return string(out), nil
			}
			out = append(out, c)
		}
		addr += pageSize - addr%pageSize
	}
	return "", fmt.Errorf("reading a name: %w", errBounds)
}

// textAt reads a string that ends with a zero.
func textAt(m Memory, addr uint64) (string, error) {
	p := pages{m, make(map[uint64][]byte)}
	return p.text(addr)
}
