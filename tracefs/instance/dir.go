package instance

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"ustack/tracefs/privilege"
)

// dir is a directory of control files.
type dir string

// maxFile bounds the part of a control file that is read. The longest,
// available_events and set_event_pid, have some 100 KiB.
const maxFile = 8 << 20

func (d dir) path(name string) string { return filepath.Join(string(d), name) }

// raise puts our rights into effect for a file, if it is the kernel's own. A
// directory that the user has named is opened with the user's rights.
func (d dir) raise(name string) privilege.Raised {
	path := d.path(name)
	for _, place := range usual {
		if path == place || strings.HasPrefix(path, place+"/") {
			return privilege.Raise(privilege.Tracing)
		}
	}
	return privilege.Raised{}
}

func (d dir) has(name string) bool {
	defer d.raise(name).Lower()
	_, err := os.Lstat(d.path(name))
	return err == nil
}

// stat looks for a file. The error has its path.
func (d dir) stat(name string) error {
	defer d.raise(name).Lower()
	_, err := os.Stat(d.path(name))
	return err
}

// can reports whether a file may be opened: unix.R_OK, unix.W_OK.
func (d dir) can(name string, mode uint32) bool {
	defer d.raise(name).Lower()
	return unix.Faccessat(unix.AT_FDCWD, d.path(name), mode, unix.AT_EACCESS) == nil
}

// open opens a file; it makes none.
func (d dir) open(name string, flags int) (*os.File, error) {
	defer d.raise(name).Lower()
	return os.OpenFile(d.path(name), flags, 0)
}

// FS returns the directory with its control files, open for reading.
func (d dir) FS() fs.FS { return controlFS{d} }

type controlFS struct{ dir }

// Open implements fs.FS.
func (c controlFS) Open(name string) (fs.File, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	f, err := c.open(name, os.O_RDONLY)
	if err != nil {
		return nil, err // f is no fs.File that is nil
	}
	return f, nil
}

// ReadFile implements fs.ReadFileFS. Some files of the kernel cannot be read in
// pieces as small as fs.ReadFile begins with.
func (c controlFS) ReadFile(name string) ([]byte, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	text, err := c.read(name)
	return []byte(text), err
}

// list lists the files of a directory, sorted.
func (d dir) list(name string) ([]string, error) {
	f, err := d.open(name, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	names, err := f.Readdirnames(-1)
	slices.Sort(names)
	return names, err
}

// read returns the text of a file. The error has its path.
func (d dir) read(name string) (string, error) {
	f, err := d.open(name, os.O_RDONLY)
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(text) > maxFile {
		err = fmt.Errorf("%s: more than %d bytes", d.path(name), maxFile)
	}
	return string(text), err
}

// write replaces the value of a file, in one piece, as the kernel wants it. It
// makes no files.
func (d dir) write(name, value string) error {
	f, err := d.open(name, os.O_WRONLY|os.O_TRUNC)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}
