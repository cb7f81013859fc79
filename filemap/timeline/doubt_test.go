package timeline

import (
	"testing"

	"ustack/filemap/procmap"
	"ustack/filemap/space"
	"ustack/tracefs"
)

// someThreads are the processes of threads until 70000, and after.
type someThreads struct{ before, after map[int]int }

func (s someThreads) PID(tid int, t tracefs.Time) (int, bool, bool) {
	of := s.before
	if t >= 70_000 {
		of = s.after
	}
	pid, ok := of[tid]
	return pid, false, ok
}

// TestAttributeDoubt: while records are missing, a process may have become anything.
// Only what is the same before and after has a file, and is late.
func TestAttributeDoubt(t *testing.T) {
	spaces := space.New()
	const page = 0x1000
	stays, goes := elf("/lib/stays", page, 2*page, 0), elf("/lib/goes", 3*page, 4*page, 0)
	other, comes := elf("/lib/other", 3*page, 4*page, 0), elf("/lib/comes", 5*page, 6*page, 0)
	spaces.Map(1, stays, 1000)
	spaces.Map(1, goes, 1000)
	spaces.Map(1, other, 70_000)
	spaces.Map(1, comes, 70_000)
	spaces.Map(2, stays, 1000)
	spaces.Exit(2, 60_000)
	spaces.Fork(1, 5, 61_000) // when the history is complete again
	spaces.Exec(5, "new", 62_000)
	spaces.MapExact(5, elf("/bin/new", page, 2*page, 0), 62_000)
	spaces.Fork(5, 9, 63_000)
	spaces.Exit(5, 68_000)
	spaces.Fork(1, 7, 61_000) // of a process that is unknown by then
	spaces.Fork(7, 8, 62_000)
	spaces.Map(11, stays, 1000)
	spaces.Exec(11, "again", 66_000) // and another program before, perhaps
	spaces.Map(11, stays, 66_000)
	vdso := func(start uint64) *procmap.Mapping {
		return &procmap.Mapping{Start: start, End: start + page, Perms: procmap.Read | procmap.Exec, Name: "[vdso]", Kind: procmap.VDSO}
	}
	spaces.Map(12, stays, 1000) // executed itself, on a CPU of which nothing is known
	spaces.Map(12, vdso(0x7fff_0000_1000), 1000)
	spaces.Unmap(12, 0x7fff_0000_1000, 0x7fff_0000_2000, 70_000)
	spaces.Map(12, vdso(0x7fff_0000_5000), 70_000)
	spaces.Map(13, stays, 1000)
	spaces.Map(13, vdso(0x7fff_0000_1000), 1000)
	spaces.Map(14, stays, 1000) // at no random place: its vDSO is there in every program
	spaces.Map(14, vdso(0x7fff_f7fc_1000), 1000)
	spaces.Fork(77, 10, 62_000)
	spaces.Map(10, stays, 63_000)
	spaces.Fork(1, 6, 59_000)
	spaces.Exec(6, "old", 59_000)
	spaces.MapExact(6, elf("/bin/old", page, 2*page, 0), 59_000)
	threads := someThreads{before: map[int]int{1: 1, 2: 2, 3: 1, 4: 1, 5: 5, 6: 6, 7: 7, 8: 8, 9: 9, 10: 10, 11: 11, 12: 12, 13: 13, 14: 14}, after: map[int]int{1: 1, 3: 9, 11: 11, 12: 12, 13: 13, 14: 14}}
	j := New(Options{Spaces: spaces, Threads: threads, Stamp: TextStamp(), Doubtful: func(at tracefs.Time) (missed, until tracefs.Time, doubtful bool) {
		switch {
		case at >= 90_000:
			return 91_000, space.Forever, true
		case at >= 50_000 && at < 75_000:
			return 60_000, 75_000, true
		}
		return 0, 0, false
	}})
	for _, test := range []struct {
		tid  int32
		time tracefs.Time
		addr uint64
		want string
	}{
		{1, 49_000, page, "/lib/stays+0x0 verified"},
		{1, 49_000, 3 * page, "/lib/goes+0x0 verified"},
		{1, 55_000, page, "/lib/stays+0x0 late"},
		{1, 55_000, 3 * page, "lost"}, // another one since
		{1, 55_000, 5 * page, "lost"}, // not there before
		{1, 55_000, 7 * page, "lost"}, // nowhere
		{2, 55_000, page, "lost"},     // the process has ended
		{3, 55_000, page, "lost"},     // the thread is another one's
		{4, 55_000, page, "lost"},     // the thread has ended
		{1, 95_000, page, "lost"},     // not known yet
		{1, 80_000, 3 * page, "/lib/other+0x0 verified"},
		{5, 65_000, page, "/bin/new+0x0 verified"},
		{6, 65_000, page, "lost"},
		{7, 65_000, 3 * page, "lost"}, // as its parent may have been another one
		{8, 65_000, 3 * page, "lost"},
		{9, 65_000, page, "/bin/new+0x0 verified"},
		{10, 65_000, page, "lost"},
		{11, 55_000, page, "lost"}, // of the program that it became later
		{12, 55_000, page, "lost"},
		{13, 55_000, page, "/lib/stays+0x0 late"},
		{14, 55_000, page, "lost"},
		{11, 67_000, page, "/lib/stays+0x0 verified"},
		{1, 55_000, 1 << 63, "no-vma"},
	} {
		s := stack(test.tid, test.time, test.addr)
		j.Attribute(s)
		if got := said(&s.Attributions[0]); got != test.want {
			t.Errorf("thread %d at %d: %#x is %q, want %q", test.tid, test.time, test.addr, got, test.want)
		}
	}
}

