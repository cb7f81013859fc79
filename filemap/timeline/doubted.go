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
// may have gone unseen; but the vDSO is at another place then.
func replaced(sp *space.Space, t, until tracefs.Time) bool {
	return sp.Began(until) > t || vdso(sp.At(t)) != vdso(sp.At(until))
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
