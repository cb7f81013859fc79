package symbolize

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"ustack/filemap/elfid"
	"ustack/filemap/openfile"
	"ustack/filemap/symbol"
	"ustack/filemap/symbol/image"
)

// Separates finds the separate files with debug information of programs and libraries
// on this machine, as names are looked for: by build ID and by .gnu_debuglink. It is not
// for several goroutines at once.
type Separates struct{ find finder }

// NewSeparates returns Separates that look in these directories, too (see
// Options.DebugDirs), and in perf's cache below home, if that is not "".
func NewSeparates(debugDirs []string, home string, files *openfile.Opener) (*Separates, error) {
	if err := checkDirectories(debugDirs); err != nil {
		return nil, err
	}
	s := &Separates{find: finder{debug: debugDirs}}
	s.find.system.traced, s.find.system.files, s.find.local.files = true, files, files
	if home != "" {
		s.find.cache = filepath.Join(home, ".debug")
	}
	return s, nil
}

// Separate is a separate file with debug information that is open.
type Separate struct {
	Path string
	*image.Image
	io.ReaderAt
	Size int64
	io.Closer
	// Check returns why what was read need not be of one file, see openfile.File.Check.
	Check func() error
}

// Find finds the file that goes with an image of this build ID, whose absolute path is
// name. It is nil if there is none. tries are the places where it was looked for.
func (s *Separates) Find(x *image.Image, id elfid.ID, name string) (found *Separate, tries []symbol.Try) {
	o := s.find.companion(&object{image: x, id: id}, name, &tries)
	if o == nil {
		return nil, tries
	}
	return &Separate{Path: o.path, Image: o.image, ReaderAt: o.file, Size: o.file.Size(), Closer: o.file, Check: o.file.Check}, tries
}

// FindFor finds the file that goes with an open one. It is nil if there is none.
func (s *Separates) FindFor(r io.ReaderAt, size int64, name string) (*Separate, error) {
	x, err := image.Open(r, size)
	if err != nil {
		return nil, fmt.Errorf("reading %q: %w", name, err)
	}
	id, err := elfid.Read(r)
	if err != nil {
		return nil, fmt.Errorf("reading the build ID of %q: %w", name, err)
	}
	found, _ := s.Find(x, id, name)
	return found, nil
}

// checkDirectories checks the directories of --debug-dir.
func checkDirectories(dirs []string) error {
	for _, dir := range dirs {
		info, err := os.Stat(dir)
		if err == nil && !info.IsDir() {
			err = errors.New("not a directory")
		}
		if err != nil {
			return fmt.Errorf("--debug-dir %s: %w", dir, err)
		}
	}
	return nil
}
