package evidence

import (
	"maps"
	"slices"
	"strings"

	"ustack/filemap"
)

// Solve decides what can be decided, and makes the next reading of the trace
// the one that gets outcomes.
func (e *Evidence) Solve() {
	byLineage := make(map[int][]*group)
	for _, g := range e.groups {
		byLineage[g.key.lineage] = append(byLineage[g.key.lineage], g)
	}
	lineages := slices.Sorted(maps.Keys(byLineage))
	// What the kernel announced of a program's own mappings is the surest, and
	// tells about the same files in other programs.
	for _, lineage := range lineages {
		groups := byLineage[lineage]
		slices.SortFunc(groups, func(a, b *group) int { return a.key.id.Compare(b.key.id) })
		for _, g := range groups {
			g.decideOwned()
		}
	}
	for _, lineage := range lineages {
		e.solveProgram(byLineage[lineage])
	}
	e.deciding = true
}

// solveProgram decides about the identifiers of one program, the surest first.
// Each decision takes the file from the others: two identifiers of a program
// are two files.
func (e *Evidence) solveProgram(groups []*group) {
	for _, g := range groups {
		if g.owned == nil {
			g.look(e.root)
		}
	}
	e.exclude(groups)
	for _, g := range groups {
		if g.decided == nil && !e.pointers {
			for _, f := range g.announced {
				if m := g.candidate(f); m != nil {
					g.decide(m)
				}
			}
		}
	}
	e.exclude(groups)
	for _, g := range groups {
		g.settle()
	}
}

// decideOwned decides by an announcement that the kernel made of this program's
// own mapping. If the dump does not have that mapping, it is the dump that
// misses something (a library that was loaded for a moment), and the file must
// not be taken for one of those that it has.
func (g *group) decideOwned() {
	if g.owned == nil {
		return
	}
	for _, m := range g.files {
		if sameMapping(g.owned.Path, m.name) && (!m.hasID || !g.owned.HasID || m.id == g.owned.BuildID) {
			g.decide(m)
			if m.known == nil {
				m.known = g.owned
			}
			return
		}
	}
}

// exclude takes decided files from the undecided, and decides where one file
// is left, until nothing changes.
func (e *Evidence) exclude(groups []*group) {
	for changed := true; changed; {
		changed = false
		for _, g := range groups {
			if g.decided == nil && g.owned == nil && len(g.files) == 1 {
				g.decide(g.files[0])
				changed = true
			}
			if g.decided == nil {
				continue
			}
			for _, other := range groups {
				if other.decided != nil || len(other.files) < 2 {
					continue
				}
				if at := slices.Index(other.files, g.decided); at >= 0 {
					other.files = slices.Delete(other.files, at, at+1)
					changed = true
				}
			}
		}
	}
}

func (g *group) decide(m *mapped) {
	g.decided = m
	g.files = []*mapped{m}
}

// settle says why an undecided group is.
func (g *group) settle() {
	if g.decided != nil || g.owned != nil {
		return
	}
	g.reason = filemap.Contradicted
	for _, f := range g.announced {
		if g.candidate(f) != nil {
			g.reason = filemap.Ambiguous
		}
	}
	if len(g.announced) == 0 {
		g.reason = filemap.NoReason // keeps the one that it has
	}
}

// candidate is the file of the group that an announced file is, nil if none is.
func (g *group) candidate(f *filemap.File) *mapped {
	for _, m := range g.files {
		if m.is(f) {
			return m
		}
	}
	return nil
}

// is reports whether a mapped file is the one that was announced. What the
// kernel announced of this inode itself decides; else name and build ID must
// not differ. A path that only ends alike is no proof: a container has files
// at the paths of its host's.
func (m *mapped) is(f *filemap.File) bool {
	if m.known != nil {
		// By value: each reading of the trace interns its own files.
		return sameName(f.Path, m.known.Path) && m.known.BuildID == f.BuildID
	}
	return sameName(f.Path, m.name) && (!m.hasID || !f.HasID || m.id == f.BuildID)
}

// sameName reports whether an announcement's path and a mapping's name are the
// same: a deleted file may be marked in one of them only, and named shared
// memory is announced by its bare name.
func sameName(announced, name string) bool {
	const deleted = " (deleted)"
	return strings.TrimSuffix(announced, deleted) == strings.TrimSuffix(name, deleted) ||
		name == "[anon_shmem:"+announced+"]"
}

// sameMapping is sameName for an announcement that is known to be of one of the
// program's own mappings. The kernel announces a path as the process sees it,
// and the dump has it as its reader saw it: in a chroot the one ends the other.
func sameMapping(announced, name string) bool {
	const deleted = " (deleted)"
	a, n := strings.TrimSuffix(announced, deleted), strings.TrimSuffix(name, deleted)
	return sameName(announced, name) || strings.HasPrefix(a, "/") && strings.HasPrefix(n, "/") &&
		(strings.HasSuffix(n, a) || strings.HasSuffix(a, n))
}
