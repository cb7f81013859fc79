package timeline

import (
	"ustack/filemap"
	"ustack/filemap/procmap"
	"ustack/filemap/space"
	"ustack/tracefs"
)

// segments are where in a file code is, by what processes have mapped. They are for
// frames of unknown processes: where other processes have only data, there is no
// code.
type segments map[string]*segment

type segment struct {
	read  tracefs.Time
	found []span
}

// span is a part of a file.
type span struct{ from, to uint64 }

const (
	// maxSegments bounds the files that are kept.
	maxSegments = 1 << 12
	// segmentsAgain is how soon processes are examined again.
	segmentsAgain = tracefs.Time(1e9)
)

// isData reports whether processes have code of a file mapped, and none has an
// offset.
func (j *Attributor) isData(file *filemap.File, offset uint64, t tracefs.Time) bool {
	s := j.segments[file.Path]
	if s == nil || t-s.read >= segmentsAgain {
		if len(j.segments) >= maxSegments {
			clear(j.segments)
		}
		s = &segment{read: t, found: j.spansOf(file)}
		j.segments[file.Path] = s
	}
	for _, p := range s.found {
		if p.from <= offset && offset < p.to {
			return false
		}
	}
	return len(s.found) > 0
}

// spansOf is what processes have mapped of a file as code now.
func (j *Attributor) spansOf(file *filemap.File) (list []span) {
	j.opt.Spaces.Snapshot().Each(func(sp *space.Space) bool {
		v := sp.At(space.Forever - 1)
		if v == nil {
			return true
		}
		for m := range v.Mappings.All() {
			if m.Perms&procmap.Exec == 0 || !m.File.Kind.HasFile() || !isFile(m.File, file) {
				continue
			}
			p := span{m.Offset, m.Offset + m.End - m.Start}
			if n := len(list); n == 0 || list[n-1] != p {
				list = append(list, p)
			}
		}
		return len(list) < maxSegments
	})
	return list
}
