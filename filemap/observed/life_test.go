package observed

import (
	"fmt"
	"testing"

	"ustack/filemap"
	"ustack/filemap/resolve"
	"ustack/tracefs"
)

// TestNumberAgain: once a file is mapped no more, its number can be another file's of its
// name. What the kernel announced of the one is no proof for the other.
func TestNumberAgain(t *testing.T) {
	file := func(id byte) *filemap.File {
		f := &filemap.File{Path: "/a", HasID: true}
		f.BuildID[0] = id
		return f
	}
	read := func(pid, from, to int) string {
		head := "### t=%d.0 pid=%d comm=x exe=/x\n" + libA
		return fmt.Sprintf(head+head, from, pid, to, pid)
	}
	hash, inode := tracefs.HashIdentifier, tracefs.InodeIdentifier(5, 0xfe, 0)
	none := resolve.Unnamed(filemap.Unannounced)
	owned := resolve.Own(file(1))
	claimed := resolve.Named(file(2), filemap.Claimed)
	for _, c := range []struct {
		what   string
		later  string // the process that maps it later
		first  tracefs.Identifier
		second tracefs.Identifier
		said   resolve.Attribution
		want   string
	}{
		{"another hash", read(2, 10, 12), hash(1), hash(2), none, "/a 01 late"},
		{"another hash with another build ID", read(2, 10, 12), hash(1), hash(2), claimed, "/a inferred"},
		{"the inode", read(2, 10, 12), inode, inode, none, "/a 01 late"},
		{"the inode with another build ID", read(2, 10, 12), inode, inode, claimed, "/a verified"},
		{"mapped all the time", read(2, 2, 12), hash(1), hash(2), none, "/a 01 inferred"},
		{"by a third one", read(2, 10, 12) + read(3, 2, 11), inode, inode, none, "/a 01 verified"},
	} {
		dump := map[int32]string{1: read(1, 1, 3), 2: c.later}
		got := attributed(t, dump, witnessed{1, 2e9, c.first, 0x1000, owned}, witnessed{2, 11e9, c.second, 0x1000, c.said})
		if want := "[/a 01 verified " + c.want + "]"; fmt.Sprint(got) != want {
			t.Errorf("%s: %v, want %s", c.what, got, want)
		}
	}
}
