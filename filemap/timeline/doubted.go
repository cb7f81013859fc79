package timeline

import (
	"ustack/filemap/procmap"
	"ustack/filemap/proof"
	"ustack/filemap/resolve"
	"ustack/filemap/space"
	"ustack/tracefs"
)

// lost is the doubt about an address, if what d says is all but for lost records of munmap
// and mremap.
func (j *Attributor) lost(tid, pid int, sp *space.Space, t tracefs.Time, d doubt) doubt {
	missed, until, lost := j.doubt(j.opt.Lost, sp, t)
	if !lost {
		return d
	}
	d.soft, d.missing = !d.is, t-j.before < missed
	d.is, d.until = true, max(d.until, until)
	d.stays = j.stays(tid, pid, d.until)
	return d
}

// missedSince reports whether a place came to light after a time only when records were lost:
// it may not have been there yet.
func (j *Attributor) missedSince(p space.Place, t tracefs.Time) bool {
	from, since := t-j.before, p.Mapping.Since
	if !p.Late || since <= t {
		return false
	}
	return j.opt.Gap != nil && j.opt.Gap(from, since) || j.opt.Missing != nil && j.opt.Missing(from, since)
}

// doubted is address for a time of doubt: what the address was in counts if that was the
// same before and after, and nothing was mapped there meanwhile, as no record says what was
// in between. While a record of munmap or mremap may be missing, nothing counts: what they
// take away can come back. A process that has executed a program since was another one.
func (j *Attributor) doubted(sp *space.Space, addr uint64, t tracefs.Time, d doubt, o *resolve.Attribution) {
	v := &j.looked
	j.found = v
	j.find(v, sp, addr, t)
	after, ok := sp.Lookup(addr, d.until)
	if !d.stays || d.missing || !v.found() || v.place.Late || !ok || !same(v.place, after) ||
		after.Mapping.Exact && after.Mapping.Since > t+j.opt.Stamp.After || d.replaced(sp, t) {
		v.known.Time = proof.Doubted
	}
	*o = j.attribution(v)
}

// replaced reports whether a process has executed a program from a time to the end of the
// doubt. That may have gone unseen; but the vDSO is at another place then, unless nothing is
// at a random place.
func (d doubt) replaced(sp *space.Space, t tracefs.Time) bool {
	if d.soft || sp.Began(d.until) > t {
		return sp.Began(d.until) > t
	}
	was, now := vdso(sp.At(t)), vdso(sp.At(d.until))
	return was != now || isFixed(was)
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
