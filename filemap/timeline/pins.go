package timeline

import (
	"ustack/filemap"
	"ustack/filemap/proof"
	"ustack/filemap/space"
	"ustack/tracefs"
)

// place is a mapping of a process from when it came to light until it goes away:
// it has one open file all that time.
type place struct {
	pid   int
	addr  uint64 // an address in it
	since tracefs.Time
	file  *space.File
}

// placeOf is the place of a mapping.
func placeOf(pid int, m *space.Mapping) place { return place{pid, m.Start, m.Since, m.File} }

// places are what is known of places.
type places struct{ *Attributor }

// There implements proof.Mappings. The place may have gone away and come back
// unseen.
func (j places) There(p place, t tracefs.Time) bool {
	return p.since <= t && p.in(j.opt.Spaces.Space(p.pid), t)
}

// Same implements proof.Mappings.
func (j places) Same(a, b place) bool { return a.file == b.file }

// Called implements proof.Mappings.
func (j places) Called(p place, f *filemap.File) bool { return isFile(p.file, f) }

// Stays implements proof.Mappings.
func (j places) Stays(p place, from, to tracefs.Time) proof.Stay {
	sp := j.opt.Spaces.Space(p.pid)
	gap := j.opt.Gap != nil && j.opt.Gap(from, to)
	if !gap && p.since <= from && p.isProgram(sp, to) {
		return proof.Stayed
	}
	switch {
	case p.in(sp, from) && p.in(sp, to):
	case j.space != nil && p.since <= from && p.in(j.space, to):
		// A copy of it, which a fork has made: it came to light at the same time.
	default:
		return proof.Gone
	}
	if j.opt.Late {
		return j.polled(p, gap)
	}
	if gap || j.opt.Unseen == nil || j.opt.Unseen(from, to) {
		return proof.Assumed
	}
	return proof.Stayed
}

// polled is the Stay of a place in a process whose mappings are read: since
// anything was mapped in it last, it has been there. Something may have been
// unmapped meanwhile.
func (j *Attributor) polled(p place, gap bool) proof.Stay {
	if gap || j.unsure || j.space == nil || p.pid != j.space.PID {
		return proof.Assumed
	}
	return proof.Stayed
}

// isProgram reports whether the place is of the program itself that the process
// runs at a time. The kernel maps it first, and keeps it open for as long as the
// process runs it, mapped or not (mm->exe_file, set_mm_exe_file in fs/exec.c).
func (p place) isProgram(sp *space.Space, t tracefs.Time) bool {
	first := sp.Program(t)
	return first != nil && placeOf(sp.PID, first) == p
}

// in reports whether the place is there at a time, as far as is known.
func (p place) in(sp *space.Space, t tracefs.Time) bool {
	v := sp.At(t)
	if v == nil {
		return false
	}
	m := v.Find(p.addr)
	return m != nil && m.File == p.file && m.Since == p.since && sp.Began(t) <= max(p.since, t) && m.Since <= t
}
