package elfid

import (
	"bytes"
	"cmp"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"io"
)

// Bounds on reading a file, whatever its headers say.
const (
	maxSegments = 256     // MAX_PHDR_CNT of lib/buildid.c
	maxSections = 1 << 16 // e_shnum has 16 bits
	maxNotes    = 1 << 16 // bytes of one segment or section of notes
	maxNoteSets = 64      // segments and sections of notes
	batch       = 64      // headers a read
	firstRead   = 4096    // mostly has the program headers and their notes
)

const (
	noteGNUBuildID = 3 // NT_GNU_BUILD_ID
	noteHead       = 12
)

// Read returns the build ID of an ELF file, the zero ID if it has none or is
// no ELF program or library. It looks where the kernel does (the PT_NOTE
// segments, lib/buildid.c) and then, as readelf -n does, in the SHT_NOTE
// sections: the Go linker puts its GNU note outside of any segment of notes.
// Go's own note (name "Go") is not a build ID.
//
// The error is of a file that could not be read. A file whose headers are
// nonsense is not an error: it has no build ID.
func Read(r io.ReaderAt) (ID, error) {
	f := file{r: r}
	if ok, err := f.header(); !ok {
		return ID{}, err
	}
	id, err := f.search(f.segments)
	if err != nil || !id.IsZero() {
		return id, err
	}
	return f.search(f.sections)
}

// ReadSegments is Read for what the kernel sees: a build ID that is only in
// sections is none.
func ReadSegments(r io.ReaderAt) (ID, error) {
	f := file{r: r}
	if ok, err := f.header(); !ok {
		return ID{}, err
	}
	return f.search(f.segments)
}

// table is where the headers of segments or of sections stand.
type table struct {
	what   string
	off    uint64
	size   uint64 // of one header
	count  int
	notes  uint32 // the type of header that has notes
	fields func(h []byte) (kind uint32, n notes)
}

// notes is a place in the file that holds notes.
type notes struct{ off, size, align uint64 }

type file struct {
	r                  io.ReaderAt
	head               []byte // the beginning of the file
	order              binary.ByteOrder
	wide               bool // 64 bits
	segments, sections table
	found              notes // the note that has the build ID
}

// bytes returns size bytes from off on, or what the file has of them.
func (f *file) bytes(off, size uint64, what string) ([]byte, error) {
	if end := off + size; end >= off && end <= uint64(len(f.head)) {
		return f.head[off:end], nil
	}
	if off > 1<<62 {
		return nil, nil
	}
	b := make([]byte, size)
	n, err := f.r.ReadAt(b, int64(off))
	if err != nil && err != io.EOF {
		return nil, fmt.Errorf("reading %s at %#x: %w", what, off, err)
	}
	return b[:n], nil
}

// header reads the ELF header. ok is false if this is no file to look further
// into.
func (f *file) header() (ok bool, err error) {
	h, err := f.bytes(0, firstRead, "the ELF header")
	if err != nil || len(h) < 52 || string(h[:4]) != elf.ELFMAG {
		return false, err
	}
	f.head = h
	switch elf.Data(h[elf.EI_DATA]) {
	case elf.ELFDATA2LSB:
		f.order = binary.LittleEndian
	case elf.ELFDATA2MSB:
		f.order = binary.BigEndian
	default:
		return false, nil
	}
	switch t := elf.Type(f.order.Uint16(h[16:])); t {
	case elf.ET_EXEC, elf.ET_DYN:
	default:
		return false, nil
	}
	switch elf.Class(h[elf.EI_CLASS]) {
	case elf.ELFCLASS32:
		f.tables(uint64(f.order.Uint32(h[28:])), uint64(f.order.Uint32(h[32:])), h[42:], 32, 40)
	case elf.ELFCLASS64:
		if len(h) < 64 {
			return false, nil
		}
		f.wide = true
		f.tables(f.order.Uint64(h[32:]), f.order.Uint64(h[40:]), h[54:], 56, 64)
	default:
		return false, nil
	}
	return true, nil
}

