package outfile

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Dir is a directory for output. Files are created in this directory even if its
// path leads to another one by now.
type Dir struct {
	path string
	fd   int
}

// OpenDir opens a directory. It is created, private, with its parents if it does
// not exist. A symbolic link in its place is an error.
func OpenDir(path string) (*Dir, error) {
	path = filepath.Clean(path) // "dir/" would follow a link
	const private = 0o700
	var st unix.Stat_t
	if unix.Lstat(path, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFLNK {
		return nil, fmt.Errorf("%s: %w", path, ErrLink)
	}
	if err := os.MkdirAll(path, private); err != nil {
		return nil, err
	}
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return &Dir{path, fd}, nil
}

// New creates a private file in the directory, as New does.
func (d *Dir) New(name string) (*os.File, error) {
	return newAt(d.fd, name, filepath.Join(d.path, name))
}

// Close closes the directory. Files that are open stay open.
func (d *Dir) Close() error { return unix.Close(d.fd) }
