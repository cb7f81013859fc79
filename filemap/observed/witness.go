package observed

import (
	"iter"
	"slices"

	"ustack/filemap"
	"ustack/filemap/proof"
	"ustack/filemap/resolve"
	"ustack/tracefs"
)

// frame is a frame to be decided about: for a raw address, offset is that. It
// implements proof.Witness; the steps of a proof are added as statements are
// gathered.
type frame struct {
	e      *Mappings
	m      *moment // without versions if the dump lacks the process
	id     tracefs.Identifier
	offset uint64
	at     tracefs.Time
	said   resolve.Attribution
	why    *proof.Steps

	// run is what the statement that was gathered last is about.
	run *run
}

// decide gives a frame with an identifier the attribution that proof.Decide decides on
// by what the dump has of the process, m, at that time.
func (e *Mappings) decide(m *moment, f *frame, o *resolve.Attribution) {
	if m.crowded {
		return
	}
	f.e, f.m, f.said = e, m, *o
	switch v := proof.Decide(f, f.id.IsInode()); v.Act {
	case proof.Name:
		*o = resolve.Named(f.named(v.By), v.Trust)
	case proof.Drop:
		*o = resolve.Unnamed(v.Reason)
	}
}

// unread is about a stack of a process that the dump lacks. What is proven of the
// identifiers in other processes holds for it, too.
func (e *Mappings) unread(s *resolve.Query) {
	for k := range s.Frames {
		f := &s.Frames[k]
		if f.Form != tracefs.FormIdentifier || f.ID.NoFile() || f.ID.NoVMA() {
			continue
		}
		e.decide(&moment{}, e.frame(s, k), &s.Attributions[k])
	}
}

// frame is a frame of a stack, to be decided about.
func (e *Mappings) frame(s *resolve.Query, k int) *frame {
	e.at = frame{id: s.Frames[k].ID, offset: s.Frames[k].Address(s.Text), at: s.Time, why: s.Why(k)}
	return &e.at
}

// named is the file of the statement that decides: as the kernel called it if it
// looked at the mapping because of this very stack, or if that is the same.
func (f *frame) named(by proof.Statement) *filemap.File {
	said := f.said.File
	if by == proof.Looked {
		return said
	}
	file := f.e.file(f.run)
	if said != nil && slices.Contains(f.run.file.names(), bareName(said.Path)) && said.BuildID == file.BuildID {
		return said
	}
	return file
}

// owned reports whether the kernel looked at the frame's mapping because of this
// very stack.
func (f *frame) owned() bool { return f.said.Owned() && f.said.File != nil }

// unread reports whether the dump lacks the process.
func (f *frame) unread() bool { return len(f.m.versions) == 0 }

// Time implements proof.Witness. A moment has all that the process can have had.
func (f *frame) Time() proof.When { return proof.Known }

// Addressed implements proof.Witness. A frame has an identifier or an address.
func (f *frame) Addressed() proof.Said { return proof.Said{} }

// in is the statement that the frame is in a run.
func (f *frame) in(c candidate, sure proof.Sure) proof.Said {
	f.run = c.run
	if !c.code {
		f.why.Add(proof.Step{Statement: proof.Data, File: c.run.file.name})
		return proof.Said{Place: proof.InData}
	}
	f.mapped(f.m, c)
	return proof.Said{Place: proof.InCode, Sure: sure}
}

// Numbered implements proof.Witness. Some file systems have other numbers in /proc
// (overlayfs).
func (f *frame) Numbered() proof.Said {
	found, more, known := f.m.find(f.offset, func(v *version) []*run { return v.numbered(f.id) })
	switch {
	case !known:
		return proof.Said{}
	case f.owned() && (found.run == nil || more || found.renamed || !f.m.covered):
		return proof.Said{} // the kernel looked, and knows best
	case found.run == nil:
		return proof.Said{Place: proof.Elsewhere}
	case (more || found.renamed) && found.code:
		return proof.Said{Place: proof.InSeveral}
	}
	sure := proof.Afterwards
	switch {
	case f.m.covered && (f.owned() || found.seen == len(f.m.versions)):
		sure = f.unlessPaused(found.run, f.unlessOther(found.run, proof.Proven))
	case found.code && f.renumbered(found.run):
		return proof.Said{Place: proof.InSeveral}
	}
	if found.code {
		f.why.Add(proof.Step{Statement: proof.Numbered, File: found.run.file.name})
	}
	return f.in(found, sure)
}

