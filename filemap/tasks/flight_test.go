package tasks

import (
	"testing"

	"golang.org/x/sys/unix"
)

// TestHugeFlights: of huge pages a call takes whole ones, whatever its length.
func TestHugeFlights(t *testing.T) {
	const at, to, page, rx = 1 << 40, 3 << 40, 4096, unix.PROT_READ | unix.PROT_EXEC
	const beside = 1 << 20 // in the same huge page
	for name, test := range map[string]struct {
		e     Event
		takes []uint64
		not   []uint64
	}{
		"file":      {Event{Kind: Map, Args: [5]uint64{at, page, rx, unix.MAP_FIXED}}, []uint64{at, at + beside}, nil},
		"huge":      {Event{Kind: Map, Args: [5]uint64{at, page, rx, unix.MAP_FIXED | unix.MAP_ANON | unix.MAP_HUGETLB}}, []uint64{at, at + beside}, nil},
		"anonymous": {Event{Kind: Map, Args: [5]uint64{at, page, rx, unix.MAP_FIXED | unix.MAP_ANON}}, []uint64{at}, []uint64{at + beside}},
		"move":      {Event{Kind: Move, Args: [5]uint64{at, page, page, 3, to}}, []uint64{at, at + beside, to, to + beside}, nil},
		"last":      {Event{Kind: Move, Args: [5]uint64{at - page, 2 * page, 2 * page, 3, to - page}}, []uint64{at - page, at + beside, to - page, to + beside}, nil},
		"aside":     {Event{Kind: Move, Args: [5]uint64{at + page, page, page, 3, to}}, []uint64{at + page, to}, []uint64{at + beside, to + beside}},
	} {
		f := newFlight(&test.e)
		for _, addr := range test.takes {
			if !f.overlaps(span{addr, addr + 1}) {
				t.Errorf("%s does not take %#x", name, addr)
			}
		}
		for _, addr := range test.not {
			if f.overlaps(span{addr, addr + 1}) {
				t.Errorf("%s takes %#x", name, addr)
			}
		}
	}
}
