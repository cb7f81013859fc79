package timeline

import (
	"ustack/filemap"
	"ustack/filemap/elfid"
	"ustack/filemap/procmap"
	"ustack/filemap/space"
)

// files maps each file of an address space to the file that frames get.
type files struct {
	set     *filemap.Files
	known   map[*space.File]*filemap.File
	memos   map[memo]*filemap.Memory
	byName  map[filemap.Memory]*filemap.Memory
	buildID func(*space.File) elfid.ID // Options.BuildID, may be nil
}

// memo is memory without a file: as its mappings have it, and whether they are
// for code.
type memo struct {
	file *space.File
	exec bool
}

// maxFiles bounds what is kept; it is far above what a machine runs.
const maxFiles = 1 << 14

func newFiles() files {
	return files{
		set: filemap.NewFiles(), known: make(map[*space.File]*filemap.File),
		memos: make(map[memo]*filemap.Memory), byName: make(map[filemap.Memory]*filemap.Memory),
	}
}

// of is the File of a mapped file. Two inodes with one path and build ID are
// one File: path and build ID are what a File is.
func (fs *files) of(f *space.File) *filemap.File {
	if known := fs.known[f]; known != nil {
		return known
	}
	if len(fs.known) >= maxFiles {
		fs.set, fs.known = filemap.NewFiles(), make(map[*space.File]*filemap.File)
	}
	var file *filemap.File
	id := f.BuildID
	if fs.buildID != nil {
		id = fs.buildID(f)
	}
	if fs.buildID != nil && id.IsZero() { // it may have one
		file = fs.set.Intern([]byte(f.Name), nil)
	} else {
		file = fs.set.InternID([]byte(f.Name), filemap.BuildID(id.Padded()))
	}
	fs.known[f] = file
	return file
}

// memory is the Memory that a mapping without a file is.
func (fs *files) memory(in *space.Mapping) *filemap.Memory {
	key := memo{in.File, in.Perms&procmap.Exec != 0}
	if known := fs.memos[key]; known != nil {
		return known
	}
	if len(fs.memos) >= maxFiles {
		fs.memos, fs.byName = make(map[memo]*filemap.Memory), make(map[filemap.Memory]*filemap.Memory)
	}
	what := filemap.Memory{Name: in.File.Name, Exec: key.exec}
	if what.Name == "" {
		what.Name = "[anon]"
	}
	m := fs.byName[what]
	if m == nil {
		m = &what
		fs.byName[what] = m
	}
	fs.memos[key] = m
	return m
}
