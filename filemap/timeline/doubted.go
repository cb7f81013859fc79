package timeline

import (
	"ustack/filemap"
	"ustack/filemap/procmap"
	"ustack/filemap/resolve"
	"ustack/filemap/space"
	"ustack/tracefs"
)

// doubted gives an address of a time of doubt its file if it was in the same place
// of the same file before and after: no record says what was in between. A process
// that has executed a program since was another one.
func (j *Judge) doubted(sp *space.Space, addr uint64, t, until tracefs.Time, stays bool, o *resolve.Outcome) {
	v, _ := j.find(sp, addr, t)
	after, ok := sp.Lookup(addr, until)
	if isUser(addr) && (!stays || !v.found || v.place.Late || !ok || !same(v.place, after) || replaced(sp, t, until)) {
		*o = resolve.Unnamed(filemap.Lost)
		return
	}
	*o = j.outcome(v, addr)
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
