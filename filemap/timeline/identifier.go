package timeline

import (
	"strings"

	"ustack/filemap"
	"ustack/filemap/proof"
	"ustack/filemap/resolve"
	"ustack/filemap/space"
	"ustack/tracefs"
)

// identifier gives a frame with an identifier the attribution that proof.Decide decides
// on by what is known of the process at that time. The side band reports code only:
// what a process has not mapped as code can still be mapped as data, so exclusion
// proves nothing here.
func (j *Attributor) identifier(pid int, sp *space.Space, f *tracefs.Frame, raw uint64, s *resolve.Query, d doubt, why *proof.Steps, o *resolve.Attribution) {
	switch {
	case f.ID.NoVMA():
		return
	case f.ID.NoFile():
		j.anonCode(sp, f.Address(s.Text), s.Time, o)
		return
	}
	t := s.Time + j.opt.Stamp.After
	q := &j.query
	*q = query{j: j, id: f.ID, pid: pid, t: t, begin: s.Time - j.before, raw: raw, offset: f.Address(s.Text), space: sp, doubt: d, why: why, said: *o}
	v := sp.At(t)
	if v == nil { // it ended within the precision of the time stamp
		v = sp.At(q.begin)
	}
	if v != nil && v.Mappings.Len() > 0 {
		q.v, q.fits = v, j.codes.of(pid, v.Mappings).holding(q.offset, t)
	}
	switch v := proof.Decide(q, q.id.IsInode()); v.Act {
	case proof.Name:
		q.learn(v.By)
		if q.came(s) {
			*o = resolve.Unnamed(filemap.Ambiguous)
			return
		}
		*o = resolve.Named(q.named(v.By), v.Trust)
	case proof.Drop:
		*o = resolve.Unnamed(v.Reason)
	}
}

// came reports whether what the frame is in was mapped after the event, before the kernel has
// unwound the stack: what the process had there at the event is not known to be that.
func (q *query) came(s *resolve.Query) bool {
	m := q.in
	if m == nil || !m.Exact {
		return false
	}
	addr := m.Start + (q.offset - m.Offset)
	return q.j.opt.Stamp.differs(q.space, addr, &space.Place{Mapping: m, Offset: q.offset}, s)
}

// named is the file of the statement that decides. What the kernel said of this
// very mapping has the build ID if nothing else has.
func (q *query) named(by proof.Statement) *filemap.File {
	if by == proof.Carried && q.heard != nil {
		return q.heard
	}
	file := q.j.files.of(q.file)
	if by == proof.Looked && (!file.HasID || file.BuildID.IsZero()) {
		return q.said.File
	}
	return file
}

// learn notes that the mapping which the frame lies in carries the identifier.
func (q *query) learn(by proof.Statement) {
	switch {
	case q.in == nil:
	case by == proof.Numbered, (by == proof.Looked || by == proof.Carried) && q.only && !q.j.alien:
		q.j.pins.Add(q.id, placeOf(q.pid, q.in), q.t)
	}
}

// anonCode is the attribution of a frame in memory without a file. The kernel gives the
// address of anonymous memory, and the offset in the vDSO.
func (j *Attributor) anonCode(sp *space.Space, addr uint64, t tracefs.Time, o *resolve.Attribution) {
	if p, ok := sp.Lookup(addr, t+j.opt.Stamp.After); ok && !p.Mapping.File.Kind.HasFile() {
		o.Memory = j.files.memory(p.Mapping)
	}
}

// announced is a file that the kernel announced for an identifier.
type announced struct {
	file *filemap.File
	// number is of the inode, zero if the identifier is a hash.
	number fileNumber
}

// announcedAs returns the announced file of an identifier.
func announcedAs(file *filemap.File, id tracefs.Identifier) announced {
	a := announced{file: file}
	if id.IsInode() {
		a.number = numberIn(id)
	}
	return a
}

// canBe reports whether a mapped file can be the announced one: it has that name, and
// no other build ID or inode. Some file systems have another device in /proc (overlayfs).
func (a announced) canBe(f *space.File) bool {
	if n := numberOf(f); n.inode != 0 && n.dev == a.number.dev && n != a.number {
		return false
	}
	return isFile(f, a.file)
}

// is reports whether a mapped file, which can be the announced one, is known to be it by
// more than its name.
func (a announced) is(f *space.File) bool {
	return a.number.inode != 0 && numberOf(f) == a.number || a.file.HasID && !a.file.BuildID.IsZero() && !f.BuildID.IsZero()
}

// isFile reports whether a mapped file is the one that was announced.
func isFile(f *space.File, announced *filemap.File) bool {
	sameID := f.BuildID.IsZero() || !announced.HasID || filemap.BuildID(f.BuildID.Padded()) == announced.BuildID
	return sameID && undeleted(f.Name) == undeleted(announced.Path)
}

// undeleted is a path without the kernel's mark of files that have been deleted.
func undeleted(path string) string { return strings.TrimSuffix(path, " (deleted)") }