// TestAttributeLost: nothing has a file of the time of which records of munmap and mremap are
// missing, and until all is known again only what stays and was not mapped anew. What came to
// light after a loss may not have been there before it.
func TestAttributeLost(t *testing.T) {
	spaces := space.New()
	const page = 0x1000
	stays, again, found := elf("/lib/stays", page, 2*page, 0), elf("/lib/again", 3*page, 4*page, 0), elf("/lib/found", 5*page, 6*page, 0)
	spaces.Map(1, stays, 1000)
	spaces.Map(1, again, 1000)
	spaces.MapExact(1, again, 65_000)
	spaces.Map(1, found, 76_000)
	spaces.Exec(2, "new", 61_000)
	spaces.MapExact(2, stays, 61_000)
	spaces.Map(3, stays, 1000)
	spaces.Exec(3, "new", 63_000)
	spaces.MapExact(3, stays, 63_000)
	threads := someThreads{before: map[int]int{1: 1, 2: 2, 3: 3}, after: map[int]int{1: 1, 2: 2, 3: 3}}
	lost := func(at tracefs.Time) (missed, until tracefs.Time, doubtful bool) {
		switch {
		case at >= 90_000:
			return 91_000, space.Forever, true
		case at >= 50_000 && at < 75_000:
			return 60_000, 75_000, true
		}
		return 0, 0, false
	}
	j := New(Options{Spaces: spaces, Threads: threads, Stamp: TextStamp(), Lost: lost,
		Unsure:  func(at tracefs.Time) bool { _, _, unsure := lost(at); return unsure },
		Missing: func(from, to tracefs.Time) bool { return from <= 60_000 && to >= 50_000 }})
	for _, test := range []struct {
		tid  int32
		time tracefs.Time
		addr uint64
		want string
	}{
		{1, 49_000, page, "/lib/stays+0x0 verified"},
		{1, 55_000, page, "lost"},
		{1, 62_000, page, "/lib/stays+0x0 late"},
		{1, 62_000, 3 * page, "lost"}, // it may have gone, and come again
		{1, 67_000, 3 * page, "/lib/again+0x0 late"},
		{1, 80_000, 3 * page, "/lib/again+0x0 verified"},
		{1, 49_000, 5 * page, "lost"}, // it may have come in the loss
		{1, 75_500, 5 * page, "/lib/found+0x0 late"},
		{1, 95_000, page, "lost"},                // not known yet
		{2, 62_000, page, "/lib/stays+0x0 late"}, // a program that began after the loss
		{3, 62_000, page, "lost"},                // of another program than after
	} {
		s := stack(test.tid, test.time, test.addr)
		j.Attribute(s)
		if got := said(&s.Attributions[0]); got != test.want {
			t.Errorf("thread %d at %d: %#x is %q, want %q", test.tid, test.time, test.addr, got, test.want)
		}
	}
}
