// Package auxv reads auxiliary vectors (man 3 getauxval), as /proc/PID/auxv has them.
package auxv

import "encoding/binary"

// pageSize is AT_PAGESZ (include/uapi/linux/auxvec.h), which each vector has.
const pageSize = 6

// Width returns how wide the words of a vector are, in bytes: 8 for a 64-bit program, 4 for a
// 32-bit one, 0 if it is none.
func Width(vector []byte) int {
	for _, width := range [...]int{8, 4} {
		if hasPageSize(vector, width) {
			return width
		}
	}
	return 0
}

// hasPageSize reports whether a vector of so wide words has a page size.
func hasPageSize(vector []byte, width int) bool {
	word := func(b []byte) uint64 {
		if width == 4 {
			return uint64(binary.NativeEndian.Uint32(b))
		}
		return binary.NativeEndian.Uint64(b)
	}
	for ; len(vector) >= 2*width; vector = vector[2*width:] {
		if word(vector) == pageSize {
			size := word(vector[width:])
			return size >= 4096 && size&(size-1) == 0 && size < 1<<20
		}
	}
	return false
}
