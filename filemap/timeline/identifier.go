package timeline

import (
	"strings"

	"ustack/filemap"
	"ustack/filemap/procmap"
	"ustack/filemap/proof"
	"ustack/filemap/resolve"
	"ustack/filemap/space"
	"ustack/tracefs"
)

// identifier gives a frame with an identifier the proven file, or what is left of
// the kernel's claim after a check against the mappings of the process. The side
// band reports code only: what a process has not mapped as code can still be mapped
// as data, so exclusion proves nothing here.
func (j *Judge) identifier(sp *space.Space, f *tracefs.Frame, raw uint64, s *resolve.Subject, d doubt, why *proof.Steps, o *resolve.Outcome) {
	switch {
	case f.ID.NoVMA():
		return
	case f.ID.NoFile():
		j.unfiled(sp, f.Address(s.Text), s.Time, o)
		return
	}
	t := s.Time + j.opt.Stamp.After
	v := sp.At(t)
	if v == nil || v.Mappings.Len() == 0 {
		if j.opt.Late { // nothing is known of the process then
			j.unfit(f.ID, f.Address(s.Text), t, o)
		}
		return // the claim stands
	}
	offset := f.Address(s.Text)
	q := query{id: f.ID, pid: sp.PID, t: t, begin: s.Time - j.opt.Stamp.Before, v: v, fits: j.codes.of(sp.PID, v.Mappings).holding(offset, t), raw: raw, offset: offset, space: sp, doubt: d, why: why}
	switch {
	case !q.settled(): // the identifier can be of what was there before
		*o = resolve.Unnamed(filemap.Ambiguous)
	case d.is && !q.stays():
		*o = resolve.Unnamed(filemap.Lost)
	case j.bySame(&q, o):
	case j.byInode(&q, o):
	case o.Owned() && o.File != nil:
		j.owned(&q, o)
	case j.byPin(&q, o):
	case o.File != nil:
		j.claim(&q, o)
	}
}

// query is a frame with an identifier: of which process, when, and which of the
// process's code it can lie in.
type query struct {
	id tracefs.Identifier
	// begin and t bound the time of the stack, which its stamp rounds.
	begin, t tracefs.Time
	fits     candidates
	v        *space.Version
	pid      int
	space    *space.Space
	doubt    doubt
	raw      uint64       // address of the frame, 0 if it is not known
	offset   uint64       // where the frame is in its file
	why      *proof.Steps // nil if they are not asked for
}

// step adds a step that is about a mapped file.
func (q *query) step(s proof.Statement, f *space.File) {
	q.why.Add(proof.Step{Statement: s, PID: q.pid, File: f.Name, From: q.begin, To: q.t})
}

// settled reports whether no code was mapped within the precision of the time
// stamp that the frame can lie in.
func (q *query) settled() bool {
	return !q.fits.newer(nil, q.begin)
}

// stays reports whether all code that the frame can lie in is there when the time
// of doubt is over, too: what was mapped in between is unknown.
func (q *query) stays() bool {
	for _, m := range q.fits.list {
		after, ok := q.space.Lookup(m.Start, q.doubt.until)
		if !q.doubt.stays || !ok || after.Mapping.File != m.File || after.Offset != m.Offset {
			return false
		}
	}
	return true
}

// at reports whether the frame can be where the process has a file mapped.
func (q *query) at(file *space.File) bool {
	if q.raw == 0 {
		return true
	}
	m := q.v.Find(q.raw)
	return m != nil && m.File == file && fits(m, q.offset, q.t)
}

// owned is the outcome of a frame whose mapping the kernel looked up because of
// this very stack. If the process has that mapping, it carries the identifier.
func (j *Judge) owned(q *query, o *resolve.Outcome) {
	q.why.Add(proof.Step{Statement: proof.Looked, File: o.File.Path})
	file, only := q.fits.match(o.File)
	switch {
	case !only: // two files of one name, and no build ID
		*o = resolve.Unnamed(filemap.Ambiguous)
		return
	case file == nil:
		if !q.fits.mapsAs(o.File) {
			if j.opt.Late {
				j.unfit(q.id, q.offset, q.t, o)
			}
			return // the kernel looked, and knows best
		}
		*o = resolve.Unnamed(filemap.NotCode)
		return
	}
	if m, only := q.fits.of(file); only && !j.alien {
		j.pins.Add(q.id, placeOf(q.pid, m), q.t)
	}
	q.step(proof.Mapped, file)
	*o = j.proven(file, o.File)
}

// proven is the outcome of a frame in a mapped file. claimed is what the kernel
// called it, nil if it did not: it has the path as the process sees it.
func (j *Judge) proven(f *space.File, claimed *filemap.File) resolve.Outcome {
	file := j.files.of(f)
	if claimed != nil && !file.HasID || claimed != nil && file.BuildID.IsZero() {
		file = claimed
	}
	return resolve.Named(file, j.sure(filemap.Verified))
}

// bySame proves a file by another frame of the same stack that has the identifier.
// ok is false if there is none.
func (j *Judge) bySame(q *query, o *resolve.Outcome) (ok bool) {
	file := j.sameAs(q.id)
	if file == nil {
		return false
	}
	q.step(proof.Addressed, file)
	if m, _ := q.fits.of(file); m != nil {
		q.step(proof.Mapped, file)
		*o = j.proven(file, nil)
		return true
	}
	if !j.late && !q.v.Partial {
		*o = resolve.Unnamed(filemap.NotCode) // in another segment of the file
		return true
	}
	return false
}

