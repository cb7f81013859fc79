package timeline

import (
	"testing"

	"ustack/filemap/procmap"
	"ustack/filemap/space"
	"ustack/tracefs"
)

// TestRemoved: memory was removed between two times if the process had some at the address,
// and then none that is known.
func TestRemoved(t *testing.T) {
	spaces := space.New()
	j := New(Options{Spaces: spaces})
	jit := func(start, end uint64) *procmap.Mapping {
		return &procmap.Mapping{Start: start, End: end, Kind: procmap.Anonymous, Name: "[anon]", Perms: procmap.Read | procmap.Exec}
	}
	spaces.Exec(7, "jit", 10)
	spaces.MapExact(7, jit(0x1000, 0x2000), 20)
	spaces.MapExact(7, jit(0x5000, 0x6000), 20)
	spaces.MapExact(7, jit(0x1000, 0x2000), 25) // made writable, and executable again
	spaces.MapExact(7, jit(0x1000, 0x3000), 30) // it grows
	spaces.Unmap(7, 0x1000, 0x3000, 40)
	spaces.MapExact(7, jit(0x1000, 0x2000), 50)
	spaces.Unknown(7, 0x5000, 0x6000, 60)
	spaces.MapExact(7, jit(0x5000, 0x6000), 70)
	for _, c := range []struct {
		addr, from, to uint64
		want           bool
	}{
		{0x1800, 10, 39, false}, // it came, and grew
		{0x1800, 22, 39, false},
		{0x1800, 10, 45, true},
		{0x1800, 10, 55, true},
		{0x1800, 39, 55, true},
		{0x1800, 40, 55, false},
		{0x1800, 52, 55, false},
		{0x2800, 35, 55, true},
		{0x5800, 10, 75, true}, // it may have been
		{0x9000, 10, 75, false},
	} {
		if got := j.Removed(7, c.addr, tracefs.Time(c.from), tracefs.Time(c.to)); got != c.want {
			t.Errorf("%#x from %d to %d: %t, want %t", c.addr, c.from, c.to, got, c.want)
		}
	}
	if j.Removed(8, 0x1800, 10, 55) {
		t.Error("of a process that is not known")
	}
}

// TestRemovedOften: of a process that changes its code all the time, so much is looked at and no
// more, and what was not looked at may have been removed.
func TestRemovedOften(t *testing.T) {
	spaces := space.New()
	j := New(Options{Spaces: spaces})
	jit := &procmap.Mapping{Start: 0x1000, End: 0x2000, Kind: procmap.Anonymous, Name: "[anon]", Perms: procmap.Read | procmap.Exec}
	other := *jit
	other.Start, other.End = 0x8000, 0x9000
	spaces.Exec(7, "jit", 10)
	at := tracefs.Time(20)
	for range mostLooked + 2 {
		spaces.MapExact(7, &other, at)
		spaces.Unmap(7, 0x8000, 0x9000, at+1)
		at += 2
	}
	spaces.MapExact(7, jit, at)
	if j.Removed(7, 0x1800, at-100, at+5) {
		t.Error("memory that came was removed")
	}
	if !j.Removed(7, 0x1800, 10, at+5) {
		t.Error("all versions were looked at")
	}
}

// TestRemovedForgotten: memory was removed, and it is long ago.
func TestRemovedForgotten(t *testing.T) {
	spaces := space.New()
	j := New(Options{Spaces: spaces})
	jit := &procmap.Mapping{Start: 0x1000, End: 0x2000, Kind: procmap.Anonymous, Name: "[anon]", Perms: procmap.Read | procmap.Exec}
	other := *jit
	other.Start, other.End = 0x5000, 0x6000
	spaces.Exec(7, "jit", 10)
	spaces.MapExact(7, jit, 20)
	spaces.Unmap(7, 0x1000, 0x2000, 40)
	spaces.MapExact(7, jit, 50)
	spaces.MapExact(7, &other, 60)
	spaces.Unmap(7, 0x8000, 0x9000, 70)
	for _, when := range []string{"at once", "later"} {
		if !j.Removed(7, 0x1800, 30, 100) || !j.Removed(7, 0x1800, 10, 100) {
			t.Errorf("%s: it was not removed", when)
		}
		if j.Removed(7, 0x1800, 40, 100) || j.Removed(7, 0x5800, 10, 100) {
			t.Errorf("%s: it was removed", when)
		}
		spaces.Expire(80)
	}
}
