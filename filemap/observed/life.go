package observed

import (
	"cmp"
	"slices"

	"ustack/filemap"
)

// life is a time in which a file was mapped without a pause, by whatever processes: as
// long as that its inode number is no other file's. What the kernel says of it in one
// run is so in all of them.
type life struct {
	learned learned
	file    *filemap.File // made of that
}

// learned is the file that the kernel has announced when it looked at a mapping.
type learned struct {
	file     *filemap.File // nil if it did not
	disputed bool          // it has announced files of different build IDs
}

// learn notes what the kernel announced.
func (l *learned) learn(f *filemap.File) {
	if l.file != nil && (l.file.BuildID != f.BuildID || l.file.HasID != f.HasID) {
		l.disputed = true
	}
	l.file = f
}

// add notes what is learned elsewhere.
func (l *learned) add(o *learned) {
	if o.file != nil {
		l.learn(o.file)
		l.disputed = l.disputed || o.disputed
	}
}

// known is the announced file, nil if there is none or it is not known which.
func (l *learned) known() *filemap.File {
	if l.disputed {
		return nil
	}
	return l.file
}

// lives finds the lives of all files whose build IDs the dump does not give.
func (d *Dump) lives() {
	all := make(map[ident][]*run)
	for _, versions := range d.spaces {
		for i := range versions {
			for _, r := range versions[i].runs {
				if !r.file.hasID && !r.listed {
					r.listed = true
					all[r.file.ident()] = append(all[r.file.ident()], r)
				}
			}
		}
	}
	for _, runs := range all {
		slices.SortFunc(runs, func(a, b *run) int { return cmp.Compare(a.first, b.first) })
		last := never
		for i, r := range runs {
			if i > 0 && r.first <= min(r.last, last) {
				r.life = runs[i-1].life
			} else {
				r.life = new(life)
			}
			r.life.learned.add(&r.learned)
			last = max(last, r.last)
		}
	}
}

// announced is what the kernel called the file of a run, nil if that is not known. sure:
// it did so in the same life of the file, or there is no build ID. It is nil, too, if it
// was in another life, and the trace has several build IDs of that name.
func (e *Mappings) announced(r *run) (f *filemap.File, sure bool) {
	if r.life != nil && r.life.learned.file != nil {
		return r.life.learned.known(), true
	}
	f = r.file.learned.known()
	switch {
	case f == nil || !f.HasID:
		return f, true
	case len(e.given.byPath[bareName(f.Path)]) > 1:
		return nil, true
	}
	return f, false
}

// identified reports whether the build ID that a run's file gets is proven to be its own,
// or it gets none.
func (e *Mappings) identified(r *run) bool {
	_, sure := e.announced(r)
	return r.file.hasID || sure
}

// disputed reports whether the trace has several build IDs for the file of a run, so that
// the code at hand can be that of another one.
func (e *Mappings) disputed(r *run) bool {
	f, _ := e.announced(r)
	return f == nil && !r.file.hasID
}

// file is the File of a run. Its build ID is the one that the dump gives, or that of a
// mapping event made when the kernel looked at this very file.
func (e *Mappings) file(r *run) *filemap.File {
	made := &r.file.file
	if r.life != nil && r.life.learned.file != nil {
		made = &r.life.file
	}
	if *made != nil {
		return *made
	}
	m := r.file
	f := &filemap.File{Path: m.name, BuildID: m.id, HasID: m.hasID}
	if l, _ := e.announced(r); !m.hasID && l != nil {
		f.BuildID, f.HasID, f.Words = l.BuildID, l.HasID, l.Words
		if bareName(l.Path) == bareName(m.name) {
			f.Path = l.Path
		}
	}
	*made = f
	return f
}

// withID is the file of this name and inode that has a build ID: an inode
// number can be another file's later.
func (d *Dump) withID(m *mapped, id filemap.BuildID) *mapped {
	f := d.byID[generation{m, id}]
	if f == nil {
		f = &mapped{key: m.key, name: m.name, id: id, hasID: true}
		d.byID[generation{m, id}] = f
		m.generations = append(m.generations, f)
	}
	return f
}
