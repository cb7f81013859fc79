package space

import (
	"strings"
	"sync"

	"ustack/filemap/procmap"
)

// files interns files.
type files struct {
	mu    sync.Mutex
	known map[File]*File
	swept int // how many were left by the last sweep
	names int // bytes of their names
}

// sweepAbove is how many more files than at the last sweep make a sweep worth
// its time.
const sweepAbove = 1 << 12

func (fs *files) intern(f File) *File {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if known, ok := fs.known[f]; ok {
		return known
	}
	fresh := &f
	fs.known[f] = fresh
	fs.names += len(f.Name)
	return fresh
}

// unite returns the file of a mapping that a reading has found again, with what
// either knows of it. ok is false if it is another file.
//
// Two readings must agree in all. The kernel's record of the mapping (Exact) has
// less than a reading: a build ID, or else device and inode; and the name of that
// time, which the file need not have any more.
func (fs *files) unite(known *Mapping, read *File) (f *File, ok bool) {
	have := known.File
	if have == read {
		return have, true
	}
	if !known.Exact || !agree(have, read) {
		return nil, false
	}
	if !have.Kind.HasFile() {
		return read, true // the memory got its own name
	}
	both := *have
	if read.Inode != 0 {
		both.Dev, both.Inode, both.Generation = read.Dev, read.Inode, read.Generation
	}
	if both.BuildID.IsZero() {
		both.BuildID = read.BuildID
	}
	return fs.intern(both), true
}

// agree reports whether two files can be one, by what is known of both.
func agree(have, read *File) bool {
	if !have.Kind.HasFile() {
		switch have.Kind {
		case procmap.Anonymous:
			return read.Kind == procmap.AnonNamed
		case procmap.SharedAnon:
			return read.Kind == procmap.AnonShmem
		}
		return false
	}
	ids := !have.BuildID.IsZero() && !read.BuildID.IsZero()
	inodes := have.Inode != 0 && read.Inode != 0
	switch {
	case !read.Kind.HasFile(), ids && have.BuildID != read.BuildID,
		inodes && (have.Inode != read.Inode || have.Dev != read.Dev):
		return false
	case ids, inodes:
		return true
	}
	return bareName(have.Name) == bareName(read.Name)
}

// Is reports whether a mapping maps the file, by what is known of both.
func (f *File) Is(m *procmap.Mapping) bool {
	read := fileOf(m)
	return agree(f, &read)
}

// Same reports whether two files are known to be one of one name, which the kernel marks
// once the file is deleted: device and inode are the same or else, where one of them has
// none, the build ID. Memory without a file is the same if it has the same kind and name.
func (f *File) Same(o *File) bool {
	if f == o {
		return true
	}
	if f.Kind.HasFile() != o.Kind.HasFile() {
		return false
	}
	ids := !f.BuildID.IsZero() && !o.BuildID.IsZero()
	switch {
	case !f.Kind.HasFile():
		return f.Kind == o.Kind && f.Name == o.Name
	case ids && f.BuildID != o.BuildID, bareName(f.Name) != bareName(o.Name):
		return false
	case f.Inode != 0 && o.Inode != 0:
		return f.Inode == o.Inode && f.Dev == o.Dev && f.Generation == o.Generation
	}
	return ids
}

// bareName is a name without what the kernel appends once the file is deleted.
func bareName(name string) string { return strings.TrimSuffix(name, " (deleted)") }

// size returns about how many bytes the files take.
func (fs *files) size() int64 {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	return int64(len(fs.known))*fileBytes + int64(fs.names)
}

func (fs *files) due() bool {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	return len(fs.known) > 2*fs.swept+sweepAbove
}

// sweep forgets the files that are not used. One that is interned meanwhile may be
// forgotten too, and will then be another pointer: files do not go wrong by that,
// they are only kept twice.
func (fs *files) sweep(used map[*File]bool) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	for f, p := range fs.known {
		if !used[p] {
			delete(fs.known, f)
			fs.names -= len(f.Name)
		}
	}
	fs.swept = len(fs.known)
}
