package timeline

import (
	"testing"

	"ustack/filemap"
)

// TestRawReplaced: the kernel unwinds a stack when its thread returns. What came to the place
// after the event is not the event's, whatever its offset is.
func TestRawReplaced(t *testing.T) {
	w := newWorld(nil)
	w.spaces.MapExact(1, elf("/lib/main", 0x400000, 0x410000, 0x1000), 1000)
	w.spaces.MapExact(1, elf("/lib/one", 0x100000, 0x101000, 0x1000), 1000)
	two := &filemap.File{Path: "/lib/two"}
	w.stacks.Add(1, 5100, []uint64{0x100234, 0x400678})
	w.spaces.MapExact(1, elf("/lib/two", 0x100000, 0x101000, 0x5000), 7000)
	w.is(t, "another offset", owning(deferred(1, 5000, 9000, two, number{0x5234, hash(1)}, number{0x1678, hash(2)})),
		"ambiguous", "/lib/main+0x1678 verified")
	w.is(t, "no raw stack", owning(deferred(1, 6000, 9000, two, number{0x5234, hash(1)})), "ambiguous")
	w.is(t, "asked for later", owning(deferred(1, 8000, 9000, two, number{0x5234, hash(1)})), "/lib/two+0x0 verified")
	w.spaces.MapExact(1, elf("/lib/two", 0x100000, 0x101000, 0x5000), 12_000) // as mprotect reports it
	w.is(t, "the same", owning(deferred(1, 11_000, 13_000, two, number{0x5234, hash(1)})), "/lib/two+0x0 verified")
}
