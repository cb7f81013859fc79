package elfid

import (
	"bytes"
	"debug/elf"
	"io"
)

// Bounds on what is tried, whatever the program headers say.
const (
	maxPage   = 64 << 10
	maxPlaces = 16
)

// load is a segment that is mapped.
type load struct{ off, addr, size uint64 }

// Mapped returns the build ID of an ELF file, as Read does, and whether the memory of a
// process that has the file mapped at start, from offset on, has that very ID where the
// program headers put it. memory fills b with what is at an address.
func Mapped(r io.ReaderAt, start, offset uint64, memory func(addr uint64, b []byte) error) (id ID, there bool, err error) {
	f := file{r: r}
	if ok, err := f.header(); !ok {
		return ID{}, false, err
	}
	if id, err = f.search(f.segments); err == nil && id.IsZero() {
		id, err = f.search(f.sections)
	}
	if err != nil || id.IsZero() {
		return id, false, err
	}
	want, err := f.bytes(f.found.off, f.found.size, "the build ID")
	if err != nil {
		return id, false, err
	}
	loads, err := f.loads()
	if err != nil {
		return id, false, err
	}
	for _, addr := range places(loads, f.found.off, start, offset) {
		if b := make([]byte, len(want)); memory(addr, b) == nil && bytes.Equal(b, want) {
			return id, true, nil
		}
	}
	return id, false, nil
}

// loads are the segments that are mapped.
func (f *file) loads() (list []load, err error) {
	o := f.order
	err = f.headers(f.segments, func(h []byte) bool {
		switch {
		case elf.ProgType(o.Uint32(h)) != elf.PT_LOAD:
		case f.wide:
			list = append(list, load{o.Uint64(h[8:]), o.Uint64(h[16:]), o.Uint64(h[32:])})
		default:
			list = append(list, load{uint64(o.Uint32(h[4:])), uint64(o.Uint32(h[8:])), uint64(o.Uint32(h[16:]))})
		}
		return true
	})
	return list, err
}

// places are the addresses that the byte of the file at want can have, if that at offset
// is at start. Two segments can have one page of the file.
func places(loads []load, want, start, offset uint64) (list []uint64) {
	for _, l := range loads {
		if from := l.off &^ (maxPage - 1); offset < from || offset-from >= l.size+maxPage {
			continue
		}
		base := start - (offset - l.off + l.addr)
		for _, in := range loads {
			if want >= in.off && want-in.off < in.size && len(list) < maxPlaces {
				list = append(list, base+in.addr+(want-in.off))
			}
		}
	}
	return list
}
