package timeline

import (
	"slices"
	"strings"

	"ustack/filemap"
	"ustack/filemap/procmap"
	"ustack/filemap/space"
)

// Known are the files that processes have mapped as code now, sorted by path.
func (j *Attributor) Known() []*filemap.File {
	seen := make(map[*filemap.File]bool)
	var list []*filemap.File
	j.opt.Spaces.Snapshot().Each(func(sp *space.Space) bool {
		versions := sp.Versions()
		if len(versions) == 0 || versions[len(versions)-1].To != space.Forever {
			return true
		}
		for m := range versions[len(versions)-1].Mappings.All() {
			if m.Perms&procmap.Exec == 0 || !m.File.Kind.HasFile() || m.File.Name == "" {
				continue
			}
			if f := j.files.of(m.File); !seen[f] {
				seen[f] = true
				list = append(list, f)
			}
		}
		return true
	})
	slices.SortFunc(list, func(a, b *filemap.File) int { return strings.Compare(a.Path, b.Path) })
	return list
}
