package timeline

import (
	"ustack/filemap"
	"ustack/filemap/proof"
	"ustack/filemap/resolve"
	"ustack/filemap/space"
	"ustack/tracefs"
)

// query is a frame with an identifier: of which process, when, and which of the
// process's code it can lie in. It implements proof.Witness; the steps of a proof
// are added as statements are gathered.
type query struct {
	j  *Attributor
	id tracefs.Identifier
	// begin and t bound the time of the stack, which its stamp rounds.
	begin, t tracefs.Time
	fits     candidates
	v        *space.Version // nil if nothing is known of the process then
	pid      int
	space    *space.Space
	doubt    doubt
	raw      uint64 // address of the frame, 0 if it is not known
	offset   uint64 // where the frame is in its file
	said     resolve.Attribution
	why      *proof.Steps // nil if they are not asked for

	// Of the statement that was gathered last: the file, the mapping of it that has
	// the frame, nil if that is in another process, and whether it is the only one.
	file *space.File
	in   *space.Mapping
	only bool
	// heard is the file if no mapping of it is known.
	heard *filemap.File
	// pin is a mapping that carried the identifier, and stay what is known of it.
	pin  proof.Pin[place]
	stay proof.Stay
}

// step adds a step that is about a mapped file.
func (q *query) step(s proof.Statement, f *space.File) {
	q.why.Add(proof.Step{Statement: s, PID: q.pid, File: f.Name, From: q.begin, To: q.t})
}

// settled reports whether no code that the frame can lie in was mapped within the
// precision of the time stamp, and none went away.
func (q *query) settled() bool {
	return !q.fits.newer(nil, q.begin) && !q.left()
}

// left reports whether code that the frame can lie in went away within the precision of
// the time stamp.
func (q *query) left() bool {
	for before := range q.space.Between(q.begin, q.t) {
		if before == q.v || before.Mappings == q.v.Mappings {
			continue
		}
		for m := range before.Mappings.All() {
			if fits(m, q.offset, q.t) && !q.has(m) {
				return true
			}
		}
	}
	return false
}

// has reports whether a mapping of a former version, in which the frame can lie, is there
// at the end of the precision of the time stamp.
func (q *query) has(m *space.Mapping) bool {
	now := q.v.Find(m.Start)
	return now != nil && now.File == m.File && now.Since == m.Since && fits(now, q.offset, q.t)
}

