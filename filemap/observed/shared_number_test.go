package observed

import (
	"fmt"
	"testing"

	"ustack/filemap"
	"ustack/filemap/resolve"
	"ustack/tracefs"
)

// TestSharedNumber: on btrfs, overlayfs and FUSE two files can have one number. Their
// names distinguish them; on a file system with a device of its own it is one file.
func TestSharedNumber(t *testing.T) {
	const x, y = "10000-20000 r-xp 0 00:2b 2 /m/x\n", "50000-60000 r-xp 0 00:2b 2 /m/y\n"
	const linkX, linkY = "10000-20000 r-xp 0 fe:00 2 /m/x\n", "50000-60000 r-xp 0 fe:00 2 /m/y\n"
	hash, other := tracefs.HashIdentifier(1), tracefs.HashIdentifier(2)
	number, link := tracefs.InodeIdentifier(2, 0, 0x2b), tracefs.InodeIdentifier(2, 0xfe, 0)
	own := func(path string) resolve.Attribution { return resolve.Own(&filemap.File{Path: path}) }
	none := resolve.Unnamed(filemap.Unannounced)
	at := func(tid int32, id tracefs.Identifier, offset uint64, said resolve.Attribution) witnessed {
		return witnessed{tid, 5e9, id, offset, said}
	}
	for _, c := range []struct {
		what   string
		dumps  map[int32]string
		frames []witnessed
		want   string
	}{
		{"a hash", map[int32]string{1: twice(y + x)}, []witnessed{at(1, hash, 0x1000, own("/m/x")), at(1, hash, 0x1010, none)}, "[/m/x verified /m/x verified]"},
		{"the number of both", map[int32]string{1: twice(x + y)}, []witnessed{at(1, number, 0x1000, none)}, "[ambiguous]"},
		{"the kernel looked", map[int32]string{1: twice(y + x)}, []witnessed{at(1, number, 0x1000, own("/m/x"))}, "[/m/x verified]"},
		{"the number of one", map[int32]string{1: twice(y)}, []witnessed{at(1, number, 0x1000, none)}, "[/m/y verified]"},
		{"of another process", map[int32]string{1: twice(x)}, []witnessed{at(1, number, 0x1000, none), at(77, number, 0x1000, none)}, "[/m/x verified /m/x late]"},
		{"another hash", map[int32]string{1: twice(x + y)}, []witnessed{at(1, hash, 0x1000, own("/m/x")), at(1, other, 0x1000, none)}, "[/m/x verified /m/y inferred]"},
		{"links", map[int32]string{1: twice(linkX + linkY)}, []witnessed{at(1, link, 0x1000, none)}, "[/m/x verified]"},
		{"a link, of another process", map[int32]string{1: twice(linkX)}, []witnessed{at(1, link, 0x1000, none), at(77, link, 0x1000, none)}, "[/m/x verified /m/x verified]"},
	} {
		if got := attributed(t, c.dumps, c.frames...); fmt.Sprint(got) != c.want {
			t.Errorf("%s: %v, want %s", c.what, got, c.want)
		}
	}
}
