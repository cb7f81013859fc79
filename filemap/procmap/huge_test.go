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
