package timeline

import (
	"ustack/filemap/procmap"
	"ustack/filemap/proof"
	"ustack/filemap/resolve"
	"ustack/filemap/space"
	"ustack/tracefs"
)

// doubted is address for a time of doubt: what the address was in counts if that was the
// same before and after, as no record says what was in between. A process that has
// executed a program since was another one.
func (j *Attributor) doubted(sp *space.Space, addr uint64, t tracefs.Time, d doubt, o *resolve.Attribution) {
	v := &j.looked
	j.found = v
	j.find(v, sp, addr, t)
	after, ok := sp.Lookup(addr, d.until)
	if !d.stays || !v.found() || v.place.Late || !ok || !same(v.place, after) || replaced(sp, t, d.until) {
		v.known.Time = proof.Doubted
	}
	*o = j.attribution(v)
}

// replaced reports whether a process has executed a program between two times. That
// may have gone unseen; but the vDSO is at another place then, unless nothing is at a
// random place.
func replaced(sp *space.Space, t, until tracefs.Time) bool {
	was, now := vdso(sp.At(t)), vdso(sp.At(until))
	return sp.Began(until) > t || was != now || isFixed(was)
}

// isFixed reports whether the vDSO is where it is in programs whose memory is at no random
// places (ADDR_NO_RANDOMIZE): right below the gap for the stack, which is 128 MiB at least
// (MIN_GAP in mm/util.c and arch/x86/mm/mmap.c). Of random places one in thousands is there.
func isFixed(vdso uint64) bool {
	const gap, libraries = 128 << 20, 16 << 20
	for _, top := range []uint64{1 << 32, 1 << 47, 1 << 48} {
		if vdso < top && top-vdso <= gap+libraries {
			return true
		}
	}
	return false
}

// vdso is where the vDSO is, 0 if unknown.
func vdso(v *space.Version) uint64 {
	if v == nil {
		return 0
	}
	for m := range v.Mappings.All() {
		if m.File.Kind == procmap.VDSO {
			return m.Start
		}
	}
	return 0
}
