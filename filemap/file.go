package filemap

import (
	"bytes"
	"sync/atomic"

	"github.com/cespare/xxhash/v2"

	"ustack/tracefs"
)

// File is a file as frames name it. Files are interned: within one Files,
// equal pointers are equal files.
type File struct {
	// Path is as the process saw it, or as the kernel calls memory without a
	// name in the file system ("/memfd:jit (deleted)", "/dev/zero (deleted)",
	// "v8-jit").
	Path string
	// BuildID is the identity of the contents, zero if unknown.
	BuildID BuildID
	// Words is the kernel's own text of the build ID, "" if it is the usual
	// one (BuildID.Words).
	Words string
	// HasID is set if the mapping event carried a build ID, even one of all zeros:
	// the kernel then reports that the file has none.
	HasID bool
	// Used is set when a frame got this file.
	Used bool

	key  uint64 // of build ID and path, see Key; 0 if unknown
	code uint32 // what Application found, once it was asked; to be used as package atomic does
}

// The kinds of code in a file; 0 is one that was not looked at.
const (
	codeOfLibC = 1 + iota
	codeOfApplication
)

// Application reports whether the file has code of a program, and not of the C
// library, in which nearly all waits end. Several goroutines may ask at once.
func (f *File) Application() bool {
	code := atomic.LoadUint32(&f.code)
	if code == 0 {
		code = codeOfApplication
		if CLibrary(f.Path) != "" {
			code = codeOfLibC
		}
		atomic.StoreUint32(&f.code, code)
	}
	return code == codeOfApplication
}

// Begun is the number of a function that threads have begun with, as
// symbolize.Symbols gives it; 0 is none.
type Begun uint32

// Key returns the xxhash of build ID and path: the same for a file on every
// machine.
func (f *File) Key() uint64 {
	if f.key != 0 { // it is of a Files
		return f.key
	}
	return f.hash()
}

func (f *File) hash() uint64 {
	var d xxhash.Digest
	d.Reset()
	_, _ = d.Write(f.BuildID[:])
	_, _ = d.WriteString(f.Path)
	return d.Sum64()
}

// Identifier returns a file's number in a report, in place of the kernel's
// hash: its Key, but for values that mean something else in a trace
// (tracefs.Identifier.NoFile, NoVMA). With a mark it is another one, for the
// frames of which it is less sure that they are in the file.
func (f *File) Identifier(m tracefs.Mark) uint64 {
	const prime = 0x9e3779b97f4a7c15
	key := f.Key() ^ uint64(m)*prime
	if id := tracefs.HashIdentifier(key); id.NoFile() || id.NoVMA() {
		key ^= 1 << 63
	}
	return key
}

// Files interns files.
type Files struct {
	byKey map[uint64][]*File
	bytes int
	count int
}

// NewFiles returns an empty set.
func NewFiles() *Files { return &Files{byKey: make(map[uint64][]*File)} }

// Count returns the number of distinct files that frames got.
func (fs *Files) Count() int { return fs.count }

// fileCost is about what a File needs besides its path: itself, its place in the
// map, and what others keep by it.
const fileCost = 512

// Bytes returns about how much memory the set needs.
func (fs *Files) Bytes() int { return fs.bytes }

// MarkUsed notes that a frame got the file.
func (fs *Files) MarkUsed(f *File) {
	if !f.Used {
		f.Used = true
		fs.count++
	}
}

// Intern returns the one File of a path and a build ID as the kernel printed
// them. words is nil if there was no build ID.
func (fs *Files) Intern(path, words []byte) *File {
	var id BuildID
	has := false
	if words != nil {
		id, has = ParseWords(words)
	}
	f := fs.add(path, id, has)
	if has && f.Words == "" && id.Words() != string(words) && bytes.Contains(words, []byte("0x")) {
		f.Words = string(words)
	}
	return f
}

// InternID returns the one File of a path and a build ID.
func (fs *Files) InternID(path []byte, id BuildID) *File { return fs.add(path, id, true) }

func (fs *Files) add(path []byte, id BuildID, hasID bool) *File {
	var d xxhash.Digest
	d.Reset()
	_, _ = d.Write(id[:])
	_, _ = d.Write(path)
	key := d.Sum64()
	for _, f := range fs.byKey[key] {
		if f.Path == string(path) && f.BuildID == id && f.HasID == hasID {
			return f
		}
	}
	f := &File{Path: string(path), BuildID: id, HasID: hasID, key: key}
	fs.byKey[key] = append(fs.byKey[key], f)
	fs.bytes += fileCost + len(f.Path)
	return f
}

// Retain drops the files that are not in keep. Used files that are dropped stay in
// the count.
func (fs *Files) Retain(keep map[*File]bool) {
	for key, list := range fs.byKey {
		kept := list[:0]
		for _, f := range list {
			if keep[f] {
				kept = append(kept, f)
			} else {
				fs.bytes -= fileCost + len(f.Path)
			}
		}
		clear(list[len(kept):])
		if len(kept) == 0 {
			delete(fs.byKey, key)
			continue
		}
		fs.byKey[key] = kept
	}
}
