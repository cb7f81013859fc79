package perfdata

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// The files of a directory of perf record --threads (tools/perf/util/data.c): one as any other
// perf.data, and one with records alone for each thread of perf.
const (
	dirHead    = "data"
	dirParts   = "data."
	dirVersion = 1 // HEADER_DIR_FORMAT
	// maxParts bounds the files that are open at a time.
	maxParts = 512
)

// openFlags open a file, and do not wait for a pipe that has taken its place.
const openFlags = os.O_RDONLY | unix.O_NONBLOCK

// IsDir reports whether a directory is one of perf record --threads, or --kcore.
func IsDir(name string) bool {
	info, err := os.Lstat(filepath.Join(name, dirHead))
	if err != nil || !info.Mode().IsRegular() {
		return false
	}
	f, err := os.OpenFile(filepath.Join(name, dirHead), openFlags, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	head := make([]byte, magicSize)
	n, _ := f.ReadAt(head, 0)
	return Is(head[:n])
}

// OpenDir opens such a directory. close closes its files, also after an error.
func OpenDir(name string) (f *File, close func() error, err error) {
	var files []*os.File
	close = func() error {
		var errs []error
		for _, f := range files {
			errs = append(errs, f.Close())
		}
		return errors.Join(errs...)
	}
	root, err := os.OpenRoot(name)
	if err != nil {
		return nil, close, fmt.Errorf("opening a directory of perf record: %w", err)
	}
	defer root.Close()
	names, err := partNames(root)
	if err != nil {
		return nil, close, err
	}
	for i, base := range append([]string{dirHead}, names...) {
		p, file, err := openPart(root, base)
		if err != nil {
			return nil, close, err
		}
		files = append(files, file)
		if i > 0 {
			f.parts = append(f.parts, p)
			continue
		}
		if f, err = Open(file, p.size); err != nil {
			return nil, close, err
		}
		f.parts[0].name = base
	}
	if len(names) > 0 && f.pipe {
		return nil, close, malformed(0, "%s is of a pipe, which has no other files", dirHead)
	}
	return f, close, nil
}

// partNames returns the names of the files with records, in order.
func partNames(root *os.Root) ([]string, error) {
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return nil, fmt.Errorf("listing a directory of perf record: %w", err)
	}
	var names []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), dirParts) && e.Type().IsRegular() {
			names = append(names, e.Name())
		}
	}
	if len(names) > maxParts {
		return nil, fmt.Errorf("reading a directory of perf record: it has %d files, %d is the most", len(names), maxParts)
	}
	slices.Sort(names)
	return names, nil
}

// openPart opens a file of the directory. The links of it do not count.
func openPart(root *os.Root, name string) (*part, *os.File, error) {
	info, err := root.Lstat(name)
	if err != nil || !info.Mode().IsRegular() {
		return nil, nil, fmt.Errorf("opening %q of a directory of perf record: %w", name, errors.Join(err, fs.ErrInvalid))
	}
	f, err := root.OpenFile(name, openFlags, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("opening a file of perf record: %w", err)
	}
	return newPart(fmt.Sprintf("%q", name), f, info.Size()), f, nil
}
