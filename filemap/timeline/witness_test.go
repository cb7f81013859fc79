package timeline

import (
	"testing"

	"ustack/filemap"
	"ustack/filemap/elfid"
	"ustack/filemap/space"
	"ustack/tracefs"
)

// TestAttributeUnread: what is proven of an identifier in another process holds for one
// of which nothing is known, too, at that time or at all. A claim that the proof
// contradicts is not made.
func TestAttributeUnread(t *testing.T) {
	one := &filemap.File{Path: "/lib/one", HasID: true, BuildID: testID}
	gone := &filemap.File{Path: "/lib/gone", HasID: true, BuildID: testID}
	for _, test := range []struct {
		name   string
		tid    int32
		time   tracefs.Time
		offset uint64
		hash   uint64
		file   *filemap.File
		want   string
	}{
		{"proven", 8, 30_000, 0x5000, 1, one, "/lib/one+0x0 verified"},
		{"proven, the claim is stale", 8, 30_000, 0x5000, 1, gone, "/lib/one+0x0 verified"},
		{"proven, without a claim", 8, 30_000, 0x5000, 1, nil, "/lib/one+0x0 verified"},
		{"proven, in no code of it", 8, 30_000, 0x90000, 1, one, "not-code"},
		{"proven, before anything is known of the process", 2, 30_000, 0x5000, 1, nil, "/lib/one+0x0 verified"},
		{"unmapped since", 8, 60_000, 0x5000, 1, one, "/lib/one+0x0 claimed"},
		{"unmapped since, and it was never that file", 8, 60_000, 0x5000, 1, gone, "ambiguous"},
		{"another identifier", 8, 30_000, 0x5000, 2, gone, "/lib/gone+0x0 claimed"},
	} {
		spaces := space.New()
		spaces.Fork(9, 1, 500)
		spaces.MapExact(1, elf("/lib/one", 0x100000, 0x120000, 0x1000), 1000)
		spaces.Unmap(1, 0x100000, 0x120000, 50_000)
		spaces.MapExact(2, elf("/lib/two", 0x100000, 0x120000, 0x1000), 55_000)
		j := New(Options{Spaces: spaces, Threads: oneThread{}, Stamp: TextStamp(), Unseen: nothingUnseen})
		j.Attribute(owning(claimed(5000, 1, 0x5000, one)))
		s := claimed(test.time, test.hash, test.offset, test.file)
		s.TID = test.tid
		j.Attribute(s)
		if got := said(&s.Attributions[0]); got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}

// TestAttributeInodeTwice: two mappings of an inode with different build IDs: it was
// written to in between, and the frame can be in each of them.
func TestAttributeInodeTwice(t *testing.T) {
	spaces := space.New()
	spaces.Map(1, elf("/lib/one", 0x100000, 0x120000, 0x1000), 1000)
	again := elf("/lib/one", 0x200000, 0x220000, 0x1000)
	again.BuildID, _ = elfid.Parse([]byte("aa112233445566778899aabbccddeeff00112233"))
	spaces.Map(1, again, 2000)
	s := claimed(5000, 0, 0x5000, nil)
	s.Frames[0].ID = tracefs.InodeIdentifier(7, 8, 0)
	New(Options{Spaces: spaces, Threads: oneThread{}, Stamp: TextStamp()}).Attribute(s)
	if got := said(&s.Attributions[0]); got != "ambiguous" {
		t.Errorf("%q", got)
	}
}
