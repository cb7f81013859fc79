package observed

import (
	"fmt"
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
