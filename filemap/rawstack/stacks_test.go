package rawstack

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"ustack/tracefs"
)

// words is what Between gives, in words.
func words(s *Stacks, tid int, from, to tracefs.Time, most int) string {
	text := ""
	for _, st := range s.Between(nil, tid, from, to, most) {
		text += fmt.Sprintf("%d:%x ", st.Time, st.Addrs)
	}
	return text
}

func TestBetween(t *testing.T) {
	s := New(0)
	for _, at := range []tracefs.Time{10, 30, 20, 40} { // CPUs are read one after the other
		s.Add(1, at, []uint64{uint64(at), 7})
	}
	s.Add(2, 25, []uint64{1})
	for _, c := range []struct {
		tid      int
		from, to tracefs.Time
		most     int
		want     string
	}{
		{1, 10, 40, 9, "40:[28 7] 30:[1e 7] 20:[14 7] 10:[a 7] "},
		{1, 11, 39, 9, "30:[1e 7] 20:[14 7] "},
		{1, 0, 39, 1, "30:[1e 7] "},
		{1, 41, 99, 9, ""}, {1, 0, 9, 9, ""}, {3, 0, 99, 9, ""},
		{2, 25, 25, 9, "25:[1] "},
	} {
		if got := words(s, c.tid, c.from, c.to, c.most); got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
	s.Expire(35)
	if got := words(s, 1, 0, 99, 9) + words(s, 2, 0, 99, 9); got != "40:[28 7] 25:[1] " {
		t.Errorf("expired: %q", got)
	}
}

// TestMissing against a list of all gaps.
func TestMissing(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		s, gaps := New(0), [][2]tracefs.Time(nil)
		at := tracefs.Time(0)
		for range 5 {
			at += tracefs.Time(rnd.IntN(10))
			from := max(0, at-tracefs.Time(rnd.IntN(8)))
			gaps = append(gaps, [2]tracefs.Time{from, at})
			s.Lose(1, from, at)
		}
		for range 20 {
			from := tracefs.Time(rnd.IntN(50))
			to := from + tracefs.Time(rnd.IntN(5))
			want := slices.ContainsFunc(gaps, func(g [2]tracefs.Time) bool { return g[0] <= to && from <= g[1] })
			if got := s.Missing(from, to); got != want {
				t.Fatalf("%v: from %d to %d: %v", gaps, from, to, got)
			}
		}
	}
}

// TestBound: however many stacks come, what is kept is bounded.
func TestBound(t *testing.T) {
	const most = 100
	s := New(most)
	for i := range 10_000 {
		s.Add(i%7, tracefs.Time(i), []uint64{uint64(i)})
		if i%1000 == 0 {
			s.Reached(tracefs.Time(i))
		}
	}
	n := 0
	for tid := range 7 {
		n += len(s.Between(nil, tid, 0, 1<<40, 1<<20))
	}
	if n > most || len(s.known) > maxKnown || s.Counts().Kept != 10_000 || s.Counts().Dropped == 0 {
		t.Errorf("%d stacks are kept, %+v", n, s.Counts())
	}
	if got := words(s, 9999%7, 9999, 9999, 1); got != "9999:[270f] " {
		t.Errorf("the last one: %q", got)
	}
}
