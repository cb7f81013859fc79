package elfid

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// specimen is an ELF file to be built.
type specimen struct {
	wide  bool
	order binary.ByteOrder
	kind  elf.Type
	// segments and sections hold notes; align is the alignment of both.
	segments, sections [][]byte
	align              uint64
	others             int // headers of other types before those of notes
}

// note is one note.
func note(order binary.ByteOrder, align int, name string, kind uint32, desc []byte) []byte {
	b := make([]byte, noteHead)
	order.PutUint32(b, uint32(len(name)))
	order.PutUint32(b[4:], uint32(len(desc)))
	order.PutUint32(b[8:], kind)
	b = append(b, name...)
	for len(b)%align != 0 {
		b = append(b, 0)
	}
	b = append(b, desc...)
	for len(b)%align != 0 {
		b = append(b, 0)
	}
	return b
}

// build lays the file out: header, program headers, notes, section headers.
func (s specimen) build() []byte {
	o := s.order
	phdr, shdr, ehdr := 32, 40, 52
	if s.wide {
		phdr, shdr, ehdr = 56, 64, 64
	}
	h := make([]byte, ehdr)
	copy(h, elf.ELFMAG)
	h[elf.EI_CLASS], h[elf.EI_DATA] = byte(elf.ELFCLASS32), byte(elf.ELFDATA2LSB)
	if s.wide {
		h[elf.EI_CLASS] = byte(elf.ELFCLASS64)
	}
	if o == binary.BigEndian {
		h[elf.EI_DATA] = byte(elf.ELFDATA2MSB)
	}
	o.PutUint16(h[16:], uint16(s.kind))
	nph, nsh := s.others+len(s.segments), s.others+len(s.sections)
	phoff := ehdr
	at := phoff + nph*phdr
	var notes []byte
	place := func(b []byte) uint64 {
		off := at + len(notes)
		notes = append(notes, b...)
		return uint64(off)
	}
	ph := make([]byte, s.others*phdr)
	for _, b := range s.segments {
		ph = append(ph, s.segment(place(b), uint64(len(b)))...)
	}
	sh := make([]byte, s.others*shdr)
	for _, b := range s.sections {
		sh = append(sh, s.section(place(b), uint64(len(b)))...)
	}
	shoff := at + len(notes)
	tail := ehdr - 10
	if s.wide {
		o.PutUint64(h[32:], uint64(phoff))
		o.PutUint64(h[40:], uint64(shoff))
	} else {
		o.PutUint32(h[28:], uint32(phoff))
		o.PutUint32(h[32:], uint32(shoff))
	}
	for i, v := range []int{phdr, nph, shdr, nsh} {
		o.PutUint16(h[tail+2*i:], uint16(v))
	}
	return bytes.Join([][]byte{h, ph, notes, sh}, nil)
}

func (s specimen) segment(off, size uint64) []byte {
	if s.wide {
		b := make([]byte, 56)
		s.order.PutUint32(b, uint32(elf.PT_NOTE))
		s.order.PutUint64(b[8:], off)
		s.order.PutUint64(b[32:], size)
		s.order.PutUint64(b[48:], s.align)
		return b
	}
	b := make([]byte, 32)
	s.order.PutUint32(b, uint32(elf.PT_NOTE))
	s.order.PutUint32(b[4:], uint32(off))
	s.order.PutUint32(b[16:], uint32(size))
	s.order.PutUint32(b[28:], uint32(s.align))
	return b
}

func (s specimen) section(off, size uint64) []byte {
	if s.wide {
		b := make([]byte, 64)
		s.order.PutUint32(b[4:], uint32(elf.SHT_NOTE))
		s.order.PutUint64(b[24:], off)
		s.order.PutUint64(b[32:], size)
		s.order.PutUint64(b[48:], s.align)
		return b
	}
	b := make([]byte, 40)
	s.order.PutUint32(b[4:], uint32(elf.SHT_NOTE))
	s.order.PutUint32(b[16:], uint32(off))
	s.order.PutUint32(b[20:], uint32(size))
	s.order.PutUint32(b[32:], uint32(s.align))
	return b
}

func TestRead(t *testing.T) {
	for _, wide := range []bool{false, true} {
		for _, order := range []binary.ByteOrder{binary.LittleEndian, binary.BigEndian} {
			for _, align := range []int{4, 8} {
				testRead(t, wide, order, align)
			}
		}
	}
}

