package image

import (
	"bytes"
	"debug/elf"
	"os"
	"path/filepath"
	"testing"
)

// seeds are small ELF files: with packed debug information, and with packed
// symbols (testdata/*.c is what they were made of).
func seeds(f *testing.F) {
	files, err := filepath.Glob("testdata/*.elf")
	if err != nil || len(files) == 0 {
		f.Fatalf("no seeds: %v", err)
	}
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
}

// FuzzOpen reads all that can be read of a file. Nothing may be larger than
// the file allows.
func FuzzOpen(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		x, err := OpenAny(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			return
		}
		if len(x.Sections)*40 > len(b) || len(x.Segments)*32 > len(b) {
			t.Fatalf("%d sections and %d segments in %d bytes", len(x.Sections), len(x.Segments), len(b))
		}
		for i := range x.Sections {
			s := &x.Sections[i]
			d, err := x.Data(s)
			if err != nil {
				continue
			}
			if d.Size() > maxRatio*uint64(len(b)) {
				t.Fatalf("%s has %d bytes in a file of %d", s.Name, d.Size(), len(b))
			}
			if _, err := d.Bytes(0, d.Size()); err != nil {
				t.Fatalf("%s: %v", s.Name, err)
			}
			d.String(s.Addr)
		}
		for _, kind := range []elf.SectionType{elf.SHT_SYMTAB, elf.SHT_DYNSYM} {
			if table := x.Table(kind); table != nil {
				n := 0
				_ = x.Symbols(table, func(Symbol) { n++ })
				if n*16 > maxRatio*len(b) {
					t.Fatalf("%d symbols in %d bytes", n, len(b))
				}
			}
		}
		x.DebugLink()
		x.AltLink()
		x.NoteID()
		if mini, err := x.DebugData(); err == nil && mini != nil && mini.Size() > maxDebugData {
			t.Fatalf("%d bytes of packed symbols", mini.Size())
		}
		x.Address(0x1000)
	})
}
