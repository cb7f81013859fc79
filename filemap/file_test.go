package filemap

import (
	"fmt"
	"strings"
	"testing"
)

// TestKey: keys go into outputs and caches of other machines, so the values
// are fixed. They were computed with another implementation of XXH64.
func TestKey(t *testing.T) {
	zlib, _ := ParseWords([]byte(knownIDs[0].words))
	for _, c := range []struct {
		file File
		want uint64
	}{
		{File{Path: "/usr/lib/x86_64-linux-gnu/libz.so.1.3.1", BuildID: zlib, HasID: true}, 0x8ccafef6a832042f},
		{File{Path: "/bin/sh"}, 0x0079e3599b18fab2},
		{File{BuildID: zlib}, 0xfc0bfe186be8e7e8},
		{File{}, 0x5c41df61e8f6b241},
	} {
		if got := c.file.Key(); got != c.want {
			t.Errorf("the key of %q, %s is %#x, want %#x", c.file.Path, c.file.BuildID.Hex(), got, c.want)
		}
	}
}

// TestIntern: equal files are one file, and what differs in any part is
// another.
func TestIntern(t *testing.T) {
	fs := NewFiles()
	zero, one := []byte("0x0,0x0,0x0,0x0,0x0"), []byte("0x1,0x0,0x0,0x0,0x0")
	list := []*File{
		fs.Intern([]byte("/a"), nil), fs.Intern([]byte("/a"), zero), fs.Intern([]byte("/a"), one),
		fs.Intern([]byte("/b"), one), fs.Intern([]byte("/a\n"), nil),
	}
	seen := map[*File]bool{}
	for _, f := range list {
		seen[f] = true
	}
	if len(seen) != len(list) {
		t.Errorf("%d files, want %d", len(seen), len(list))
	}
	if list[0].HasID || !list[1].HasID || !list[1].BuildID.IsZero() || list[2].BuildID.IsZero() || list[2].Path != "/a" {
		t.Errorf("files %+v, %+v, %+v", list[0], list[1], list[2])
	}
	path, size := []byte("/a"), fs.Bytes()
	again := fs.Intern(path, []byte("1 0 0 0 0"))
	path[1] = 'x' // a batch's memory is used again
	if again != list[2] || fs.Bytes() != size || again.Path != "/a" {
		t.Errorf("%+v is not the %+v there was", again, list[2])
	}
}

// TestMarkUsed: a file counts once.
func TestMarkUsed(t *testing.T) {
	fs := NewFiles()
	a, b := fs.Intern([]byte("/a"), nil), fs.Intern([]byte("/b"), nil)
	for range 3 {
		fs.MarkUsed(a)
	}
	if fs.Count() != 1 || !a.Used || b.Used {
		t.Errorf("count %d, used %v and %v", fs.Count(), a.Used, b.Used)
	}
}

// TestWords: words that are not as the kernel usually writes them are kept.
func TestWords(t *testing.T) {
	fs := NewFiles()
	for _, c := range []struct{ words, want string }{
		{knownIDs[0].words, ""},
		{"0x0,0x0,0x0,0x0,0x0", ""},
		{"2819695356 2716465008 3187156953 2708830372 902804877", ""},
		{"0x01,0x2,0x3,0x4,0x5", "0x01,0x2,0x3,0x4,0x5"},
		{strings.TrimSuffix(strings.Repeat("0x6d,", 20), ","), strings.TrimSuffix(strings.Repeat("0x6d,", 20), ",")},
	} {
		if f := fs.Intern([]byte(c.words), []byte(c.words)); f.Words != c.want || !f.HasID {
			t.Errorf("%s keeps the words %q, want %q", c.words, f.Words, c.want)
		}
	}
}

// TestRetain: what is dropped makes room and stays counted, what is kept is
// the same file as before.
func TestRetain(t *testing.T) {
	fs := NewFiles()
	var list []*File
	keep := map[*File]bool{}
	for i := range 100 {
		f := fs.Intern(fmt.Appendf(nil, "/%02d", i), nil)
		list = append(list, f)
		if fs.MarkUsed(f); i%4 == 0 {
			keep[f] = true
		}
	}
	full := fs.Bytes()
	fs.Retain(keep)
	if fs.Bytes() != full/4 || fs.Count() != 100 {
		t.Errorf("%d of %d bytes, %d files counted, want a quarter, 100", fs.Bytes(), full, fs.Count())
	}
	for i, f := range list {
		if again := fs.Intern([]byte(f.Path), nil); (again == f) != keep[f] {
			t.Errorf("file %d: kept %v, the same %v", i, keep[f], again == f)
		}
	}
	if fs.Bytes() != full {
		t.Errorf("%d bytes after all came back, want %d", fs.Bytes(), full)
	}
	fs.Retain(nil)
	if fs.Bytes() != 0 || fs.Count() != 100 {
		t.Errorf("%d bytes, %d files counted, want 0, 100", fs.Bytes(), fs.Count())
	}
}