func testRead(t *testing.T, wide bool, order binary.ByteOrder, align int) {
	id := []byte("0123456789abcdefghijklmn")
	gnu := func(n int) []byte { return note(order, align, "GNU\x00", 3, id[:n]) }
	goNote := note(order, align, "Go\x00\x00", 4, []byte("aaaa/bbbb/cccc/dddd"))
	property := note(order, align, "GNU\x00", 5, make([]byte, 16))
	otherName := note(order, align, "GNU\x01", 3, id[:20])
	short := gnu(20)[:20]
	empty := note(order, align, "GNU\x00", 3, nil)
	for _, test := range []struct {
		what               string
		segments, sections [][]byte
		others             int
		want               string
	}{
		{"nothing", nil, nil, 0, ""},
		{"a segment", [][]byte{gnu(20)}, nil, 0, "0123456789abcdefghij"},
		{"16 bytes", [][]byte{gnu(16)}, nil, 0, "0123456789abcdef"},
		{"8 bytes", [][]byte{gnu(8)}, nil, 0, "01234567"},
		{"one byte", [][]byte{gnu(1)}, nil, 0, "0"},
		{"an odd number of bytes", [][]byte{gnu(7)}, nil, 0, "0123456"},
		{"too long", [][]byte{gnu(21)}, nil, 0, ""},
		{"no bytes", [][]byte{empty}, nil, 0, ""},
		{"after others", [][]byte{property, append(append([]byte{}, goNote...), gnu(20)...)}, nil, 100, "0123456789abcdefghij"},
		{"a section", nil, [][]byte{gnu(20)}, 0, "0123456789abcdefghij"},
		{"a section far down", nil, [][]byte{property, gnu(20)}, 1000, "0123456789abcdefghij"},
		{"as Go does it", [][]byte{goNote}, [][]byte{goNote, gnu(20)}, 3, "0123456789abcdefghij"},
		{"Go's own only", [][]byte{goNote}, [][]byte{goNote}, 0, ""},
		{"segments come first", [][]byte{gnu(16)}, [][]byte{gnu(20)}, 0, "0123456789abcdef"},
		{"another name", [][]byte{otherName}, nil, 0, ""},
		{"cut short", [][]byte{short}, nil, 0, ""},
		{"cut short, then whole", [][]byte{short, gnu(20)}, nil, 0, "0123456789abcdefghij"},
		{"too long, then short", [][]byte{append(gnu(24), gnu(20)...)}, nil, 0, "0123456789abcdefghij"},
	} {
		t.Run(fmt.Sprintf("%s wide=%v %v align=%d", test.what, wide, order, align), func(t *testing.T) {
			s := specimen{wide: wide, order: order, kind: elf.ET_DYN, segments: test.segments, sections: test.sections,
				align: uint64(align), others: test.others}
			got, err := Read(bytes.NewReader(s.build()))
			want, _ := New([]byte(test.want))
			if err != nil || got != want {
				t.Errorf("got %q, %v, want %q", got.Hex(), err, want.Hex())
			}
			for _, kind := range []elf.Type{elf.ET_REL, elf.ET_CORE} {
				s.kind = kind
				if got, err := Read(bytes.NewReader(s.build())); err != nil || !got.IsZero() {
					t.Errorf("%v: got %q, %v", kind, got.Hex(), err)
				}
			}
		})
	}
}

