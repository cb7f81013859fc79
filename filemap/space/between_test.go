package space

import (
	"testing"

	"ustack/filemap/procmap"
	"ustack/tracefs"
)

// TestBetween: each version that was in force between two times comes once, the newest
// first, also where they stand in a chain.
func TestBetween(t *testing.T) {
	s := New()
	const page = 0x1000
	for at := range tracefs.Time(4 * chunk) {
		start := page * (1 + uint64(at))
		s.Map(1, &procmap.Mapping{Start: start, End: start + page, Perms: procmap.Exec, Name: "/lib", Inode: 1}, 10*at+5)
		s.Unmap(1, start, start+page, 10*at+10)
	}
	sp := s.Space(1)
	all := sp.Versions()
	for _, c := range []struct{ from, to tracefs.Time }{{0, Forever - 1}, {12, 12}, {10, 30}, {95, 10 * 3 * chunk}, {0, 4}} {
		var want []tracefs.Time
		for i := len(all) - 1; i >= 0; i-- {
			if all[i].From <= c.to && all[i].To > c.from {
				want = append(want, all[i].From)
			}
		}
		var got []tracefs.Time
		for v := range sp.Between(c.from, c.to) {
			got = append(got, v.From)
		}
		if len(got) != len(want) {
			t.Errorf("%d to %d: %d versions, want %d", c.from, c.to, len(got), len(want))
			continue
		}
		for i := range got {
			if got[i] != want[i] {
				t.Errorf("%d to %d: version %d is from %d, want %d", c.from, c.to, i, got[i], want[i])
			}
		}
	}
	if len(all) < 3*chunk {
		t.Errorf("only %d versions: nothing stands in a chain", len(all))
	}
}