// unfit is the outcome of a claim that fits no known mapping of a process whose
// mappings were read, which may not be all. A hash can be another file's.
func (j *Judge) unfit(id tracefs.Identifier, offset uint64, t tracefs.Time, o *resolve.Outcome) {
	switch {
	case o.File == nil:
	case !o.Owned() && !id.IsInode():
		*o = resolve.Unnamed(filemap.NoAddressSpace)
	case j.isData(o.File, offset, t):
		*o = resolve.Unnamed(filemap.NotCode)
	}
}

// byInode proves a file by the device and inode of its mapping, if they are
// known. ok is false if they are not.
func (j *Judge) byInode(q *query, o *resolve.Outcome) (ok bool) {
	if !q.id.IsInode() {
		return false
	}
	inode, major, minor := q.id.Inode()
	n := fileNumber{inode, procmap.Dev{Major: major, Minor: minor}}
	m := q.fits.numbered(n)
	switch {
	case m != nil:
		j.pins.Add(q.id, placeOf(q.pid, m), q.t)
		q.step(proof.Numbered, m.File)
		q.step(proof.Mapped, m.File)
		*o = j.proven(m.File, nil)
	case q.fits.mapsNumber(n):
		*o = resolve.Unnamed(filemap.NotCode)
	default:
		return false
	}
	return true
}

// byPin proves a file by a mapping that carried the identifier at another time,
// and has stayed. ok is false if there is no such mapping.
func (j *Judge) byPin(q *query, o *resolve.Outcome) (ok bool) {
	pin, stay, found := j.pins.At(q.id, q.t)
	if !found || stay == proof.Gone {
		return false
	}
	file := pin.Mapping.file
	q.why.Add(proof.Step{Statement: proof.Carried, PID: pin.Mapping.pid, File: file.Name, From: pin.First, To: pin.Last})
	if stay == proof.Assumed {
		q.why.Add(proof.Step{Statement: proof.Supposed, PID: pin.Mapping.pid, File: file.Name})
	}
	m, only := q.fits.of(file)
	switch {
	case m == nil && q.fits.maps(file):
		*o = resolve.Unnamed(filemap.NotCode) // in another segment of the file
	case m == nil && stay == proof.Stayed:
		*o = resolve.Unnamed(filemap.Contradicted) // what is known of the process is not all
	case m == nil:
		return false
	case stay == proof.Stayed:
		if only && !j.alien {
			j.pins.Add(q.id, placeOf(q.pid, m), q.t)
		}
		*o = j.proven(file, nil)
	case !q.id.IsInode() && (!q.at(file) || j.pins.Rival(q.id, placeOf(q.pid, m), q.fits.places(q.pid))):
		// The mapping may have gone unseen, and its identifier be the newer
		// one's.
		*o = resolve.Unnamed(filemap.Ambiguous)
	default:
		*o = j.supposed(file)
	}
	return true
}

// supposed is the outcome of a frame in a mapped file that is neither proven nor
// contradicted.
func (j *Judge) supposed(f *space.File) resolve.Outcome {
	return resolve.Named(j.files.of(f), filemap.Claimed)
}

// claim checks an unproven claim against the mappings of the process.
func (j *Judge) claim(q *query, o *resolve.Outcome) {
	claimed := o.File
	q.why.Add(proof.Step{Statement: proof.Claimed, File: claimed.Path})
	file, only := q.fits.match(claimed)
	switch {
	case !only:
		*o = resolve.Unnamed(filemap.Ambiguous)
	case file != nil && !q.at(file):
		j.nowhere(q, o)
	case file != nil:
		j.left(q, file, o)
	case q.fits.mapsAs(claimed):
		*o = resolve.Unnamed(filemap.NotCode)
	default:
		q.why.Add(proof.Step{Statement: proof.NotMapped, File: claimed.Path})
		j.nowhere(q, o)
	}
}

// left is what is left of a claim of a mapped file that has the frame. A hash means
// something else once the mapping that had it has gone; the number of an inode does
// so only if the file is deleted.
func (j *Judge) left(q *query, file *space.File, o *resolve.Outcome) {
	m, _ := q.fits.of(file)
	switch j.pins.Claim(q.id, placeOf(q.pid, m), q.fits.places(q.pid)) {
	case proof.Refuted:
		q.step(proof.WasOther, file)
		*o = resolve.Unnamed(filemap.Contradicted)
	case proof.Open:
		q.why.Add(proof.Step{Statement: proof.Reused})
		*o = resolve.Unnamed(filemap.Ambiguous)
	default:
		q.step(proof.Mapped, file)
		*o = j.supposed(file)
	}
}

// nowhere is the outcome of a frame outside of the mappings of the claimed file.
func (j *Judge) nowhere(q *query, o *resolve.Outcome) {
	if j.opt.Late && q.v.Partial {
		j.unfit(q.id, q.offset, q.t, o)
		return
	}
	*o = resolve.Unnamed(filemap.Contradicted)
}

func (j *Judge) sure(t filemap.Trust) filemap.Trust {
	if j.late {
		return filemap.Late
	}
	return t
}

// unfiled is the outcome of a frame in memory without a file. The kernel gives the
// address of anonymous memory, and the offset in the vDSO.
func (j *Judge) unfiled(sp *space.Space, addr uint64, t tracefs.Time, o *resolve.Outcome) {
	if p, ok := sp.Lookup(addr, t+j.opt.Stamp.After); ok && !p.Mapping.File.Kind.HasFile() {
		o.Memory = j.files.memory(p.Mapping)
	}
}

// isFile reports whether a mapped file is the one that was announced.
func isFile(f *space.File, announced *filemap.File) bool {
	sameID := f.BuildID.IsZero() || !announced.HasID || filemap.BuildID(f.BuildID.Padded()) == announced.BuildID
	return sameID && undeleted(f.Name) == undeleted(announced.Path)
}

// undeleted is a path without the kernel's mark of files that have been deleted.
func undeleted(path string) string { return strings.TrimSuffix(path, " (deleted)") }
