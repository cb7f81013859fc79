// Package openfile opens files that a trace names.
//
// A trace is untrusted, and can name anything: reading some files of
// the kernel does things (a trace_pipe is emptied, a trace stops for its reader),
// and so does opening pipes and devices. So a path is opened as a path first, which
// does nothing, and is looked at: only regular files of file systems that keep
// files are opened for reading.
package openfile

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

var (
	// ErrIrregular: the path does not lead to a regular file.
	ErrIrregular = errors.New("not a regular file")
	// ErrKernel: the file is one of the kernel's own, which have no content but
	// what the kernel makes up when they are read.
	ErrKernel = errors.New("a file of the kernel's own, which is not opened")
)

// Named opens a file by its path in a trace. It opens nothing below /proc and
// /sys, nor the target of a link of /proc.
func Named(name string) (*os.File, error) {
	if below(name) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: ErrKernel}
	}
	return open(name, func() (int, error) { return AtPath(name) })
}

// AtPath opens a path alone, not the target of a link of /proc: that need not be in our mount
// namespace.
func AtPath(name string) (fd int, err error) {
	fd, err = unix.Openat2(unix.AT_FDCWD, name, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_MAGICLINKS})
	if err == unix.ENOSYS || err == unix.EPERM { // before Linux 5.6, or for a filter
		return unix.Open(name, unix.O_PATH|unix.O_CLOEXEC, 0)
	}
	return fd, err
}

// Path opens a file by a path that the user has named, or in a directory that the
// user has.
func Path(name string) (*os.File, error) {
	return open(name, func() (int, error) { return unix.Open(name, unix.O_PATH|unix.O_CLOEXEC, 0) })
}

// In opens a file by its path in a trace, in a directory that the user has named
// for such paths. Nothing outside of it is reached.
func In(root *os.Root, name string) (*os.File, error) {
	if name = strings.TrimLeft(name, "/"); below("/" + name) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: ErrKernel}
	}
	const links = 40 // as the kernel has it (MAXSYMLINKS)
	for range links {
		fd, link, err := at(root, name)
		switch {
		case err != nil:
			return nil, err
		case link == "":
			return open(name, func() (int, error) { return fd, nil })
		case link[0] == '/':
			return nil, &fs.PathError{Op: "open", Path: name, Err: errEscapes}
		}
		name = name[:strings.LastIndexByte(name, '/')+1] + link
	}
	return nil, &fs.PathError{Op: "open", Path: name, Err: unix.ELOOP}
}

var errEscapes = errors.New("path escapes from parent")

// at opens the path alone of a file in a directory, or reads where it leads to if
// it is a symbolic link.
func at(root *os.Root, name string) (fd int, link string, err error) {
	dir, base := path.Split(name)
	if base == "" || base == "." || base == ".." {
		return -1, "", &fs.PathError{Op: "open", Path: name, Err: ErrIrregular}
	}
	if dir == "" {
		dir = "."
	}
	in, err := root.OpenFile(strings.TrimRight(dir, "/"), unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return -1, "", err
	}
	defer in.Close()
	if fd, err = unix.Openat(int(in.Fd()), base, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0); err != nil {
		return -1, "", &fs.PathError{Op: "open", Path: name, Err: err}
	}
	if link, err = readLink(fd); err != nil || link != "" {
		_ = unix.Close(fd) // of a path
		if err != nil {
			err = &fs.PathError{Op: "readlink", Path: name, Err: err}
		}
	}
	return fd, link, err
}

// readLink returns where an open symbolic link leads to, "" for all else.
func readLink(fd int) (string, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFLNK {
		return "", err
	}
	to := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(fd, "", to)
	if err == nil && n == 0 {
		err = unix.ENOENT
	}
	return string(to[:max(n, 0)]), err
}

// open opens a file by a descriptor of its path, for reading.
func open(name string, find func() (int, error)) (*os.File, error) {
	var fd int
	var err error
	for fd, err = find(); err == unix.EINTR; {
		fd, err = find()
	}
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	defer unix.Close(fd)
	if err := Check(fd); err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	file, err := unix.Open("/proc/self/fd/"+strconv.Itoa(fd), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return AsFile(file, name)
}

// AsFile makes a file of the descriptor of a regular file that was opened with
// O_NONBLOCK. os.NewFile alone would have the kernel poll it, in a call that the
// scheduler of Go waits for: a server in user space that does not answer that one
// would stop all of the program at its next garbage collection.
func AsFile(fd int, name string) (*os.File, error) {
	if err := unix.SetNonblock(fd, false); err != nil {
		_ = unix.Close(fd)
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return os.NewFile(uintptr(fd), name), nil
}

// Check returns nil for the descriptor of a regular file that is none of the
// kernel's own.
func Check(fd int) error {
	var st unix.Stat_t
	var system unix.Statfs_t
	err := unix.Fstat(fd, &st)
	if err == nil && st.Mode&unix.S_IFMT != unix.S_IFREG {
		return ErrIrregular
	}
	if err != nil {
		return err
	}
	if unix.Fstatfs(fd, &system) != nil {
		return nil // of a server, which gives no answer; the kernel's do
	}
	for _, magic := range kernels {
		if int64(system.Type) == magic {
			return ErrKernel
		}
	}
	return nil
}

// below reports whether a path is one of the kernel's own files where these are
// usually mounted.
func below(name string) bool {
	name = path.Clean(name)
	return name == "/proc" || name == "/sys" || strings.HasPrefix(name, "/proc/") || strings.HasPrefix(name, "/sys/")
}

// kernels are the file systems whose files the kernel makes up
// (include/uapi/linux/magic.h; the last ones are not there, but in
// fs/configfs/mount.c, fs/fuse/control.c, ipc/mqueue.c and
// net/sunrpc/rpc_pipe.c).
var kernels = [...]int64{unix.PROC_SUPER_MAGIC, unix.SYSFS_MAGIC, unix.TRACEFS_MAGIC, unix.DEBUGFS_MAGIC, unix.SECURITYFS_MAGIC,
	unix.CGROUP_SUPER_MAGIC, unix.CGROUP2_SUPER_MAGIC, unix.BPF_FS_MAGIC, unix.PSTOREFS_MAGIC, unix.EFIVARFS_MAGIC,
	unix.SELINUX_MAGIC, unix.SMACK_MAGIC, unix.AAFS_MAGIC, unix.BINFMTFS_MAGIC, unix.NSFS_MAGIC, unix.DEVPTS_SUPER_MAGIC,
	unix.RDTGROUP_SUPER_MAGIC, unix.XENFS_SUPER_MAGIC, unix.OPENPROM_SUPER_MAGIC, unix.USBDEVICE_SUPER_MAGIC,
	0x62656570, 0x65735543, 0x19800202, 0x67596969}