// stays reports whether all code that the frame can lie in is there when the time
// of doubt is over, too: what was mapped in between is unknown.
func (q *query) stays() bool {
	for _, m := range q.fits.list {
		after, ok := q.space.Lookup(m.Start, q.doubt.until)
		if !q.doubt.stays || !ok || after.Mapping.File != m.File || after.Offset != m.Offset || after.Mapping.Exact && after.Mapping.Since > max(q.t, m.Since) {
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

// Time implements proof.Witness.
func (q *query) Time() proof.When {
	switch {
	case q.v == nil:
	case !q.settled(): // the identifier can be of what was there before
		return proof.Changing
	case q.doubt.is && !q.stays():
		return proof.Doubted
	}
	return proof.Known
}

// code is the statement that the frame is in a mapping of code of a file.
func (q *query) code(f *space.File, m *space.Mapping, only bool) proof.Said {
	q.file, q.in, q.only = f, m, only
	return proof.Said{Place: proof.InCode, Sure: q.sure()}
}

func (q *query) sure() proof.Sure {
	if q.j.late {
		return proof.Afterwards
	}
	return proof.Proven
}

// Addressed implements proof.Witness.
func (q *query) Addressed() proof.Said {
	file := q.j.sameAs(q.id)
	if file == nil || q.v == nil {
		return proof.Said{}
	}
	q.step(proof.Addressed, file)
	m, only := q.fits.of(file)
	switch {
	case m != nil:
		q.step(proof.Mapped, file)
		return q.code(file, m, only)
	case !q.j.late && !q.v.Partial:
		return proof.Said{Place: proof.NoCode} // in another segment of the file
	}
	return proof.Said{Place: proof.Missed}
}

// Numbered implements proof.Witness.
func (q *query) Numbered() proof.Said {
	if q.v == nil {
		return proof.Said{}
	}
	n := numberIn(q.id)
	switch m, several := q.fits.numbered(n); {
	case several: // the file was written to, or two have one number
		return proof.Said{Place: proof.InSeveral}
	case m != nil:
		q.step(proof.Numbered, m.File)
		q.step(proof.Mapped, m.File)
		return q.code(m.File, m, false)
	case q.fits.mapsNumber(n):
		return proof.Said{Place: proof.NoCode}
	}
	return proof.Said{}
}

// Looked implements proof.Witness.
func (q *query) Looked() proof.Said {
	if !q.said.Owned() || q.said.File == nil {
		return proof.Said{}
	}
	q.why.Add(proof.Step{Statement: proof.Looked, File: q.said.File.Path})
	if q.v == nil {
		return proof.Said{Place: q.unfit(proof.Unknown)}
	}
	announced := announcedAs(q.said.File, q.id)
	file, one := q.fits.match(announced)
	switch {
	case !one: // two files of one name, and no build ID
		return proof.Said{Place: proof.InSeveral}
	case file != nil && q.doubt.is && !announced.is(file):
		return proof.Said{Place: proof.Unknown} // another file of that name can have come
	case file != nil:
		q.step(proof.Mapped, file)
		m, only := q.fits.of(file)
		return q.code(file, m, only)
	case q.fits.mapsAs(announced):
		return proof.Said{Place: proof.NoCode}
	}
	return proof.Said{Place: q.unfit(proof.Absent)}
}

// unfit is the place of a frame that fits no known mapping of the announced file,
// where the mappings of processes are read: that may have missed some. Otherwise it
// is the given one.
func (q *query) unfit(place proof.Place) proof.Place {
	switch {
	case !q.j.opt.Late:
		return place
	case (q.said.Owned() || q.id.IsInode()) && q.j.isData(q.said.File, q.offset, q.t):
		return proof.InData
	}
	return proof.Missed
}

// Carried implements proof.Witness.
func (q *query) Carried() proof.Said {
	if said := q.kept(); said.Place != proof.Unsaid {
		return said
	}
	pin, stay, found := q.j.pins.At(q.id, q.t)
	if !found || stay == proof.Gone || pin.Mapping.since > q.begin { // then the stack can be older
		q.stay = proof.Gone
		return proof.Said{}
	}
	q.pin, q.stay = pin, stay
	q.why.Add(proof.Step{Statement: proof.Carried, PID: pin.Mapping.pid, File: pin.Mapping.file.Name, From: pin.First, To: pin.Last})
	switch {
	case stay != proof.Stayed:
		return proof.Said{}
	case q.v == nil:
		return q.carriedThere(pin.Mapping)
	}
	return q.carried(proof.Absent) // what is known of the process is not all
}

// carried is what the process has of the file of the pin; absent is the place if
// it has no code of it.
func (q *query) carried(absent proof.Place) proof.Said {
	file := q.pin.Mapping.file
	m, only := q.fits.of(file)
	switch {
	case m != nil:
		return q.code(file, m, only)
	case q.fits.maps(file):
		return proof.Said{Place: proof.NoCode} // in another segment of the file
	}
	return proof.Said{Place: absent}
}

// carriedThere is where a frame of a process of which nothing is known is in a file
// that another process has.
func (q *query) carriedThere(p place) proof.Said {
	q.file, q.in = p.file, nil
	said := proof.Said{Place: proof.Unknown}
	if q.j.opt.Late || q.doubt.is {
		said.Sure = proof.Afterwards
	}
	v := q.j.opt.Spaces.Space(p.pid).At(q.t)
	if v == nil || v.Mappings.Len() == 0 {
		return said
	}
	there := q.j.codes.of(p.pid, v.Mappings).holding(q.offset, q.t)
	if m, _ := there.of(p.file); m == nil && there.maps(p.file) {
		said.Place = proof.NoCode
	}
	return said
}

// Supposed implements proof.Witness.
func (q *query) Supposed() proof.Said {
	if q.stay != proof.Assumed {
		return proof.Said{}
	}
	q.why.Add(proof.Step{Statement: proof.Supposed, PID: q.pin.Mapping.pid, File: q.pin.Mapping.file.Name})
	if q.v == nil {
		return proof.Said{}
	}
	said := q.carried(proof.Absent)
	if said.Place == proof.InCode && !q.id.IsInode() &&
		(!q.at(q.file) || q.j.pins.Rival(q.id, placeOf(q.pid, q.in), q.fits.places(q.pid))) {
		// The mapping may have gone unseen, and its identifier be the newer one's.
		said.Left = proof.Open
	}
	return said
}

// Claimed implements proof.Witness.
func (q *query) Claimed() proof.Said {
	claimed := q.said.File
	if claimed == nil {
		return proof.Said{}
	}
	q.why.Add(proof.Step{Statement: proof.Claimed, File: claimed.Path})
	if q.v == nil {
		return q.unchecked()
	}
	announced := announcedAs(claimed, q.id)
	file, one := q.fits.match(announced)
	switch {
	case !one:
		return proof.Said{Place: proof.InSeveral}
	case file != nil && q.doubt.is && !announced.is(file):
		return proof.Said{Place: proof.Unknown} // another file of that name can have come
	case file != nil && q.at(file):
		m, only := q.fits.of(file)
		said := q.code(file, m, only)
		said.Left = q.claim()
		return said
	case file == nil && q.fits.mapsAs(announced):
		return proof.Said{Place: proof.NoCode}
	case file == nil:
		q.why.Add(proof.Step{Statement: proof.NotMapped, File: claimed.Path})
	}
	if q.v.Partial {
		return proof.Said{Place: q.unfit(proof.Absent)}
	}
	return proof.Said{Place: proof.Absent}
}

// unchecked is a claim about a process of which nothing is known.
func (q *query) unchecked() proof.Said {
	said := proof.Said{Place: q.unfit(proof.Unknown)}
	if !q.id.IsInode() && q.j.pins.Reused(q.id, q.said.File) {
		q.why.Add(proof.Step{Statement: proof.Reused})
		said.Left = proof.Open
	}
	return said
}

// claim is what is left of a claim of a mapped file that has the frame. A hash means
// something else once the mapping that had it has gone; the number of an inode does
// so only if the file is deleted.
func (q *query) claim() proof.Left {
	left := q.j.pins.Claim(q.id, placeOf(q.pid, q.in), q.fits.places(q.pid))
	switch left {
	case proof.Refuted:
		q.step(proof.WasOther, q.file)
	case proof.Open:
		q.why.Add(proof.Step{Statement: proof.Reused})
	default:
		q.step(proof.Mapped, q.file)
	}
	return left
}
