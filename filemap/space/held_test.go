package space

import (
	"testing"

	"ustack/filemap/procmap"
	"ustack/tracefs"
)

// held is a mapping of code.
func held(name string, start, end, offset uint64) procmap.Mapping {
	return procmap.Mapping{Start: start, End: end, Offset: offset, Name: name, Inode: 7, Perms: procmap.Read | procmap.Exec, Dev: procmap.Dev{Major: 8}}
}

// at is what a process had at an address at a time: a file, "" for nothing, "?" for unknown.
func heldAt(s *Spaces, pid int, addr uint64, t tracefs.Time) string {
	sp := s.Space(pid)
	switch p, ok := sp.Lookup(addr, t); {
	case ok && sp.At(t).Knows(addr):
		return p.Mapping.File.Name
	case !sp.At(t).Knows(addr):
		return "?"
	}
	return ""
}

func wantHeld(t *testing.T, s *Spaces, what string, pid int, addr uint64, want map[tracefs.Time]string) {
	t.Helper()
	for at, name := range want {
		if got := heldAt(s, pid, addr, at); got != name {
			t.Errorf("%s: %#x at %d is %q, want %q", what, addr, at, got, name)
		}
	}
}

// TestHeld: what a process is found to have holds from the time that is given, in all versions
// since, and nothing is said of times before or of addresses outside.
func TestHeld(t *testing.T) {
	s := New()
	s.Held(1, 0x1000, 0x5000, []procmap.Mapping{held("/a", 0x2000, 0x4000, 0x100)}, 100)
	wantHeld(t, s, "first", 1, 0x2010, map[tracefs.Time]string{50: "?", 100: "/a", 900: "/a"})
	wantHeld(t, s, "nothing", 1, 0x1010, map[tracefs.Time]string{100: "", 900: ""})
	wantHeld(t, s, "outside", 1, 0x8010, map[tracefs.Time]string{100: "?", 900: "?"})
	if p, _ := s.Space(1).Lookup(0x2010, 200); p.Offset != 0x110 || p.Late {
		t.Errorf("%+v", p)
	}

	s.Unknown(1, 0x2000, 0x3000, 300)
	s.Unknown(1, 0x3000, 0x4000, 350) // another version
	s.Held(1, 0x2000, 0x3000, []procmap.Mapping{held("/b", 0x1000, 0x9000, 0)}, 320)
	wantHeld(t, s, "again", 1, 0x2010, map[tracefs.Time]string{299: "/a", 310: "?", 320: "/b", 360: "/b", 900: "/b"})
	wantHeld(t, s, "the other half", 1, 0x3010, map[tracefs.Time]string{299: "/a", 340: "/a", 350: "?", 900: "?"})
	if p, _ := s.Space(1).Lookup(0x2010, 400); p.Mapping.Start != 0x2000 || p.Mapping.End != 0x3000 || p.Offset != 0x1010 {
		t.Errorf("a part: %+v", p.Mapping)
	}
	before := s.Space(1)
	if s.Held(1, 0x2000, 0x3000, []procmap.Mapping{held("/b", 0x1000, 0x9000, 0)}, 500); s.Space(1) != before {
		t.Error("what is known has changed something")
	}
}

// TestHeldProgram: what is found is of the program that runs now, not of one before it, nor of
// a process that had the same number.
func TestHeldProgram(t *testing.T) {
	s := New()
	s.Held(1, 0x1000, 0x5000, []procmap.Mapping{held("/a", 0x2000, 0x4000, 0)}, 100)
	s.Exec(1, "", 200)
	s.Unknown(1, 0, ^uint64(0), 200)
	s.Held(1, 0, ^uint64(0), []procmap.Mapping{held("/b", 0x2000, 0x4000, 0)}, 50)
	wantHeld(t, s, "executed", 1, 0x2010, map[tracefs.Time]string{199: "/a", 200: "/b"})
	s.Exit(1, 300)
	s.Fork(9, 1, 400)
	s.Unknown(1, 0, ^uint64(0), 400)
	s.Held(1, 0, ^uint64(0), []procmap.Mapping{held("/c", 0x2000, 0x4000, 0)}, 250)
	wantHeld(t, s, "another process", 1, 0x2010, map[tracefs.Time]string{299: "/b", 350: "?", 400: "/c"})
}

// TestLose: from a time on nothing is known, whatever was noted since, until it is found again.
func TestLose(t *testing.T) {
	s := New()
	s.Held(1, 0, ^uint64(0), []procmap.Mapping{held("/a", 0x2000, 0x4000, 0)}, 100)
	s.Unknown(1, 0x3000, 0x4000, 300)
	s.Exec(1, "", 400)
	s.Lose(1, 200)
	wantHeld(t, s, "lost", 1, 0x2010, map[tracefs.Time]string{199: "/a", 200: "?", 350: "?", 500: "?"})
	s.Held(1, 0, ^uint64(0), []procmap.Mapping{held("/b", 0x2000, 0x4000, 0)}, 600)
	wantHeld(t, s, "found", 1, 0x2010, map[tracefs.Time]string{199: "/a", 599: "?", 600: "/b"})
	s.Lose(2, 100)
	if s.Space(2) != nil {
		t.Error("it knows a process that it has not seen")
	}
}

// TestResumed: a process has what it had when a call that made it unknown has failed, unless
// something has changed meanwhile.
func TestResumed(t *testing.T) {
	s := New()
	s.Held(1, 0, ^uint64(0), []procmap.Mapping{held("/a", 0x2000, 0x4000, 0)}, 100)
	s.Lose(1, 200)
	s.Resumed(1, 250)
	wantHeld(t, s, "another time", 1, 0x2010, map[tracefs.Time]string{199: "/a", 200: "?"})
	s.Resumed(1, 200)
	wantHeld(t, s, "resumed", 1, 0x2010, map[tracefs.Time]string{199: "/a", 200: "/a", 900: "/a"})
	s.Lose(1, 300)
	s.Exec(1, "", 400)
	s.Unknown(1, 0, ^uint64(0), 400)
	s.Resumed(1, 300)
	wantHeld(t, s, "executed", 1, 0x2010, map[tracefs.Time]string{299: "/a", 300: "?", 400: "?"})
}

// TestHeldMany: a process that changes all the time has a long history, the older part of
// which stays as it is.
func TestHeldMany(t *testing.T) {
	s := New()
	s.Held(1, 0, ^uint64(0), []procmap.Mapping{held("/a", 0x2000, 0x4000, 0)}, 1)
	for i := tracefs.Time(1); i < 1000; i++ {
		s.Unknown(1, 0x2000, 0x4000, 10*i)
		s.Held(1, 0x2000, 0x4000, []procmap.Mapping{held(string(rune('a'+i%7)), 0x2000, 0x4000, 0)}, 10*i+5)
	}
	for i := tracefs.Time(1); i < 1000; i++ {
		wantHeld(t, s, "then", 1, 0x2010, map[tracefs.Time]string{10*i + 2: "?", 10*i + 7: string(rune('a' + i%7))})
	}
	s.Unknown(1, 0x2000, 0x4000, 20_000)
	s.Held(1, 0x2000, 0x4000, []procmap.Mapping{held("/late", 0x2000, 0x4000, 0)}, 17) // far before all that can be changed
	wantHeld(t, s, "far before", 1, 0x2010, map[tracefs.Time]string{22: "?", 27: "c", 30_000: "/late"})
}
