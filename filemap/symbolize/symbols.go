// Package symbolize names functions: from a file and an offset in it to function,
// source line and functions inlined there. It is a stage between attribution and
// rendering: renderers get frames with their names (package symbol).
//
// Names come from ELF symbol tables and DWARF debug information of files on
// this machine. A file is used only if it is the one that the trace means, by
// its build ID; where nothing proves a name, there is a reason instead.
package symbolize

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"ustack/filemap"
	"ustack/filemap/callsite"
	"ustack/filemap/openfile"
	"ustack/filemap/symbol"
)

// Options configure Symbols.
type Options struct {
	// Sysroot is a directory with the files of the traced machine at their paths.
	// The user vouches for it: files without a build ID are believed. Without it
	// the paths are this machine's. Paths of a trace never leave it.
	Sysroot string
	// DebugDirs are more directories with debug information, in the order in which
	// they are searched: DIR/.build-id/xx/yyyy.debug, DIR/xx/yyyy.debug, and by
	// path for .gnu_debuglink.
	DebugDirs []string
	// Home is the user's home directory, for perf's cache in .debug; "" for none.
	Home string
	// Fetch gets a file that is nowhere here by its build ID in hexadecimal
	// from somewhere else, and returns its path; nil for nothing of the kind.
	// what is "executable" or "debuginfo".
	Fetch func(id, what string) (path string, err error)
	// Loading is called before the symbols and the debug information of a file are read,
	// and what it returns afterwards. It may be nil.
	Loading func(path string) (done func())
	// Since is a time before all paths of the trace were read from this machine's kernel, for
	// openfile.Opener.CheckOwner; nil if it is not known.
	Since *openfile.Begin
	// NoLines leaves out source lines and inlined functions.
	NoLines bool
	// NoInfer has Skipped find nothing.
	NoInfer bool
	// Memory bounds the data of files that is kept, in bytes; 0 for the
	// default.
	Memory int
}

// Bounds on memory.
const (
	defaultMemory = 256 << 20
	maxOpen       = 128 // files
	nameBytes     = 272 // about what a name needs, besides its text
)

// Symbols finds names. It is not for several goroutines at once.
type Symbols struct {
	opt    Options
	find   finder
	files  map[*filemap.File]*source
	list   []*source
	last   *source
	tick   int
	memory int
	named  uint64 // the ID of the newest name
	pairs  map[pair]*inference
	starts map[pair]*callsite.Start
	begun  begunTable
}

// New returns Symbols.
func New(opt Options) (*Symbols, error) {
	if opt.Memory == 0 {
		opt.Memory = defaultMemory
	}
	s := &Symbols{opt: opt, files: make(map[*filemap.File]*source)}
	s.find.debug, s.find.fetch, s.find.loading, s.find.since = opt.DebugDirs, opt.Fetch, opt.Loading, opt.Since
	files := openfile.NewOpener(0)
	s.find.system.traced, s.find.system.files, s.find.local.files = true, files, files
	if opt.Home != "" {
		s.find.cache = filepath.Join(opt.Home, ".debug")
	}
	if err := checkDirectories(opt.DebugDirs); err != nil {
		files.Close()
		return nil, err
	}
	if opt.Sysroot != "" {
		root, err := os.OpenRoot(opt.Sysroot)
		if err != nil {
			files.Close()
			return nil, fmt.Errorf("opening the sysroot: %w", err)
		}
		s.find.system, s.find.sysroot = lookupRoot{name: opt.Sysroot, root: root, files: files}, true
	}
	return s, nil
}

// Close closes all files.
func (s *Symbols) Close() {
	for _, src := range s.list {
		src.close()
	}
	s.list, s.last = nil, nil
	clear(s.files)
	if s.find.system.root != nil {
		_ = s.find.system.root.Close()
	}
	s.find.system.files.Close()
}

// Name names the code at an offset of a file. ran means that the thread was at the
// offset itself: it is the innermost frame of a stack. Others are return addresses,
// and the call is before them. Equal arguments give the same pointer for some time;
// it is never nil.
func (s *Symbols) Name(f *filemap.File, offset uint64, ran bool) *symbol.Name {
	src := s.last
	if src == nil || src.want != f {
		src = s.source(f)
	}
	if src.again() {
		s.drop(src)
		src = s.source(f)
	}
	s.last = src
	if offset >= 1<<63 { // no file is that long
		return src.name(offset, ran)
	}
	key := offset<<1 | uint64(one(ran))
	if n := src.names[key]; n != nil {
		return n
	}
	n := s.read(src, offset, ran)
	if src.written() {
		s.drop(src)
		src = s.source(f) // what is at the path now
		s.last = src
		if n = s.read(src, offset, ran); src.written() {
			return &symbol.Name{Reason: symbol.Unreadable}
		}
	}
	n.Provisional = src.provisional()
	s.number(n)
	src.names[key] = n
	src.named += cost(n)
	s.memory += cost(n)
	s.shrink(src)
	return n
}

// read finds the name of an offset, and counts the memory that it takes to read the file.
func (s *Symbols) read(src *source, offset uint64, ran bool) *symbol.Name {
	before := src.memory()
	n := src.name(offset, ran)
	s.memory += src.memory() - before
	return n
}

// number gives a name that is kept its number.
func (s *Symbols) number(n *symbol.Name) {
	s.named++
	n.ID = s.named
}

// Tries returns the places where a file was looked for.
func (s *Symbols) Tries(f *filemap.File) []symbol.Try {
	src := s.source(f)
	before := src.memory()
	src.load()
	s.memory += src.memory() - before
	s.shrink(src)
	return src.tries
}

// source finds, or opens, the source of a file.
func (s *Symbols) source(f *filemap.File) *source {
	s.tick++
	src := s.files[f]
	if src == nil {
		src = open(&s.find, f, !s.opt.NoLines)
		s.files[f] = src
		s.list = append(s.list, src)
		s.memory += src.memory()
	}
	src.tick = s.tick
	s.shrink(src)
	return src
}

// shrink closes the files that were not used for the longest time while there
// are too many, but not keep.
func (s *Symbols) shrink(keep *source) {
	for (s.memory > s.opt.Memory || len(s.list) > maxOpen) && len(s.list) > 1 {
		oldest := slices.MinFunc(s.list, func(a, b *source) int {
			switch {
			case a == keep:
				return 1
			case b == keep:
				return -1
			}
			return a.tick - b.tick
		})
		s.drop(oldest)
	}
	if s.memory > s.opt.Memory && len(keep.names) > 1 {
		s.memory -= keep.named
		keep.named = 0
		clear(keep.names)
	}
}

// drop closes a file.
func (s *Symbols) drop(src *source) {
	s.memory -= src.memory()
	if s.last == src {
		s.last = nil
	}
	src.close()
	delete(s.files, src.want)
	s.list = slices.DeleteFunc(s.list, func(x *source) bool { return x == src })
}

// cost returns about how many bytes a name needs.
func cost(n *symbol.Name) int {
	size := len(n.Function) + len(n.File)
	for i := range n.Inlined {
		size += 40 + len(n.Inlined[i].Function) + len(n.Inlined[i].File)
	}
	return nameBytes + size
}
