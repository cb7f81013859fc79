package timeline

import (
	"ustack/filemap"
	"ustack/filemap/space"
)

// files turns the files of address spaces into those that frames get, one for
// one.
type files struct {
	set    *filemap.Files
	known  map[*space.File]*filemap.File
	memos  map[*space.File]*filemap.Memory
	byName map[string]*filemap.Memory
}

// maxFiles bounds what is kept; it is far above what a machine runs.
const maxFiles = 1 << 14

func newFiles() files {
	return files{
		set: filemap.NewFiles(), known: make(map[*space.File]*filemap.File),
		memos: make(map[*space.File]*filemap.Memory), byName: make(map[string]*filemap.Memory),
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
	file := fs.set.InternID([]byte(f.Name), filemap.BuildID(f.BuildID.Padded()))
	fs.known[f] = file
	return file
}

// memory is the Memory that a mapping without a file is.
func (fs *files) memory(f *space.File) *filemap.Memory {
	if known := fs.memos[f]; known != nil {
		return known
	}
	if len(fs.memos) >= maxFiles {
		fs.memos, fs.byName = make(map[*space.File]*filemap.Memory), make(map[string]*filemap.Memory)
	}
	name := f.Name
	if name == "" {
		name = "[anon]"
	}
	m := fs.byName[name]
	if m == nil {
		m = &filemap.Memory{Name: name}
		fs.byName[name] = m
	}
	fs.memos[f] = m
	return m
}
