package timeline

import (
	"slices"
	"strings"

	"ustack/filemap"
	"ustack/filemap/procmap"
	"ustack/filemap/resolve"
	"ustack/filemap/space"
	"ustack/tracefs"
)

// groups are what is known of the identifiers of programs: the frames that
// carry one identifier in one program lie in one file.
type groups map[groupKey]*group

type groupKey struct {
	pid   int
	since tracefs.Time // when the program began
	id    tracefs.Identifier
}

type group struct {
	// files are the mapped files that fit all frames so far.
	files []*space.File
	// owned is the file that the kernel announced because of a stack of this
	// very program: it looked at the mapping then.
	owned *space.File
}

// maxGroups bounds what is kept of programs.
const maxGroups = 1 << 14

func newGroups() groups { return make(groups) }

func (gs groups) of(key groupKey) *group {
	g := gs[key]
	if g == nil {
		if len(gs) >= maxGroups {
			clear(gs)
		}
		g = new(group)
		gs[key] = g
	}
	return g
}

// identifier holds the file that the kernel announced for a frame against what
// the process had mapped.
func (j *Judge) identifier(sp *space.Space, f *tracefs.Frame, s *resolve.Subject, o *resolve.Outcome) {
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
		return // nothing is known of the process then: the claim stands
	}
	offset := f.Address(s.Text)
	g := j.groups.of(groupKey{sp.PID, sp.Began(t), f.ID})
	fits := holding(v, offset, t)
	if g.files != nil && len(fits) > 0 {
		fits = slices.DeleteFunc(fits, func(m *space.File) bool { return !slices.Contains(g.files, m) })
	}
	if len(fits) > 0 {
		g.files = fits
	}
	if o.Owned() && o.File != nil {
		g.owned = match(fits, o.File)
	}
	j.decide(g, fits, f.ID, o)
}

// decide gives a frame its outcome. fits are the files in which it can lie.
func (j *Judge) decide(g *group, fits []*space.File, id tracefs.Identifier, o *resolve.Outcome) {
	claimed := o.File
	claim := (*space.File)(nil)
	if claimed != nil {
		claim = match(fits, claimed)
	}
	switch {
	case claim != nil && (len(fits) == 1 || g.owned == claim || id.IsInode()):
		*o = resolve.Named(claimed, j.sure(filemap.Verified))
	case g.owned != nil && slices.Contains(fits, g.owned):
		*o = resolve.Named(j.files.of(g.owned), j.sure(filemap.Inferred))
	case len(fits) == 1:
		*o = resolve.Named(j.files.of(fits[0]), j.sure(filemap.Inferred))
	case claim != nil:
		*o = resolve.Unnamed(filemap.Ambiguous) // the hash may be another file's by now
	case claimed != nil:
		*o = resolve.Unnamed(filemap.Contradicted)
	}
}

func (j *Judge) sure(t filemap.Trust) filemap.Trust {
	if j.late {
		return filemap.Late
	}
	return t
}

// unfiled says what memory without a file is. The kernel gives the address of
// anonymous memory, and the offset in the vDSO.
func (j *Judge) unfiled(sp *space.Space, addr uint64, t tracefs.Time, o *resolve.Outcome) {
	if p, ok := sp.Lookup(addr, t+j.opt.Stamp.After); ok && !p.Mapping.File.Kind.HasFile() {
		o.Memory = j.files.memory(p.Mapping)
	}
}

// holding are the files of which a version has an offset mapped as code.
func holding(v *space.Version, offset uint64, t tracefs.Time) []*space.File {
	var files []*space.File
	for m := range v.Mappings.All() {
		if m.File.Kind.HasFile() && m.Perms&procmap.Exec != 0 && m.Since <= t &&
			offset >= m.Offset && offset-m.Offset < m.End-m.Start && !slices.Contains(files, m.File) {
			files = append(files, m.File)
		}
	}
	return files
}

// match is the mapped file that an announced one is, nil if none is.
func match(files []*space.File, announced *filemap.File) *space.File {
	const deleted = " (deleted)"
	path := strings.TrimSuffix(announced.Path, deleted)
	for _, f := range files {
		sameID := f.BuildID.IsZero() || !announced.HasID || filemap.BuildID(f.BuildID.Padded()) == announced.BuildID
		if sameID && strings.TrimSuffix(f.Name, deleted) == path {
			return f
		}
	}
	return nil
}
