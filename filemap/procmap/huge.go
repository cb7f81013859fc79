package procmap

import "runtime"

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
	const largest = 16 << 30 // of arm64
	unit := min(addrs&-addrs, largest)
	if unit < smallestHuge() || size+unit-1 < size {
		return size
	}
	return (size + unit - 1) &^ (unit - 1)
}

// MayBeHuge reports whether a mapping can be of huge pages, by its addresses.
func MayBeHuge(start, end uint64) bool { return (start|end)%smallestHuge() == 0 }