// tables notes where the headers are. tail is the ELF header from e_phentsize
// on; phdr and shdr are the sizes of the headers of this class.
func (f *file) tables(phoff, shoff uint64, tail []byte, phdr, shdr uint64) {
	u16 := func(i int) uint64 { return uint64(f.order.Uint16(tail[2*i:])) }
	if u16(0) == phdr && phoff != 0 {
		f.segments = table{what: "program headers", off: phoff, size: phdr, count: int(min(u16(1), maxSegments)),
			notes: uint32(elf.PT_NOTE), fields: f.segment}
	}
	if u16(2) == shdr && shoff != 0 {
		f.sections = table{what: "section headers", off: shoff, size: shdr, count: int(min(u16(3), maxSections)),
			notes: uint32(elf.SHT_NOTE), fields: f.section}
	}
}

// segment picks the type and place out of a program header.
func (f *file) segment(h []byte) (uint32, notes) {
	o := f.order
	if f.wide {
		return o.Uint32(h), notes{o.Uint64(h[8:]), o.Uint64(h[32:]), o.Uint64(h[48:])}
	}
	return o.Uint32(h), notes{uint64(o.Uint32(h[4:])), uint64(o.Uint32(h[16:])), uint64(o.Uint32(h[28:]))}
}

// section picks the type and place out of a section header.
func (f *file) section(h []byte) (uint32, notes) {
	o := f.order
	if f.wide {
		return o.Uint32(h[4:]), notes{o.Uint64(h[24:]), o.Uint64(h[32:]), o.Uint64(h[48:])}
	}
	return o.Uint32(h[4:]), notes{uint64(o.Uint32(h[16:])), uint64(o.Uint32(h[20:])), uint64(o.Uint32(h[32:]))}
}

// search looks for a build ID in all notes that a table of headers names.
func (f *file) search(t table) (id ID, err error) {
	sets := 0
	herr := f.headers(t, func(h []byte) (more bool) {
		kind, n := t.fields(h)
		if kind != t.notes {
			return true
		}
		if sets++; sets > maxNoteSets {
			return false
		}
		id, err = f.notes(n)
		return err == nil && id.IsZero()
	})
	if err != nil || herr != nil {
		return ID{}, cmp.Or(err, herr)
	}
	return id, nil
}

// headers calls fn with each header of a table, until it returns false.
func (f *file) headers(t table, fn func(h []byte) (more bool)) error {
	for i := 0; i < t.count; i += batch {
		n := uint64(min(batch, t.count-i))
		got, err := f.bytes(t.off+uint64(i)*t.size, n*t.size, t.what)
		if err != nil {
			return err
		}
		for ; uint64(len(got)) >= t.size; got = got[t.size:] {
			if !fn(got) {
				return nil
			}
		}
	}
	return nil
}

// notes looks for a build ID in one segment or section of notes.
func (f *file) notes(n notes) (ID, error) {
	b, err := f.bytes(n.off, min(n.size, maxNotes), "notes")
	if err != nil {
		return ID{}, err
	}
	align := uint64(4)
	if n.align == 8 {
		align = 8
	}
	for size := uint64(len(b)); uint64(len(b)) >= noteHead; {
		name, desc := uint64(f.order.Uint32(b)), uint64(f.order.Uint32(b[4:]))
		kind := f.order.Uint32(b[8:])
		from := padded(noteHead+name, align)
		end := from + desc
		next := padded(end, align)
		if next > uint64(len(b)) {
			break // cut short: not valid for the kernel and readelf either
		}
		if kind == noteGNUBuildID && bytes.Equal(b[noteHead:noteHead+name], []byte("GNU\x00")) {
			if id, ok := New(b[from:end]); ok {
				f.found = notes{off: n.off + size - uint64(len(b)), size: end}
				return id, nil
			}
		}
		b = b[next:]
	}
	return ID{}, nil
}

func padded(n, align uint64) uint64 { return (n + align - 1) &^ (align - 1) }
