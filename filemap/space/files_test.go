package space

import (
	"testing"

	"ustack/filemap/elfid"
	"ustack/filemap/procmap"
)

// TestSame: two files are one if that is known.
func TestSame(t *testing.T) {
	id := func(b string) elfid.ID {
		x, _ := elfid.Parse([]byte(b))
		return x
	}
	one := File{Name: "/a", Inode: 5, Dev: procmap.Dev{Major: 8}, BuildID: id("01")}
	with := func(change func(*File)) File {
		f := one
		change(&f)
		return f
	}
	memory := File{Name: "[stack]", Kind: procmap.Stack}
	for _, test := range []struct {
		name string
		a, b File
		want bool
	}{
		{"the same", one, one, true},
		{"deleted", one, with(func(f *File) { f.Name, f.Kind = "/a (deleted)", procmap.Deleted }), true},
		{"renamed, or another link", one, with(func(f *File) { f.Name = "/b" }), false},
		{"another inode", one, with(func(f *File) { f.Inode = 6 }), false},
		{"another device", one, with(func(f *File) { f.Dev.Minor = 1 }), false},
		{"another file of the inode", one, with(func(f *File) { f.Generation = 1 }), false},
		{"another build", one, with(func(f *File) { f.BuildID = id("02") }), false},
		{"no build ID", one, with(func(f *File) { f.BuildID = elfid.ID{} }), true},
		{"no inode", one, with(func(f *File) { f.Inode = 0 }), true},
		{"neither", one, with(func(f *File) { f.Inode, f.BuildID = 0, elfid.ID{} }), false},
		{"memory", memory, memory, true},
		{"memory of another name", memory, File{Name: "[anon:x]", Kind: procmap.AnonNamed}, false},
		{"memory and a file", memory, one, false},
	} {
		if test.a.Same(&test.b) != test.want || test.b.Same(&test.a) != test.want {
			t.Errorf("%s: not %t", test.name, test.want)
		}
	}
}
