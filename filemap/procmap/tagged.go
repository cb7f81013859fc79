package procmap

import "runtime"

// Untagged returns an address as munmap, mprotect, madvise and mremap (its old address) take
// it: without a tag (untagged_addr in arch/*/include/asm/uaccess.h). Other calls refuse
// addresses with tags.
func Untagged(addr uint64) uint64 { return untagged(runtime.GOARCH, addr) }

// untagged strips what a tag can be at most: the top byte on arm64, whether or not the
// process has asked for tagged addresses (prctl(2), PR_SET_TAGGED_ADDR_CTRL), and bits 57
// to 62 on x86-64 (linear address masking).
func untagged(machine string, addr uint64) uint64 {
	const (
		arm, armUser = 0xff << 56, 1 << 55
		x86, x86User = 0x3f << 57, 1 << 63
	)
	switch {
	case machine == "arm64" && addr&armUser == 0:
		return addr &^ arm
	case machine == "amd64" && addr&x86User == 0:
		return addr &^ x86
	}
	return addr
}
