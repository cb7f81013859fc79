package futex

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"ustack/filemap"
	"ustack/tracefs/escape"
	"ustack/tracefs/text"
)

// placesToWrite are places with all that a line can have.
func placesToWrite(files *filemap.Files) []Place {
	id := []byte("0x1,0x2,0x3,0x4,0x5")
	layout := func(path string, id []byte) filemap.Layout {
		f := files.Intern([]byte(path), id)
		return filemap.Layout{{Start: 0x1000, End: 0x2000, File: f}, {Start: 0x2000, End: 0x3000, Offset: 0x1000, File: f, Code: true},
			{Start: 0x3000, End: 0x4000, Offset: 0x1000, File: f}, {Start: 0x4000, End: 0x6000, Anonymous: true}, {Start: 0x7000, End: 0x8000}}
	}
	return []Place{
		{TID: 7},
		{TID: 7, TGID: 7, Began: 12345, Exact: true, Program: "prog"},
		{TID: 8, TGID: 7, Began: 0, Program: ""},
		{TID: 8, TGID: 7, Began: 1, Program: "a name\n\x1b[31m\\040\\ 040=", Addr: 0x5010},
		{TID: 8, TGID: 7, Began: 1, Exact: true, Program: "p", Addr: 0x5010, Trust: filemap.Verified, Layout: layout("/usr/lib/lib.so", id)},
		{TID: 8, TGID: 7, Began: 1, Exact: true, Program: "p", Addr: 0x5010, Trust: filemap.Late, Layout: layout("/a b/\n=\\012 \u202e build_id=0x1", nil)},
	}
}

// acts reports whether a terminal acts on a line.
func acts(line []byte) bool { return bytes.ContainsFunc(line, escape.Acts) }

// TestPlaceLines: a line of a place is read back as it was, and as nothing if it was changed.
func TestPlaceLines(t *testing.T) {
	files := filemap.NewFiles()
	for _, p := range placesToWrite(files) {
		line := AppendPlace(nil, &p)
		if acts(bytes.TrimSuffix(line, []byte("\n"))) {
			t.Errorf("%q: a terminal acts on it", line)
		}
		body := strings.TrimSuffix(strings.TrimPrefix(string(line), text.PlaceMark), "\n")
		got, ok := parsePlace([]byte(body), files)
		if !ok || fmt.Sprint(got) != fmt.Sprint(p) {
			t.Errorf("%q is %v, %t", body, got, ok)
		}
		for i := range len(body) {
			if got, ok := parsePlace([]byte(body[:i]), files); ok && fmt.Sprint(got) == fmt.Sprint(p) {
				t.Errorf("%q, a part of a line, is the whole place", body[:i])
			}
		}
	}
	for _, bad := range []string{
		"", "thread=0 process=1 began=1 program=p", "thread=99999999 process=1 began=1 program=p", "thread=1 process=-1 began=1 program=p",
		"thread=1 process=0 began=1 program=p", "thread=1 process=2 program=p", "thread=1 process=2 began=01 program=p", "thread=1 process=2 began=1 program=p x=y",
		"thread=1 process=2 began=1 program=p futex=0x0", "thread=1 process=2 began=1 program=\x1b", "thread=1 process=2 began=9223372036854775808 program=p",
		"thread=1 process=2 began=1 program=p futex=0x10 trust=announced areas=10-20+0c path=/p", // a Layouts never says it
		"thread=1 process=2 began=1 program=p futex=0x30 trust=verified areas=10-20+0c path=/p",  // not in it
		"thread=1 process=2 began=1 program=p futex=0x10 trust=verified areas=10-20+0a path=/p",  // of no file
		"thread=1 process=2 began=1 program=p futex=0x10 trust=verified areas=10-20+0c,18-30+0c path=/p",
		"thread=1 process=2 began=1 program=p futex=0x10 trust=verified areas=20-10+0c path=/p",
		"thread=1 process=2 began=1 program=p futex=0x10 trust=verified areas=10-20+0c path=",
		"thread=1 process=2 began=1 program=p futex=0x10 trust=verified areas=10-20+0c build_id=0x1 path=/p",
		"thread=1 process=2 began=1 program=p futex=0x10 trust=verified areas=10-20+0c" + strings.Repeat(",10-20+0c", MaxAreas) + " path=/p",
		"thread=1 process=2 began=1 program=" + strings.Repeat("p", maxNames+MaxAreas*64),
	} {
		if p, ok := parsePlace([]byte(bad), files); ok {
			t.Errorf("%.200q is %v", bad, p)
		}
	}
}

// FuzzPlace: what is taken as a place is what AppendPlace writes, and in bounds.
func FuzzPlace(f *testing.F) {
	for _, p := range placesToWrite(filemap.NewFiles()) {
		f.Add(appendPlace(nil, &p))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		p, ok := parsePlace(line, filemap.NewFiles())
		if !ok {
			return
		}
		if got := appendPlace(nil, &p); !bytes.Equal(got, line) {
			t.Errorf("%q is written as %q", line, got)
		}
		if acts(line) {
			t.Errorf("%q: a terminal acts on it", line)
		}
		if p.TID <= 0 || p.TGID < 0 || len(p.Layout) > MaxAreas || p.Layout != nil && (p.Layout.At(p.Addr) == nil || p.file() == nil || p.file().Path == "") {
			t.Errorf("%q is %v", line, p)
		}
	})
}
