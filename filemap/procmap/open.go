package procmap

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"ustack/filemap/openfile"
	"ustack/tracefs/privilege"
)

// OpenMapped opens the very file that a process has mapped, never another one of its
// name, with the time limits of an Opener, for opening and reading: m needs the
// addresses, the name, the device and the inode. The error wraps the system's,
// unix.ESTALE if the file at the path is another one.
func (r *Reader) OpenMapped(files *openfile.Opener, pid int, m *Mapping) (*openfile.File, error) {
	if !mayHaveID(m) {
		return nil, fmt.Errorf("opening the mapped file %q: %w", m.Name, errors.ErrUnsupported)
	}
	f := newMappedFile(r, pid, m) // the call may go on without us
	// A directory of this name that is slow is one of this process.
	name := string(appendPath(nil, r.Proc(), pid, "root")) + m.Name
	file, err := files.By(name, func() (*os.File, error) {
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
