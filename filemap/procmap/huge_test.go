package procmap

import "testing"

// TestHuge: a size goes up to the end of the largest huge page that can be there.
func TestHuge(t *testing.T) {
	unit := smallestHuge()
	for _, test := range []struct{ addrs, size, want uint64 }{
		{0, 4096, 4096}, {4096, 4096, 4096}, {unit - 4096, 4096, 4096}, {unit, 4096, unit}, {unit, unit, unit}, {3 * unit, unit + 1, 2 * unit},
		{4 * unit, 4096, 4 * unit}, {1 << 46, 4096, 16 << 30}, {unit, ^uint64(0), ^uint64(0)}, {unit | 4096, 4096, 4096},
	} {
		if got := Huge(test.addrs, test.size); got != test.want {
			t.Errorf("of %#x at %#x: %#x, want %#x", test.size, test.addrs, got, test.want)
		}
	}
	if MayBeHuge(unit, 2*unit+4096) || MayBeHuge(4096, 2*unit) || !MayBeHuge(unit, 3*unit) {
		t.Error("what may be of huge pages is wrong")
	}
}

// TestHugeMove: a size goes up to the end of the largest huge page that can be within, or begin there.
func TestHugeMove(t *testing.T) {
	unit := smallestHuge()
	for _, test := range []struct{ from, to, size, want uint64 }{
		{unit, 3 * unit, 4096, unit},                             // it begins with one
		{2*unit - 4096, 8*unit - 4096, 8192, 4096 + 2*unit},      // one of 2 units is last
		{2*unit - 4096, 8*unit - 4096, 4096, 4096},               // none begins within
		{unit - 4096, 4*unit - 4096, 8192, 4096 + unit},          // one of a unit is last
		{unit - 4096, 3*unit - 8192, 8192, 8192},                 // not at the same place in both
		{unit - 4096, 3*unit - 4096, unit + 8192, 4096 + 3*unit}, // one of 2 units is last
		{4096, 8192, 4096, 4096}, {unit, 3 * unit, 0, 0},         // no huge pages
		{unit, 3 * unit, ^uint64(0), ^uint64(0)},                      // refused
		{0x6200003ff000, 0x6200001ff000, 8192, 4096 + 2<<20},          // seen on amd64
		{0, 1 << 40, 4096, 16 << 30}, {1 << 40, 1 << 40, 1, 16 << 30}, // the largest
	} {
		if got := HugeMove(test.from, test.to, test.size); got != test.want && !(test.from == 0x6200003ff000 && unit != 2<<20) {
			t.Errorf("of %#x from %#x to %#x: %#x, want %#x", test.size, test.from, test.to, got, test.want)
		}
		if both := Huge(test.from|test.to, test.size); both > HugeMove(test.from, test.to, test.size) {
			t.Errorf("of %#x from %#x to %#x: less than for one mapping", test.size, test.from, test.to)
		}
	}
}
