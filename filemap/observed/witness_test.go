package observed

import (
	"fmt"
	"strings"
	"testing"

	"ustack/filemap"
	"ustack/filemap/resolve"
	"ustack/tracefs"
)

// TestUnreadData: what is proven in another process of a frame that is in no code of
// the file gives it no file.
func TestUnreadData(t *testing.T) {
	id := tracefs.HashIdentifier(1)
	a := &filemap.File{Path: "/a"}
	none := resolve.Unnamed(filemap.Unannounced)
	got := attributed(t, map[int32]string{1: twice(libA)},
		witnessed{1, 5e9, id, 0x1000, resolve.Own(a)}, witnessed{77, 6e9, id, 0x2000, none}, witnessed{77, 6e9, id, 0x11000, none})
	if want := "[/a verified /a verified not-code]"; fmt.Sprint(got) != want {
		t.Errorf("%v, want %s", got, want)
	}
}

// TestSeveral: a statement that can be about each of two files names none of them.
func TestSeveral(t *testing.T) {
	// Two files of one name, one of which has a build ID: the other was deleted.
	two := "10000-20000 r-xp 0 fe:00 5 /a\n50000-60000 r-xp 0 fe:00 6 /a (deleted)\n# fe:00 5 build_id=01\n"
	claimed := resolve.Named(&filemap.File{Path: "/a"}, filemap.Claimed)
	id := tracefs.HashIdentifier(1)
	for what, c := range map[string]struct {
		f    witnessed
		want string
	}{
		"a claim":                {witnessed{1, 5e9, id, 0x1000, claimed}, "ambiguous"},
		"an announcement":        {witnessed{1, 5e9, id, 0x1000, resolve.Own(&filemap.File{Path: "/a"})}, "ambiguous"},
		"the inode decides":      {witnessed{1, 5e9, tracefs.InodeIdentifier(5, 0xfe, 0), 0x1000, claimed}, "/a 01 verified"},
		"of an announcement too": {witnessed{1, 5e9, tracefs.InodeIdentifier(5, 0xfe, 0), 0x1000, resolve.Own(&filemap.File{Path: "/a"})}, "/a 01 verified"},
	} {
		if got := attributed(t, map[int32]string{1: twice(two)}, c.f); got[0] != c.want {
			t.Errorf("%s: %s, want %s", what, got[0], c.want)
		}
	}
}

// TestNumberOfAnother: in the dump of another boot or machine the number of a file can be
// another one's. What the trace calls that number is not confirmed by it.
func TestNumberOfAnother(t *testing.T) {
	id := tracefs.InodeIdentifier(5, 0xfe, 0)
	known := "10000-20000 r-xp 0 fe:00 5 /srv/a\n# fe:00 5 build_id=01\n"
	file := func(path string, id ...byte) *filemap.File {
		f := &filemap.File{Path: path, HasID: len(id) > 0}
		copy(f.BuildID[:], id)
		return f
	}
	for _, c := range []struct {
		said         resolve.Attribution
		read, unread string // if the dump has the process, or only another one
	}{
		{resolve.Own(file("/srv/a", 1)), "/srv/a 01 verified", "/srv/a 01 announced"},
		{resolve.Own(file("/a (deleted)")), "/srv/a 01 verified", "/a (deleted) announced"}, // of a mount namespace
		{resolve.Own(file("/srv/b")), "/srv/a 01 late", "/srv/b announced"},
		{resolve.Own(file("/srv/a", 2)), "/srv/a 01 late", "/srv/a 02 announced"},
		{resolve.Named(file("/srv/b"), filemap.Claimed), "/srv/a 01 late", "/srv/a 01 late"},
		{resolve.Unnamed(filemap.Unannounced), "/srv/a 01 verified", "/srv/a 01 verified"},
	} {
		for tid, want := range map[int32]string{1: c.read, 77: c.unread} {
			got := attributed(t, map[int32]string{1: twice(known)},
				witnessed{1, 5e9, id, 0x1000, resolve.Unnamed(filemap.Unannounced)}, witnessed{tid, 5e9, id, 0x1000, c.said})
			if got[1] != want {
				t.Errorf("%+v in thread %d: %s, want %s", c.said.File, tid, got[1], want)
			}
		}
	}
}

// TestExcludedOfAnother: a dump of another boot can have another build of a file that
// exclusion leaves.
func TestExcludedOfAnother(t *testing.T) {
	id, of := tracefs.HashIdentifier(1), tracefs.HashIdentifier(2)
	for first, want := range map[byte]string{1: "/b 01 inferred", 2: "/b 01 late"} {
		b := &filemap.File{Path: "/b", HasID: true}
		b.BuildID[0] = first
		got := attributed(t, map[int32]string{1: twice(libA + libB + "# fe:00 6 build_id=01\n")},
			witnessed{1, 5e9, of, 0x1000, resolve.Own(&filemap.File{Path: "/a"})},
			witnessed{1, 5e9, id, 0x1000, resolve.Named(b, filemap.Claimed)})
		if got[1] != want {
			t.Errorf("%s, want %s", got[1], want)
		}
	}
}

