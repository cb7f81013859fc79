// Package outfile creates the files that a user names for output.
//
// Such a name can be in a directory where others can write, such as /tmp, and
// ustack often runs as root. So nothing that others put there is used: a regular
// file is always a new one, private, and no symbolic link in the place of the file
// is followed. Pipes and character devices stay what they are.
package outfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// ErrLink: the name leads to a symbolic link.
var ErrLink = errors.New("a symbolic link is not followed: name the file it leads to, or remove it")

// private is the mode of files: a trace is for its user alone.
const private = 0o600

// Create opens the output called name: a pipe, a character device, or one of our
// own descriptors, by Special, or else a new file, by New.
func Create(name string) (*os.File, error) {
	f, err := Special(name)
	if f != nil || err != nil {
		return f, err
	}
	return New(name)
}

// Special opens name for writing if it is a pipe, a character device, or one of
// our own descriptors (/dev/stdout, /dev/fd/N). It returns nil for a regular file
// and for a name that does not exist. All else is an error, ErrLink for a symbolic
// link. Opening a pipe waits for its reader (man 7 fifo).
func Special(name string) (*os.File, error) {
	if fd, ok := descriptor(name); ok {
		return duplicate(fd, name)
	}
	info, err := os.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	switch info.Mode().Type() {
	case 0:
		return nil, nil
	case fs.ModeSymlink:
		return nil, fmt.Errorf("%s: %w", name, ErrLink)
	case fs.ModeNamedPipe:
		if err := trustPipe(name, info); err != nil {
			return nil, err
		}
	case fs.ModeDevice | fs.ModeCharDevice:
	default:
		return nil, fmt.Errorf("%s is not a file, pipe or character device", name)
	}
	return openSpecial(name, info)
}

// openSpecial opens a pipe or character device. The opened file is checked
// again: the name may lead to something else by now.
func openSpecial(name string, is fs.FileInfo) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_WRONLY|unix.O_NOFOLLOW|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !os.SameFile(info, is) {
		err = fmt.Errorf("%s became another file while it was opened", name)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// trustPipe refuses a pipe that another user has put into a directory where all
// can write, by the rule of the kernel for shells, which is not on everywhere
// (fs.protected_fifos=1, may_create_in_sticky in fs/namei.c).
func trustPipe(name string, info fs.FileInfo) error {
	in, err := os.Stat(filepath.Dir(name))
	if err != nil {
		return err
	}
	const writable = 0o002
	pipe, dir := owner(info), owner(in)
	if in.Mode()&fs.ModeSticky == 0 || in.Mode()&writable == 0 || pipe == dir || pipe == os.Geteuid() {
		return nil
	}
	return fmt.Errorf("%s is a pipe of another user in a directory where all can write: make one elsewhere", name)
}

// owner returns the user who owns a file, -1 if unknown.
func owner(info fs.FileInfo) int {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return -1
	}
	return int(st.Uid)
}

// ownDescriptors are the directories with a link for each of our descriptors.
var ownDescriptors = [...]string{"/dev/fd/", "/proc/self/fd/", "/proc/thread-self/fd/"}

// descriptor returns the number of one of our own descriptors, by its path. The
// links that stand for them lead to files, which a report must not replace: the
// shell has opened them.
func descriptor(name string) (fd int, ok bool) {
	switch name = filepath.Clean(name); name {
	case "/dev/stdout":
		return unix.Stdout, true
	case "/dev/stderr":
		return unix.Stderr, true
	}
	for _, dir := range ownDescriptors {
		if number, found := strings.CutPrefix(name, dir); found {
			v, err := strconv.ParseUint(number, 10, 20)
			return int(v), err == nil
		}
	}
	return 0, false
}

// duplicate makes a descriptor of our own of one that the shell has given us.
// Descriptors that we have opened ourselves are closed on exec, so they are not taken.
func duplicate(fd int, name string) (*os.File, error) {
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
	if err == nil && flags&unix.FD_CLOEXEC != 0 {
		err = unix.EBADF
	}
	if err != nil {
		return nil, &os.PathError{Op: "dup", Path: name, Err: err}
	}
	own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "dup", Path: name, Err: err}
	}
	return os.NewFile(uintptr(own), name), nil
}

// New creates a private file, open for writing. A regular file by that name is
// removed first, whichever process has it open and whatever other names it has;
// all else is an error, ErrLink for a symbolic link.
func New(name string) (*os.File, error) { return newAt(unix.AT_FDCWD, name, name) }

// newAt creates a file in a directory. path is its name in messages.
func newAt(dir int, name, path string) (*os.File, error) {
	const tries = 8 // against a process that creates the file again and again
	for range tries {
		fd, err := create(dir, name)
		if err == nil {
			return os.NewFile(uintptr(fd), path), nil
		}
		if err != unix.EEXIST {
			return nil, &os.PathError{Op: "create", Path: path, Err: err}
		}
		if err := removeRegular(dir, name); err != nil && !errors.Is(err, unix.ENOENT) {
			return nil, fmt.Errorf("replacing %s: %w", path, err)
		}
	}
	return nil, &os.PathError{Op: "create", Path: path, Err: unix.EEXIST}
}

// Next creates a private file, open for writing, if there is nothing by that name: else the error
// is fs.ErrExist.
func Next(name string) (*os.File, error) {
	fd, err := create(unix.AT_FDCWD, name)
	if err != nil {
		return nil, &os.PathError{Op: "create", Path: name, Err: err}
	}
	return os.NewFile(uintptr(fd), name), nil
}

func create(dir int, name string) (fd int, err error) {
	for {
		fd, err = unix.Openat(dir, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, private)
		if err != unix.EINTR {
			return fd, err
		}
	}
}

// removeRegular removes the name of a regular file.
func removeRegular(dir int, name string) error {
	var st unix.Stat_t
	if err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		return unix.Unlinkat(dir, name, 0)
	case unix.S_IFLNK:
		return ErrLink
	}
	return errors.New("it is not a regular file")
}