// renumbered reports whether the number of a run's file can have been another file's at the
// time of the frame: it is not known that any process had it mapped before and after, all the time. A dump
// that does not say when processes were read proves little of that; then the kernel's
// word for the file counts, too.
func (f *frame) renumbered(r *run) bool {
	d := f.e.dump
	if d.wasMapped(r.file, f.at-d.skew.most, f.at-d.skew.least) {
		return false
	}
	return f.m.noted() || f.said.File == nil || !r.file.endsAs(f.said.File)
}

// Looked implements proof.Witness.
func (f *frame) Looked() proof.Said {
	if !f.owned() {
		return proof.Said{}
	}
	announced := f.said.File
	f.why.Add(proof.Step{Statement: proof.Looked, File: announced.Path})
	found, more, known := f.m.find(f.offset, func(v *version) []*run { return v.called(announced) })
	switch {
	case found.run != nil && !found.code:
		return f.in(found, proof.Proven)
	case found.run != nil && !f.m.covered:
	case found.run != nil && !more && !f.m.noted():
	case found.run != nil && more:
		return proof.Said{Place: proof.InSeveral}
	case found.run != nil:
		return f.in(found, proof.Proven)
	case known && f.m.whole:
		f.why.Add(proof.Step{Statement: proof.NotMapped, File: announced.Path})
		return proof.Said{Place: proof.Elsewhere}
	}
	return proof.Said{Place: proof.Unknown}
}

// Carried implements proof.Witness.
func (f *frame) Carried() proof.Said {
	if !f.m.covered {
		return f.carriedThere()
	}
	x := f.e.seen[observed{f.m.key, f.id}]
	if x == nil || !x.proven {
		return proof.Said{}
	}
	f.carried(x.pin)
	if x.pin.Inferred {
		f.e.others(f.m, f, x.pin.Mapping)
	}
	file := x.pin.Mapping.file
	found, more, known := f.m.find(f.offset, func(v *version) []*run { return v.sameFile(file) })
	switch {
	case (more || found.renamed) && found.code:
		return proof.Said{Place: proof.InSeveral}
	case found.run != nil:
		return f.in(found, f.unlessPaused(x.pin.Mapping, f.unlessOther(found.run, sureOf(x.pin))))
	case known:
		f.why.Add(proof.Step{Statement: proof.NotMapped, File: file.name})
		return proof.Said{Place: proof.Elsewhere}
	}
	f.why.Add(proof.Step{Statement: proof.NotMapped, File: file.name})
	return proof.Said{Place: proof.Absent}
}

// carriedThere is about a mapping of any process that carries the identifier, where
// the dump does not speak of that time of the frame's own.
func (f *frame) carriedThere() proof.Said {
	pin, ok := f.e.pins.Through(f.id, f.at, f.at)
	if !ok {
		return proof.Said{}
	}
	f.carried(pin)
	f.run = pin.Mapping
	if f.e.dump.hasCode(f.run.file.name, f.offset) == no {
		return f.in(candidate{run: f.run}, proof.Proven)
	}
	sure := f.unlessPaused(f.run, f.unlessOther(f.run, sureOf(pin)))
	if f.id.IsInode() && f.run.file.key.dev.Major == 0 {
		sure = proof.Afterwards // the number can be another file's in that process (isOne)
	}
	return proof.Said{Place: proof.Unknown, Sure: sure}
}

// unlessOther is how sure a file is that has the identifier. If the trace calls its inode
// number another file, or gives the file of its name another build ID, the dump has it of
// another time: of another boot or machine, or after the file was renamed or replaced.
func (f *frame) unlessOther(r *run, sure proof.Sure) proof.Sure {
	said := f.said.File
	switch {
	case r.doubted, !f.e.identified(r):
		return proof.Afterwards
	case said == nil:
	case f.id.IsInode() && !r.file.endsAs(said), r.file.differs(said) && slices.Contains(r.file.names(), bareName(said.Path)):
		return proof.Afterwards
	}
	return sure
}