// TestHostile: headers may say what they like.
func TestHostile(t *testing.T) {
	good := specimen{wide: true, order: binary.LittleEndian, kind: elf.ET_EXEC, align: 4,
		segments: [][]byte{note(binary.LittleEndian, 4, "GNU\x00", 3, []byte("01234567"))}}.build()
	read := 0
	count := readerAt(func(b []byte, off int64) (int, error) {
		read += len(b)
		return bytes.NewReader(good).ReadAt(b, off)
	})
	edit := func(change func(b []byte)) []byte {
		b := bytes.Clone(good)
		change(b)
		return b
	}
	all := func(b []byte) {
		for i := range b {
			b[i] = 0xff
		}
	}
	for what, file := range map[string][]byte{
		"empty": {}, "magic only": []byte(elf.ELFMAG), "text": []byte(strings.Repeat("#!/bin/sh\n", 20)), "half a header": good[:40],
		"all ones after the type":             edit(func(b []byte) { all(b[18:]) }),
		"program headers at the end of space": edit(func(b []byte) { all(b[32:40]) }),
		"a segment of 2^64 bytes":             edit(func(b []byte) { all(b[64+32 : 64+40]) }),
		"a segment at 2^64":                   edit(func(b []byte) { all(b[64+8 : 64+16]) }),
		"65535 segments":                      edit(func(b []byte) { all(b[56:58]) }),
		"65535 sections at 0":                 edit(func(b []byte) { b[58] = 64; all(b[60:62]); b[40] = 1 }),
		"a name of 2^32 bytes":                edit(func(b []byte) { all(b[120:124]) }),
		"an ID of 2^32 bytes":                 edit(func(b []byte) { all(b[124:128]) }),
		"unknown class":                       edit(func(b []byte) { b[4] = 9 }),
		"unknown order":                       edit(func(b []byte) { b[5] = 9 }),
	} {
		if _, err := Read(bytes.NewReader(file)); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	if id, err := Read(count); err != nil || id.Len() != 8 || read > 8192 {
		t.Errorf("%v, %v, %d bytes read", id, err, read)
	}
	broken := errors.New("input/output error")
	for after := range 3 {
		n := 0
		_, err := Read(readerAt(func(b []byte, off int64) (int, error) {
			if n++; n > after {
				return 0, broken
			}
			return bytes.NewReader(bytes.Repeat(good, 1)).ReadAt(b, off)
		}))
		if after == 0 && !errors.Is(err, broken) {
			t.Errorf("a disk that fails gives %v", err)
		}
	}
}

type readerAt func(b []byte, off int64) (int, error)

func (f readerAt) ReadAt(b []byte, off int64) (int, error) { return f(b, off) }

// TestReadelf holds the reader against readelf -n, on what is installed here.
func TestReadelf(t *testing.T) {
	if _, err := exec.LookPath("readelf"); err != nil {
		t.Skip("no readelf")
	}
	names, _ := filepath.Glob("/usr/lib/*-linux-gnu/*.so.*")
	more, _ := filepath.Glob("/usr/bin/*")
	names = append(names, more...)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	names = append(names, self)
	limit := 300
	if testing.Short() {
		limit = 30
	}
	step := max(len(names)/limit, 1)
	checked := 0
	for i := len(names) - 1; i >= 0; i -= step {
		if st, err := os.Stat(names[i]); err != nil || !st.Mode().IsRegular() {
			continue // X11 leads to its own directory
		}
		f, err := os.Open(names[i])
		if err != nil {
			continue
		}
		id, err := Read(f)
		f.Close()
		if err != nil {
			t.Errorf("%s: %v", names[i], err)
			continue
		}
		out, _ := exec.Command("readelf", "-n", names[i]).Output()
		want := ""
		if m := regexp.MustCompile(`Build ID: ([0-9a-f]+)`).FindSubmatch(out); m != nil {
			want = string(m[1])
		}
		if id.Hex() != want {
			t.Errorf("%s: %q, readelf says %q", names[i], id.Hex(), want)
		}
		if want != "" {
			checked++
		}
	}
	t.Logf("%d files with a build ID", checked)
	if checked == 0 {
		t.Error("none had one")
	}
}

func TestID(t *testing.T) {
	for n := 0; n <= Max+1; n++ {
		b := bytes.Repeat([]byte{0xa5}, n)
		id, ok := New(b)
		if ok != (n >= 1 && n <= Max) || ok && (id.Len() != n || id.Hex() != strings.Repeat("a5", n)) {
			t.Errorf("%d bytes: %v %v", n, id, ok)
		}
		again, parsed := Parse([]byte(strings.Repeat("a5", n)))
		if parsed != ok || again != id {
			t.Errorf("%d bytes: read back %v %v", n, again, parsed)
		}
		if padded := id.Padded(); !ok && padded != [Max]byte{} || ok && !bytes.Equal(padded[:n], b) {
			t.Errorf("%d bytes: padded %x", n, padded)
		}
	}
	for _, s := range []string{"", "a", "xy", "abc", strings.Repeat("ab", 21)} {
		if id, ok := Parse([]byte(s)); ok {
			t.Errorf("%q is taken for an ID: %v", s, id)
		}
	}
	zeros, _ := New(make([]byte, 20))
	if zeros.IsZero() || zeros == (ID{}) {
		t.Error("twenty zeros are an ID")
	}
}

func FuzzRead(f *testing.F) {
	for _, wide := range []bool{false, true} {
		for _, order := range []binary.ByteOrder{binary.LittleEndian, binary.BigEndian} {
			n := note(order, 4, "GNU\x00", 3, []byte("0123456789abcdefghij"))
			f.Add(specimen{wide: wide, order: order, kind: elf.ET_DYN, align: 4, segments: [][]byte{n}, sections: [][]byte{n}, others: 2}.build())
		}
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		total := 0
		id, err := Read(readerAt(func(b []byte, off int64) (int, error) {
			if off < 0 {
				t.Fatalf("reading at %d", off)
			}
			if total += len(b); total > 64<<20 {
				t.Fatalf("%d bytes read of a file of %d", total, len(file))
			}
			return bytes.NewReader(file).ReadAt(b, off)
		}))
		if err != nil {
			t.Fatal(err)
		}
		if id.Len() > Max || id.Len() > len(file) {
			t.Fatalf("an ID of %d bytes in a file of %d", id.Len(), len(file))
		}
	})
}
