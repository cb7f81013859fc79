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

// TestAttributeReplaced: a file that the kernel announces is the one that is known to be
// mapped only if nothing says that another file of that name has taken its place.
func TestAttributeReplaced(t *testing.T) {
	const doubt = 50_000
	for _, test := range []struct {
		name  string
		id    tracefs.Identifier
		inode uint64 // of the mapping
		time  tracefs.Time
		known filemap.BuildID // that the kernel announced
		want  string
		ID    bool
	}{
		{"the inode", tracefs.InodeIdentifier(7, 8, 0), 7, doubt, filemap.BuildID{}, "/lib/one+0x0 late", true},
		{"another inode", tracefs.InodeIdentifier(9, 8, 0), 7, doubt, filemap.BuildID{}, "/lib/one+0x0 announced", false},
		{"another inode, nothing is missing", tracefs.InodeIdentifier(9, 8, 0), 7, 30_000, filemap.BuildID{}, "/lib/one+0x0 announced", false},
		{"another device", tracefs.InodeIdentifier(9, 9, 0), 7, doubt, filemap.BuildID{}, "/lib/one+0x0 announced", false},
		{"another device, nothing is missing", tracefs.InodeIdentifier(9, 9, 0), 7, 30_000, filemap.BuildID{}, "/lib/one+0x0 verified", true},
		{"without an inode", tracefs.InodeIdentifier(9, 8, 0), 0, doubt, filemap.BuildID{}, "/lib/one+0x0 announced", false},
		{"a hash", tracefs.HashIdentifier(5), 7, doubt, testID, "/lib/one+0x0 late", true},
		{"a hash, without a build ID", tracefs.HashIdentifier(5), 7, doubt, filemap.BuildID{}, "/lib/one+0x0 announced", false},
	} {
		spaces := space.New()
		one := elf("/lib/one", 0x100000, 0x120000, 0x1000)
		one.Inode = test.inode
		spaces.Fork(9, 1, 500)
		spaces.MapExact(1, one, 1000)
		j := New(Options{Spaces: spaces, Threads: oneThread{}, Stamp: TextStamp(), Unseen: nothingUnseen,
			Doubtful: func(at tracefs.Time) (missed, until tracefs.Time, doubtful bool) { return 60_000, 70_000, at >= doubt }})
		s := owning(claimed(test.time, 0, 0x5000, &filemap.File{Path: "/lib/one", HasID: !test.known.IsZero(), BuildID: test.known}))
		s.Frames[0].ID = test.id
		j.Attribute(s)
		o := &s.Attributions[0]
		if got := said(o); got != test.want || o.File.HasID != test.ID {
			t.Errorf("%s: %q with a build ID %t, want %q, %t", test.name, got, o.File.HasID, test.want, test.ID)
		}
	}
}