// unlessPaused is how sure a file is by a run. A dump that does not say when processes were
// read may have pauses, in which anything can have come and gone.
func (f *frame) unlessPaused(r *run, sure proof.Sure) proof.Sure {
	if !saysWhen(f.e.dump.spaces[r.pid]) || len(f.m.versions) > 0 && !f.m.noted() {
		return proof.Afterwards
	}
	return sure
}

func sureOf(pin proof.Pin[*run]) proof.Sure {
	switch {
	case pin.Mapping.doubted:
		return proof.Afterwards
	case pin.Inferred:
		return proof.ByExclusion
	}
	return proof.Proven
}

// Supposed implements proof.Witness. What stays from one version to the next is
// known to.
func (f *frame) Supposed() proof.Said { return proof.Said{} }

// Claimed implements proof.Witness.
func (f *frame) Claimed() proof.Said {
	claimed := f.said.File
	if claimed == nil {
		return proof.Said{}
	}
	f.why.Add(proof.Step{Statement: proof.Claimed, File: claimed.Path})
	if f.unread() {
		return f.unchecked()
	}
	found, more, _ := f.m.find(f.offset, func(v *version) []*run { return v.canBe(f.id, claimed) })
	switch {
	case found.run != nil && !found.code && f.id.IsInode():
		return f.in(found, proof.Proven)
	case found.run == nil || !found.code: // code of another file has it, or nothing
		f.why.Add(proof.Step{Statement: proof.NotMapped, File: claimed.Path})
		f.e.others(f.m, f, nil)
		return proof.Said{Place: proof.Elsewhere}
	case more:
		return proof.Said{Place: proof.InSeveral}
	}
	f.run = found.run
	return proof.Said{Place: proof.InCode, Left: f.left(found)}
}

// unchecked is a claim about a process that the dump lacks.
func (f *frame) unchecked() proof.Said {
	claimed := f.said.File
	switch {
	case f.id.IsInode():
	case f.e.pins.Reused(f.id, claimed):
		f.why.Add(proof.Step{Statement: proof.Reused})
		return proof.Said{Place: proof.Unknown, Left: proof.Open}
	case f.e.dump.hasCode(claimed.Path, f.offset) == no:
		f.why.Add(proof.Step{Statement: proof.NotMapped, File: claimed.Path})
		return proof.Said{Place: proof.Elsewhere}
	}
	return proof.Said{Place: proof.Unknown}
}

// left is what is left of a claim of a run that has the frame.
func (f *frame) left(found candidate) proof.Left {
	list, many := f.m.candidates(f.offset)
	left := f.e.pins.Claim(f.id, found.run, code(list))
	if many && left == proof.Stands && !f.id.IsInode() && f.e.pins.Known(f.id) {
		left = proof.Open
	}
	switch left {
	case proof.Refuted:
		f.e.others(f.m, f, nil)
	case proof.Open:
		f.why.Add(proof.Step{Statement: proof.Reused})
		f.e.others(f.m, f, nil)
	default:
		f.mapped(f.m, found)
	}
	return left
}

// code are the runs of candidates that have code there.
func code(list []candidate) iter.Seq[*run] {
	return func(yield func(*run) bool) {
		for _, c := range list {
			if c.code && !yield(c.run) {
				return
			}
		}
	}
}

// answer is yes, no or unknown.
type answer uint8

const (
	unknown answer = iota
	no
	yes
)

// hasCode reports whether a file of a path has code at an offset, in any mapping of
// any file of that path.
func (d *Dump) hasCode(path string, offset uint64) answer {
	known := unknown
	for i, m := range d.named[bareName(path)] {
		switch {
		case i == maxHolding || len(m.code) == maxCode:
			return unknown
		case slices.ContainsFunc(m.code, func(p place) bool { return p.start <= offset && offset < p.end }):
			return yes
		case len(m.code) > 0:
			known = no
		}
	}
	return known
}
