package timeline

import (
	"testing"

	"ustack/filemap"
	"ustack/filemap/space"
	"ustack/tracefs"
)

// endedThread is a thread of process 1 until a time.
type endedThread struct{ end tracefs.Time }

func (e endedThread) PID(_ int, t tracefs.Time) (int, bool, bool) { return 1, false, t < e.end }

// TestAddressWithinStamp: another file that was at an address for less than a time stamp's
// precision can be the stack's.
func TestAddressWithinStamp(t *testing.T) {
	spaces := space.New()
	one, two := elf("/lib/one", 0x10000, 0x20000, 0), elf("/lib/two", 0x10000, 0x20000, 0)
	spaces.MapExact(1, one, 1000)
	spaces.Unmap(1, 0x10000, 0x20000, 4900)
	spaces.MapExact(1, two, 5000)
	spaces.Unmap(1, 0x10000, 0x20000, 5100)
	spaces.MapExact(1, one, 5200)
	spaces.Unmap(1, 0x10000, 0x20000, 9000) // nothing after it
	j := New(Options{Spaces: spaces, Threads: oneThread{}, Stamp: TextStamp(), Unseen: nothingUnseen})
	for _, c := range []struct {
		time tracefs.Time
		want string
	}{{4000, "/lib/one+0x10 verified"}, {5050, "ambiguous"}, {4600, "ambiguous"}, {6000, "/lib/one+0x10 verified"}, {9000, "/lib/one+0x10 verified"}} {
		s := stack(1, c.time, 0x10010)
		j.Attribute(s)
		if got := said(&s.Attributions[0]); got != c.want {
			t.Errorf("at %d: %q, want %q", c.time, got, c.want)
		}
	}
}

// TestIdentifierWithinStamp: if a file that a frame can lie in went away within the time
// stamp's precision, or what carries its identifier came in it, nothing is proven.
func TestIdentifierWithinStamp(t *testing.T) {
	one := &filemap.File{Path: "/lib/one", HasID: true, BuildID: testID}
	number := func(inode uint64) tracefs.Identifier { return tracefs.InodeIdentifier(inode, 8, 0) }
	for _, c := range []struct {
		name string
		id   tracefs.Identifier
		time tracefs.Time
		tid  int32
		want string
	}{
		{"by its number, long after", number(7), 8000, 1, "/lib/two+0x0 verified"},
		{"by its number, one went away", number(7), 5300, 1, "ambiguous"},
		{"by its hash, another process's, long after", tracefs.HashIdentifier(1), 8000, 3, "/lib/one+0x0 verified"},
		{"by its hash, another process's, that came", tracefs.HashIdentifier(1), 5300, 3, "unannounced"},
	} {
		spaces := space.New()
		spaces.MapExact(1, elf("/memfd:x (deleted)", 0x100000, 0x120000, 0x1000), 1000)
		spaces.MapExact(1, elf("/lib/two", 0x200000, 0x220000, 0x1000), 2000)
		spaces.Unmap(1, 0x100000, 0x120000, 5000)
		spaces.MapExact(2, elf("/lib/one", 0x100000, 0x120000, 0x1000), 5000)
		j := New(Options{Spaces: spaces, Threads: oneThread{}, Stamp: TextStamp(), Unseen: nothingUnseen})
		pinned := owning(claimed(9000, 1, 0x5000, one))
		pinned.TID = 2
		j.Attribute(pinned)
		s := claimed(c.time, 0, 0x5000, nil)
		s.TID, s.Frames[0].ID = c.tid, c.id
		j.Attribute(s)
		if got := said(&s.Attributions[0]); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// TestThreadEndedWithinStamp: a thread that ended within the time stamp's precision is still
// of its process, of which a program that was executed then says nothing.
func TestThreadEndedWithinStamp(t *testing.T) {
	spaces := space.New()
	spaces.MapExact(1, elf("/lib/one", 0x10000, 0x20000, 0), 1000)
	j := New(Options{Spaces: spaces, Threads: endedThread{5200}, Stamp: TextStamp(), Unseen: nothingUnseen})
	s := stack(7, 5000, 0x10010)
	j.Attribute(s)
	if got := said(&s.Attributions[0]); got != "/lib/one+0x10 verified" {
		t.Errorf("%q", got)
	}
}
