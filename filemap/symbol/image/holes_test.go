package image

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"os"
	"testing"
)

// holes is a file that goes on after its bytes, with a hole that reads as zeros: files
// are sparse, so their size is no bound on memory.
type holes struct {
	b    []byte
	most int // the longest read
}

func (h *holes) ReadAt(p []byte, off int64) (int, error) {
	h.most = max(h.most, len(p))
	clear(p)
	if off < int64(len(h.b)) {
		copy(p, h.b[off:])
	}
	return len(p), nil
}

// TestPackedHole: a compressed section that is said to be as large as a file with a hole
// takes no memory for the hole, whatever it is said to become.
func TestPackedHole(t *testing.T) {
	whole, err := os.ReadFile("testdata/zlib.elf")
	if err != nil {
		t.Fatal(err)
	}
	x := open(t, "testdata/zlib.elf")
	at := -1
	for i := range x.Sections {
		if x.Sections[i].Flags&elf.SHF_COMPRESSED != 0 {
			at = i
		}
	}
	if at < 0 {
		t.Fatal("no section is packed")
	}
	const size = 1 << 40
	for _, becomes := range []uint64{0, 1 << 10, 1 << 20, maxUnpacked, maxUnpacked + 1, 1 << 40, 1 << 63} {
		b := append(bytes.Clone(whole), make([]byte, 24)...)
		head := uint64(len(whole))
		binary.LittleEndian.PutUint32(b[head:], uint32(elf.COMPRESS_ZLIB))
		binary.LittleEndian.PutUint64(b[head+8:], becomes)
		r := &holes{b: b}
		x, err := Open(r, size)
		if err != nil {
			t.Fatal(err)
		}
		s := x.Sections[at]
		s.Off, s.Size = head, size-head
		if d, err := x.Data(&s); !errors.Is(err, errTooLarge) {
			t.Errorf("becomes %#x: %d bytes, %v", becomes, d.Size(), err)
		}
		if r.most > 1<<20 {
			t.Errorf("becomes %#x: %d bytes were read at once", becomes, r.most)
		}
	}
}
