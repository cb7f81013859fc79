package procmap

import "runtime"

const largestHuge = 16 << 30 // of arm64

// smallestHuge returns the size of the smallest huge pages.
func smallestHuge() uint64 {
	if runtime.GOARCH == "amd64" {
		return 2 << 20
	}
	return 64 << 10 // of arm64
}

// Huge returns up to how much memory a call about a size takes, if addrs are its addresses,
// combined by or: in memory of huge pages, sizes are rounded up to whole ones, and
// addresses are multiples of that (ksys_mmap_pgoff in mm/mmap.c, check_mremap_params in
// mm/mremap.c).
func Huge(addrs, size uint64) uint64 {
	unit := min(addrs&-addrs, largestHuge)
	if unit < smallestHuge() || size+unit-1 < size {
		return size
	}
	return (size + unit - 1) &^ (unit - 1)
}

// HugeMove returns up to how much memory mremap(2) takes of a size at an address, which it moves to
// another one. Of several mappings at once (since Linux 6.17) the last can be one of huge pages:
// its size is rounded up by itself (check_prep_vma in mm/mremap.c).
func HugeMove(from, to, size uint64) uint64 {
	end := from + size
	if size == 0 || end < from {
		return size
	}
	unit := uint64(largestHuge)
	if apart := from - to; apart != 0 {
		unit = min(apart&-apart, unit)
	}
	for ; unit >= smallestHuge(); unit /= 2 {
		if (end-1)&^(unit-1) < from {
			continue // none of this size begins there
		}
		return max((end+unit-1)&^(unit-1), end) - from
	}
	return size
}

// MayBeHuge reports whether a mapping can be of huge pages, by its addresses.
func MayBeHuge(start, end uint64) bool { return (start|end)%smallestHuge() == 0 }
