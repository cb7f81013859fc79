package sideband

import (
	"ustack/filemap/procmap"
	"ustack/filemap/space"
	"ustack/tracefs/perf"
)

// generations has the generation of the inodes of a recording's files: the number of an inode
// goes to another file once the first one is deleted, with another generation.
type generations map[numbered]generation

// numbered is a file as space.File has it.
type numbered struct {
	name  string
	dev   procmap.Dev
	inode uint64
}

type generation struct {
	number  uint32
	several bool
}

// maxGenerations bounds the files.
const maxGenerations = 1 << 16

// note notes a mapping. perf itself reports those of programs that ran before it, without the
// generation.
func (g *generations) note(m *procmap.Mapping, rec *perf.Record) {
	if m.Inode == 0 {
		return
	}
	if *g == nil {
		*g = make(generations)
	}
	key, is := numbered{m.Name, m.Dev, m.Inode}, uint32(rec.InodeGeneration)
	was, known := (*g)[key]
	switch {
	case known && was.number != 0 && is != 0:
		was.several = was.several || was.number != is
		(*g)[key] = was
	case known && is == 0:
	case known || len(*g) < maxGenerations:
		(*g)[key] = generation{number: is}
	}
}

// Generation returns the generation of the inode of a file, 0 if no record has one. ok is false if
// there were several.
func (r *Recorded) Generation(f *space.File) (number uint32, ok bool) {
	g, ok := r.generations[numbered{f.Name, f.Dev, f.Inode}]
	return g.number, ok && !g.several
}
