package lines

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"ustack/filemap/symbol/image"
)

// FuzzFind looks up addresses of all code of a file. The seeds are of DWARF 3
// to 5, all made of testdata/tiny.c.
func FuzzFind(f *testing.F) {
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
	f.Fuzz(func(t *testing.T, b []byte) {
		x, err := image.OpenAny(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			return
		}
		alt, err := OpenAlt(x) // any file can be one
		if err != nil {
			return
		}
		d, err := Open(x, alt)
		if err != nil || d == nil {
			return
		}
		for _, s := range d.code {
			for at := uint64(0); at < min(s.Size, 256); at += 5 {
				l, ok, err := d.Find(s.Addr+at, "")
				if err != nil {
					return
				}
				if len(l.Inlined) > maxDepth || l.Line < 0 || !ok && l.File != "" {
					t.Fatalf("%#x: %+v", s.Addr+at, l)
				}
			}
		}
		if d.work > maxWork || d.Memory() > maxKept+4096*(len(b)+1024) {
			t.Fatalf("%d bytes read, %d kept, of a file of %d", d.work, d.Memory(), len(b))
		}
	})
}
