package timeline

import (
	"ustack/filemap/space"
	"ustack/tracefs"
)

// mostLooked bounds how many versions of an address space are looked at for a frame: a program
// can change its code all the time.
const mostLooked = 512

// Removed reports whether memory that a process had at an address went away between two times,
// or may have, as far as was seen: it was unmapped, or moved, or other memory was moved there.
// Memory whose permissions are changed stays.
func (j *Attributor) Removed(pid int, addr uint64, from, to tracefs.Time) bool {
	sp := j.opt.Spaces.Space(pid)
	if m := sp.At(to).Find(addr); m != nil && m.Since <= from {
		return false
	}
	gone, n, known := false, 0, space.Forever // later
	for v := range sp.Between(from, to) {
		if n++; n > mostLooked {
			return true
		}
		m := v.Find(addr)
		if m != nil && gone {
			return true
		}
		// What came since a version began is in it, too.
		gone = gone || (m == nil || m.Exact && m.Since > v.From) && !v.Partial
		known = v.From
	}
	return from < known && space.RemovedSince(sp, addr, from) // the versions of then may be forgotten
}
