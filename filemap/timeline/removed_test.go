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