// TestGivenOtherwise: exclusion and numbers prove nothing with a dump that gives a file
// another build ID than the trace does anywhere, or another file of that reading.
func TestGivenOtherwise(t *testing.T) {
	id, of, elsewhere := tracefs.HashIdentifier(1), tracefs.HashIdentifier(2), tracefs.HashIdentifier(3)
	inode := tracefs.InodeIdentifier(6, 0xfe, 0)
	a, stale := &filemap.File{Path: "/a"}, &filemap.File{Path: "/c"}
	none := resolve.Unnamed(filemap.Unannounced)
	read := twice(libA + libB + "# fe:00 6 build_id=01\n")
	both := twice(libA + libB + "# fe:00 5 build_id=01\n# fe:00 6 build_id=01\n")
	for _, c := range []struct {
		what, dump string
		given      string // the file of which the trace gives a build ID
		given2     byte   // and another one, 0 if none
		frame      witnessed
		want       string
	}{
		{"said nothing", read, "/b", 0, witnessed{1, 5e9, id, 0x1000, none}, "/b 01 late"},
		{"said what was", read, "/b", 0, witnessed{1, 5e9, id, 0x1000, resolve.Named(stale, filemap.Claimed)}, "/b 01 late"},
		{"one of two", read, "/b", 1, witnessed{1, 5e9, id, 0x1000, none}, "/b 01 inferred"},
		{"the inode", read, "/b", 0, witnessed{1, 5e9, inode, 0x1000, none}, "/b 01 late"},
		{"the inode, one of two", read, "/b", 1, witnessed{1, 5e9, inode, 0x1000, none}, "/b 01 verified"},
		{"another file of the reading", both, "/a", 0, witnessed{1, 5e9, id, 0x1000, none}, "/b 01 late"},
		{"a file of no reading", read, "/d", 0, witnessed{1, 5e9, id, 0x1000, none}, "/b 01 inferred"},
		{"in a chroot", strings.ReplaceAll(read, "/b", "/jail/b"), "/b", 0, witnessed{1, 5e9, id, 0x1000, none}, "/jail/b 01 late"},
		{"in a chroot, one of two", strings.ReplaceAll(read, "/b", "/jail/b"), "/b", 1, witnessed{1, 5e9, id, 0x1000, none}, "/jail/b 01 inferred"},
		{"of another name that ends so", strings.ReplaceAll(read, "/b", "/ab"), "b", 0, witnessed{1, 5e9, id, 0x1000, none}, "/ab 01 inferred"},
		{"deleted since", strings.ReplaceAll(read, "/b", "/b (deleted)"), "/b", 0, witnessed{1, 5e9, id, 0x1000, none}, "/b (deleted) 01 late"},
	} {
		frames := []witnessed{{1, 5e9, of, 0x1000, resolve.Own(a)}, c.frame}
		for _, given := range []byte{2, c.given2} {
			if given != 0 {
				f := &filemap.File{Path: c.given, HasID: true}
				f.BuildID[0] = given
				frames = append(frames, witnessed{77, 5e9, elsewhere, 0x1000, resolve.Own(f)})
			}
		}
		if got := attributed(t, map[int32]string{1: c.dump}, frames...); got[1] != c.want {
			t.Errorf("%s: %s, want %s", c.what, got[1], c.want)
		}
	}
}

// TestNumberReused: between a reading with one file and one with another file of its
// number it is unknown which of them a frame is in, unless both are names of one file.
func TestNumberReused(t *testing.T) {
	id := tracefs.InodeIdentifier(5, 0xfe, 0)
	const a, b = "10000-20000 r-xp 0 fe:00 5 /a\n", "30000-40000 r-xp 0 fe:00 5 /b\n"
	for _, c := range []struct{ before, after, want string }{
		{a, b, "ambiguous"},
		{a, strings.ReplaceAll(a, "/a", "/a (deleted)"), "/a verified"},
		{a + b, a + b, "/a verified"},
		{a, a + b, "/a verified"},
	} {
		dump := "### t=1.0 pid=1 comm=x exe=/x\n" + c.before + "### t=9.0 pid=1 comm=x exe=/x\n" + c.after
		got := attributed(t, map[int32]string{1: dump}, witnessed{1, 5e9, id, 0x1000, resolve.Named(&filemap.File{Path: "/a"}, filemap.Claimed)})
		if got[0] != c.want {
			t.Errorf("%q, then %q: %s, want %s", c.before, c.after, got[0], c.want)
		}
	}
}
