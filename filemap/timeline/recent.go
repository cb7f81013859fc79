package timeline

import (
	"ustack/filemap/resolve"
	"ustack/filemap/space"
	"ustack/tracefs"
)

// recent remembers what addresses were. A Space never changes, so what was
// found in one holds for the time for which it was found.
type recent struct {
	slots [1 << recentBits]entry
}

const recentBits = 12

type entry struct {
	space *space.Space
	addr  uint64
	stretch
	attribution resolve.Attribution
	verdict     verdict
}

// slot is where the answer for an address is kept.
func (r *recent) slot(pid int, addr uint64) *entry {
	const prime = 0x9e3779b97f4a7c15
	key := (addr ^ uint64(pid)<<40) * prime
	return &r.slots[key>>(64-recentBits)]
}

// is reports whether the entry is the answer from a time to another one.
func (e *entry) is(sp *space.Space, addr uint64, from, to tracefs.Time) bool {
	return e.space == sp && e.addr == addr && e.has(from, to)
}
