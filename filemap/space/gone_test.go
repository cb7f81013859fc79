package space

import (
	"fmt"
	"math/rand"
	"testing"

	"ustack/filemap/procmap"
	"ustack/tracefs"
)

// jitAt returns memory with code and without a file.
func jitAt(start, end uint64) *procmap.Mapping {
	return &procmap.Mapping{Start: start, End: end, Kind: procmap.Anonymous, Name: "[anon]", Perms: procmap.Read | procmap.Exec}
}

// TestRemovedSince: when code was removed is known after what was there has been forgotten.
func TestRemovedSince(t *testing.T) {
	s := New()
	s.Exec(7, "jit", 10)
	s.MapExact(7, jitAt(0x1000, 0x3000), 20)
	s.MapExact(7, jitAt(0x5000, 0x6000), 20)
	s.MapExact(7, jitAt(0x8000, 0x9000), 20)
	data := jitAt(0xa000, 0xb000)
	data.Perms = procmap.Read | procmap.Write
	s.MapExact(7, data, 20)
	s.Unmap(7, 0x2000, 0x4000, 30)
	s.Unknown(7, 0x5000, 0x6000, 40)
	s.Unmap(7, 0xa000, 0xb000, 45)
	s.MapExact(7, jitAt(0x2000, 0x3000), 50)
	left := []procmap.Mapping{*jitAt(0x1000, 0x3000), *jitAt(0x8000, 0x8800)}
	s.Replace(&procmap.Process{PID: 7, Mappings: left, Stat: procmap.Stat{Comm: "jit"}}, 60)
	s.Fork(7, 8, 70)
	check := func(when string) {
		t.Helper()
		for _, c := range []struct {
			pid         int
			addr, since uint64
			want        bool
		}{
			{7, 0x1800, 10, false}, // it stayed
			{7, 0x2800, 10, true},  // and has come again
			{7, 0x2800, 30, false},
			{7, 0x3800, 10, false}, // there was none
			{7, 0x5800, 10, true},  // it may have been
			{7, 0x8400, 10, false}, // read again
			{7, 0x8800, 59, true},  // and not any more
			{7, 0xa800, 10, false}, // data
			{8, 0x2800, 10, false}, // of the parent, before
			{9, 0x2800, 10, false},
		} {
			if got := RemovedSince(s.Space(c.pid), c.addr, tracefs.Time(c.since)); got != c.want {
				t.Errorf("%s: of %d at %#x since %d: %t, want %t", when, c.pid, c.addr, c.since, got, c.want)
			}
		}
	}
	check("at once")
	s.Expire(80)
	check("when it is forgotten")
	s.Exec(7, "other", 90)
	if sp := s.Space(7); len(sp.gone) > 0 || RemovedSince(sp, 0x2800, 10) {
		t.Errorf("another program has %v", sp.gone)
	}
}

// TestRemovedData: code that is not executable any more when the process is read has stayed, and
// is noted when it goes. Data is not.
func TestRemovedData(t *testing.T) {
	data := func(start, end uint64) *procmap.Mapping {
		m := jitAt(start, end)
		m.Perms = procmap.Read | procmap.Write
		return m
	}
	s := New()
	s.Exec(7, "jit", 10)
	s.MapExact(7, jitAt(0x1000, 0x4000), 20)
	s.MapExact(7, jitAt(0x8000, 0x9000), 20)
	replace := func(t tracefs.Time, ms ...procmap.Mapping) {
		s.Replace(&procmap.Process{PID: 7, Mappings: ms, Stat: procmap.Stat{Comm: "jit"}}, t)
	}
	replace(30, *jitAt(0x1000, 0x2000), *data(0x2000, 0x6000), *data(0x8000, 0x9000), *data(0xa000, 0xb000))
	check := func(when string, addr, since uint64, want bool) {
		t.Helper()
		if got := RemovedSince(s.Space(7), addr, tracefs.Time(since)); got != want {
			t.Errorf("%s: at %#x since %d: %t, want %t", when, addr, since, got, want)
		}
	}
	for _, addr := range []uint64{0x1800, 0x2800, 0x4800, 0x8800, 0xa800} {
		check("read", addr, 0, false)
	}
	s.Unmap(7, 0x3000, 0x6000, 40)
	s.Unmap(7, 0xa000, 0xb000, 40)
	replace(50, *jitAt(0x1000, 0x2000), *data(0x2000, 0x3000))
	s.MapExact(7, jitAt(0x1000, 0x9000), 60)
	s.Expire(70)
	for _, c := range []struct {
		addr, since uint64
		want        bool
	}{
		{0x1800, 0, false}, // code all the time
		{0x2800, 0, false}, // it has stayed
		{0x3800, 39, true},
		{0x3800, 40, false},
		{0x4800, 0, false}, // data
		{0x8800, 49, true}, // which the second reading has not found
		{0x8800, 50, false},
		{0xa800, 0, false},
	} {
		check("later", c.addr, c.since, c.want)
	}
}

// TestGoneBound: of a process that removes code in many places so many are known, and what lies
// between some counts as removed. None is missed.
func TestGoneBound(t *testing.T) {
	random := rand.New(rand.NewSource(1))
	for _, most := range []int{100, 10_000} { // pages
		t.Run(fmt.Sprint(most), func(t *testing.T) {
			var g gone
			last := make(map[uint64]tracefs.Time)
			for now := tracefs.Time(1); now < 5000; now++ {
				start := uint64(random.Intn(most))
				end := start + 1 + uint64(random.Intn(3))
				g = g.with(removal{addresses{start, end}, now})
				for page := start; page < end; page++ {
					last[page] = now
				}
			}
			if len(g) > maxGone {
				t.Fatalf("%d removals", len(g))
			}
			sp, more := &Space{gone: g}, 0
			for page := range uint64(most + 3) {
				for _, since := range []tracefs.Time{0, max(last[page]-1, 0), last[page], last[page] + 1} {
					got, want := RemovedSince(sp, page, since), last[page] > since
					if want && !got || got && !want && most <= maxGone {
						t.Fatalf("page %d since %d: %t, want %t", page, since, got, want)
					}
					if got != want {
						more++
					}
				}
			}
			t.Logf("%d removals, %d too many", len(g), more)
			if one := (&Space{gone: g.one()}); !RemovedSince(one, 1, 4998) || RemovedSince(one, 1, 4999) {
				t.Errorf("all as one: %v", one.gone)
			}
		})
	}
}

// TestGoneMemory: removals count for the memory of the history, and are fewer before processes
// are forgotten.
func TestGoneMemory(t *testing.T) {
	s := New()
	for i := range uint64(10) {
		s.MapExact(7, jitAt(i<<16, i<<16+0x1000), 20)
		s.Unmap(7, i<<16, i<<16+0x1000, 30)
	}
	_, before := s.count(nil)
	s.budget.limit = before - removalBytes
	s.census()
	if _, after := s.count(nil); len(s.Space(7).gone) != 1 || before-after < 9*removalBytes {
		t.Errorf("%d removals, %d bytes, before %d", len(s.Space(7).gone), after, before)
	}
}
