package intake

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// handle is an open directory. All operations use its descriptor: its path may
// lead elsewhere by now. The zero handle is invalid.
type handle struct {
	file *os.File
}

func (h handle) fd() int { return int(h.file.Fd()) }

func (h handle) close() {
	if h.file != nil {
		_ = h.file.Close() // of a directory: nothing is lost
	}
}

// path returns the name of a file of the directory, for messages.
func (h handle) path(name string) string { return filepath.Join(h.file.Name(), shown(name)) }

// openDirectory opens a directory that the user has named.
func openDirectory(path string) (handle, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return handle{}, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return handle{os.NewFile(uintptr(fd), path)}, nil
}

// beneath is how a file in the directory is opened: no symbolic link is followed,
// and nothing outside is reached (man 2 openat2).
const beneath = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS

// open opens a file of the directory. Kernels before 5.6 have no openat2, and
// filters that do not know it refuse it.
func (h handle) open(name string, flags int) (*os.File, error) {
	if name == "" || name == "." || name == ".." || strings.ContainsRune(name, '/') {
		return nil, &os.PathError{Op: "open", Path: h.path(name), Err: unix.EINVAL}
	}
	flags |= unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err := retry(func() (int, error) {
		return unix.Openat2(h.fd(), name, &unix.OpenHow{Flags: uint64(flags), Resolve: beneath})
	})
	if err == unix.ENOSYS || err == unix.EPERM {
		fd, err = h.openOld(name, flags)
	}
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: h.path(name), Err: err}
	}
	return os.NewFile(uintptr(fd), h.path(name)), nil
}

// openOld is as safe: the name has no directories, so that O_NOFOLLOW is all there
// is to it.
func (h handle) openOld(name string, flags int) (int, error) {
	return retry(func() (int, error) { return unix.Openat(h.fd(), name, flags|unix.O_NOFOLLOW, 0) })
}

func retry(open func() (int, error)) (int, error) {
	for {
		fd, err := open()
		if err != unix.EINTR {
			return fd, err
		}
	}
}

// create creates a private file in the directory, which must not exist.
func (h handle) create(name string) (*os.File, error) {
	const private = 0o600
	fd, err := retry(func() (int, error) {
		return unix.Openat(h.fd(), name, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, private)
	})
	if err != nil {
		return nil, &os.PathError{Op: "create", Path: h.path(name), Err: err}
	}
	return os.NewFile(uintptr(fd), h.path(name)), nil
}

// stat looks at a file of the directory itself, and follows no link.
func (h handle) stat(name string) (st unix.Stat_t, err error) {
	err = unix.Fstatat(h.fd(), name, &st, unix.AT_SYMLINK_NOFOLLOW)
	return st, err
}

func (h handle) has(name string) bool {
	_, err := h.stat(name)
	return err == nil
}

func (h handle) remove(name string) error { return unix.Unlinkat(h.fd(), name, 0) }

// move gives a file another directory and name. A file that has the name there
// stays: that is unix.EEXIST.
func (h handle) move(name string, to handle, newName string) error {
	err := unix.Renameat2(h.fd(), name, to.fd(), newName, unix.RENAME_NOREPLACE)
	if err != unix.ENOSYS && err != unix.EINVAL { // not all file systems can
		return err
	}
	if to.has(newName) {
		return unix.EEXIST
	}
	return unix.Renameat(h.fd(), name, to.fd(), newName)
}

// ownDirectory opens a directory below this one, and creates it, private, if it
// does not exist. Others may have put it there: it must be ours alone, and every
// one on the way.
func (h handle) ownDirectory(names ...string) (handle, error) {
	at := h
	for i, name := range names {
		next, err := at.ownChild(name)
		if i > 0 {
			at.close()
		}
		if err != nil {
			return handle{}, err
		}
		at = next
	}
	return at, nil
}

func (h handle) ownChild(name string) (handle, error) {
	const private = 0o700
	if err := unix.Mkdirat(h.fd(), name, private); err != nil && err != unix.EEXIST {
		return handle{}, &os.PathError{Op: "mkdir", Path: h.path(name), Err: err}
	}
	f, err := h.open(name, unix.O_RDONLY|unix.O_DIRECTORY)
	if errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		return handle{}, fmt.Errorf("%s is not a directory (a symbolic link is not followed): remove it", h.path(name))
	}
	if err != nil {
		return handle{}, err
	}
	var st unix.Stat_t
	if err = unix.Fstat(int(f.Fd()), &st); err == nil {
		err = ours(&st)
	}
	if err != nil {
		return handle{}, errors.Join(fmt.Errorf("%s: %w", f.Name(), err), f.Close())
	}
	return handle{f}, nil
}

// ours checks that a directory is ours, and that no one else can write to it.
func ours(st *unix.Stat_t) error {
	const othersWrite = unix.S_IWGRP | unix.S_IWOTH
	switch {
	case int(st.Uid) != os.Geteuid():
		return fmt.Errorf("it belongs to user %d, not to user %d, as which we run: remove it, or change its owner", st.Uid, os.Geteuid())
	case st.Mode&othersWrite != 0:
		return fmt.Errorf("others can write to it (mode %04o): chmod go-w", st.Mode&0o7777)
	}
	return nil
}

func sameDirectory(a, b handle) (bool, error) {
	is, err := a.file.Stat()
	other, oerr := b.file.Stat()
	if err = errors.Join(err, oerr); err != nil {
		return false, err
	}
	return os.SameFile(is, other), nil
}

// below returns the names that lead from a directory to another one below it,
// nil if it is elsewhere.
func below(dir, path string) []string {
	parent, base := filepath.Split(filepath.Clean(path))
	for _, d := range []string{dir, resolved(dir)} {
		for _, p := range []string{path, filepath.Join(resolved(parent), base)} {
			if rel, err := filepath.Rel(d, p); err == nil && rel != "." && filepath.IsLocal(rel) {
				return strings.Split(rel, "/")
			}
		}
	}
	return nil
}

// resolved returns a path without symbolic links, or as it is.
func resolved(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	return path
}
