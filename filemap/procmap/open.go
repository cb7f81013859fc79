package procmap

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"ustack/filemap/openfile"
	"ustack/tracefs/privilege"
)

// OpenMapped is a mapped file that is open.
type OpenMapped struct {
	io.ReaderAt
	io.Closer
	Size int64
}

// OpenMapped opens the very file that a process has mapped, never another one of its
// name: m needs the addresses, the name, the device and the inode. The error wraps
// the system call's, unix.ESTALE if the file at the path is another one.
func (r *Reader) OpenMapped(pid int, m *Mapping) (*OpenMapped, error) {
	if !mayHaveID(m) {
		return nil, fmt.Errorf("opening the mapped file %q: %w", m.Name, errors.ErrUnsupported)
	}
	f := newMappedFile(r, pid, m)
	fd, err := f.open()
	if err != nil {
		return nil, fmt.Errorf("opening the mapped file %q: %w", m.Name, err)
	}
	file, err := openfile.AsFile(fd, m.Name)
	if err != nil {
		return nil, fmt.Errorf("opening the mapped file %q: %w", m.Name, err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		_ = file.Close() // it was only read from
		return nil, fmt.Errorf("opening the mapped file %q: it is no regular file", m.Name)
	}
	return &OpenMapped{file, file, st.Size}, nil
}

// OpenPatiently is OpenMapped with the time limits of an Opener, for opening and reading.
func (r *Reader) OpenPatiently(files *openfile.Opener, pid int, m *Mapping) (*openfile.File, error) {
	if !mayHaveID(m) {
		return nil, fmt.Errorf("opening the mapped file %q: %w", m.Name, errors.ErrUnsupported)
	}
	f := newMappedFile(r, pid, m) // the call may go on without us
	file, err := files.By(m.Name, func() (*os.File, error) {
		fd, err := f.open()
		if err != nil {
			return nil, err
		}
		return openfile.AsFile(fd, f.m.Name)
	})
	if err != nil {
		return nil, fmt.Errorf("opening the mapped file %q: %w", m.Name, err)
	}
	return file, nil
}

// OpenExe opens the very program that a process runs, with the time limits of an Opener
// (man 5 proc: /proc/PID/exe).
func (r *Reader) OpenExe(files *openfile.Opener, pid int) (*openfile.File, error) {
	proc, name := r.Proc(), string(appendPath(nil, r.Proc(), pid, "exe")) // the call may go on without us
	file, err := files.By(name, func() (*os.File, error) {
		defer privilege.RaiseIn(proc).Lower()
		fd, err := unix.Open(name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		if err != nil {
			return nil, err
		}
		return openfile.AsFile(fd, name)
	})
	if err != nil {
		return nil, fmt.Errorf("opening the program of process %d: %w", pid, err)
	}
	return file, nil
}
