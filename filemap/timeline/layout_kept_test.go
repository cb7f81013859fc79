package timeline

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"ustack/filemap/procmap"
	"ustack/filemap/space"
	"ustack/tracefs"
)

// libraries is a process that loads libraries at one of two places, and unloads them. Each has
// a page of code, one of data and one of .bss.
type libraries struct {
	spaces *space.Spaces
	mapped [2]string // what is there now
	was    [][2]string
	saved  []space.Reading
}

const (
	libraryPID  = 7
	libraryPage = 0x1000
)

func libraryAt(place int) uint64 { return uint64(place+1) * 0x100000 }

// change is what happens at a time.
func (l *libraries) change(rnd *rand.Rand, t tracefs.Time) {
	place := rnd.IntN(len(l.mapped))
	start := libraryAt(place)
	switch {
	case l.mapped[place] != "":
		l.spaces.Unmap(libraryPID, start, start+3*libraryPage, t)
		l.mapped[place] = ""
	default:
		l.mapped[place] = fmt.Sprint("/lib", rnd.IntN(3))
		l.spaces.Map(libraryPID, &procmap.Mapping{Start: start, End: start + libraryPage, Perms: procmap.Read | procmap.Exec, Inode: 3, Name: l.mapped[place]}, t)
	}
}

// read is what a reading of the process has now.
func (l *libraries) read(t tracefs.Time) space.Reading {
	r := space.Reading{At: t}
	for place, name := range l.mapped {
		if name == "" {
			continue
		}
		start := libraryAt(place)
		r.Mappings = append(r.Mappings,
			procmap.Mapping{Start: start, End: start + libraryPage, Perms: procmap.Read | procmap.Exec, Inode: 3, Name: name},
			procmap.Mapping{Start: start + libraryPage, End: start + 2*libraryPage, Offset: libraryPage, Perms: procmap.Read | procmap.Write, Inode: 3, Name: name},
			procmap.Mapping{Start: start + 2*libraryPage, End: start + 3*libraryPage, Perms: procmap.Read | procmap.Write, Kind: procmap.Anonymous})
	}
	return r
}

// TestSavedLayouts: by saved readings an address is in the data of the library that was there,
// or of none, whatever came to its place before and after.
func TestSavedLayouts(t *testing.T) {
	named := 0
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(seed, 3))
		l := &libraries{spaces: space.New()}
		l.spaces.Replace(&procmap.Process{PID: libraryPID}, 0)
		const moments, each = 40, 1000
		for i := range moments {
			if rnd.IntN(2) == 0 {
				l.change(rnd, tracefs.Time(i*each))
			}
			if rnd.IntN(3) == 0 {
				l.saved = append(l.saved, l.read(tracefs.Time(i*each+each/2)))
			}
			l.was = append(l.was, l.mapped)
		}
		j := New(Options{Spaces: l.spaces, Threads: oneThread{}})
		ls := NewLayouts(j, LayoutOptions{Saved: func(pid int) []space.Reading {
			if pid != libraryPID {
				return nil
			}
			return l.saved
		}})
		for i, was := range l.was {
			for place, want := range was {
				addr := libraryAt(place) + 2*libraryPage + 8 // in .bss
				got := ""
				if layout, _ := ls.Layout(libraryPID, tracefs.Time(i*each+each-1), addr); layout != nil {
					got = layout.Owner(addr).File.Path
					named++
				}
				if got != "" && got != want {
					t.Errorf("seed %d, moment %d: of %q, not %q", seed, i, got, want)
				}
			}
		}
	}
	if named < 1000 {
		t.Errorf("%d have a library", named)
	}
	t.Log(named)
}

// TestKeepLayouts: Keep gets a reading again when the data of a library has come or gone, and
// nothing that is not beside a library.
func TestKeepLayouts(t *testing.T) {
	l := &libraries{spaces: space.New(), mapped: [2]string{"/lib0", ""}}
	first := l.read(1)
	l.spaces.Replace(&procmap.Process{PID: libraryPID, Mappings: first.Mappings[:1]}, 0)
	var kept [][]procmap.Mapping
	ls := NewLayouts(New(Options{Spaces: l.spaces, Threads: oneThread{}}), LayoutOptions{Keep: func(pid int, list []procmap.Mapping, at tracefs.Time) {
		kept = append(kept, list)
	}})
	heap := procmap.Mapping{Start: 0x500000, End: 0x600000, Perms: procmap.Read | procmap.Write, Kind: procmap.Anonymous}
	for at, list := range [][]procmap.Mapping{append(first.Mappings[:3:3], heap), first.Mappings, first.Mappings[:2]} {
		if ls.made(libraryPID, list, tracefs.Time(at), tracefs.Time(at)) == nil {
			t.Fatalf("%v is no reading", list)
		}
	}
	if len(kept) != 2 || len(kept[0]) != 3 || len(kept[1]) != 2 {
		t.Errorf("%v are kept", kept)
	}
}
