package observed

import (
	"fmt"
	"os"
	"strings"

	"ustack/filemap"
	"ustack/filemap/openfile"
	"ustack/filemap/resolve"
	elfimage "ustack/filemap/symbol/image"
)

// segmentFiles are the files of a machine, for mappings whose file offsets are unknown.
type segmentFiles struct {
	root  *os.Root
	files *openfile.Opener
	known map[string][]segment // by path; nil for a file that cannot be used
	paths *filemap.Files
}

// segment is where a loadable segment is in a file, and how far its first page is above that of
// the first segment in memory, in whole pages.
type segment struct {
	offset, size, above uint64
	code                bool
}

// maxSegmentFiles bounds the files that are remembered.
const maxSegmentFiles = 1 << 12

func newSegmentFiles(sysroot string) (*segmentFiles, error) {
	root, err := os.OpenRoot(sysroot)
	if err != nil {
		return nil, fmt.Errorf("opening the sysroot: %w", err)
	}
	return &segmentFiles{root: root, files: openfile.NewOpener(0), known: make(map[string][]segment), paths: filemap.NewFiles()}, nil
}

func (f *segmentFiles) close() {
	f.files.Close()
	_ = f.root.Close()
}

// name gives a frame at an address of a mapping its file, if a segment fits. Without files
// nothing has one.
func (f *segmentFiles) name(p *savedPlace, addr uint64, o *resolve.Attribution) {
	if f == nil || o.Reason != filemap.VMAOffset || !strings.HasPrefix(p.memory.Name, "/") {
		return
	}
	offset, ok := fits(f.segments(p.memory.Name), p)
	if !ok {
		return
	}
	// The trace has no build ID, so the frame has none: the user vouches for the file.
	named := resolve.Named(f.paths.Intern([]byte(p.memory.Name), nil), filemap.Late)
	if named.File == nil {
		return
	}
	named.Offset, named.HasOffset = offset+addr-p.start, true
	*o = named
}

// fits returns the file offset of a mapping, if it is as long as one segment with code and no
// other one, and is as far above the file's lowest mapping as that segment is above the first
// one.
func fits(list []segment, p *savedPlace) (offset uint64, ok bool) {
	found := 0
	for _, s := range list {
		if s.size != p.end-p.start {
			continue
		}
		found++
		offset, ok = s.offset, s.code && s.above == p.start-p.first
	}
	return offset, ok && found == 1
}

// segments returns the segments of a file, in whole pages as the kernel maps them
// (elf_map in fs/binfmt_elf.c).
func (f *segmentFiles) segments(name string) []segment {
	list, known := f.known[name]
	if known {
		return list
	}
	if len(f.known) < maxSegmentFiles {
		defer func() { f.known[name] = list }()
	}
	file, err := f.files.In(f.root, name)
	if err != nil {
		return nil
	}
	defer file.Close()
	x, err := elfimage.Open(file, file.Size())
	if err != nil {
		return nil
	}
	const page = 4096
	for i := range x.Segments {
		s := &x.Segments[i]
		in := s.Addr % page
		if s.Off%page != in || s.FileSize == 0 || s.FileSize > 1<<48 || s.Off > 1<<48 || s.Addr < x.Segments[0].Addr {
			return nil // not as the kernel maps it
		}
		size := (in + s.FileSize + page - 1) &^ (page - 1)
		list = append(list, segment{s.Off - in, size, s.Addr - in - x.Segments[0].Addr&^(page-1), s.Exec})
	}
	return list
}
