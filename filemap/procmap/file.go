package procmap

import (
	"io"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"ustack/filemap/elfid"
	"ustack/filemap/openfile"
	"ustack/tracefs/privilege"
)

// mayHaveID reports whether a mapping's file can be an ELF file. Devices and
// the files of the kernel's own file systems are not read: that can do things.
func mayHaveID(m *Mapping) bool {
	if !m.Kind.HasFile() || m.Inode == 0 || m.Name == "" || m.Name[0] != '/' {
		return false
	}
	switch {
	case strings.HasPrefix(m.Name, "/dev/"):
		return strings.HasPrefix(m.Name, "/dev/shm/")
	case strings.HasPrefix(m.Name, "/proc/"), strings.HasPrefix(m.Name, "/sys/"):
		return false
	}
	return true
}

// mappedFile is the file of a mapping, to be read, and what came of it. It has
// no memory of a Reader's: the read may be given up, and goes on then.
type mappedFile struct {
	proc string
	pid  int
	m    Mapping

	id  elfid.ID
	err error
	// unsure: it was the mapping's file if the mapping has stayed.
	unsure bool
}

// read reads the build ID.
func (f *mappedFile) read() {
	fd, err := f.open()
	if err != nil {
		f.err = err
		return
	}
	defer closeFD(fd)
	f.id, f.err = elfid.Read(fdReader(fd))
}

// open opens the very file that is mapped, never another one with its name:
// through map_files, which the kernel resolves by the mapping, or else by its
// path as the process sees it, if device and inode are right.
func (f *mappedFile) open() (int, error) {
	defer privilege.RaiseIn(f.proc).Lower()
	// The name has no leading zeros (proc_map_files_lookup in fs/proc/base.c).
	dir := f.proc + "/" + strconv.Itoa(f.pid) + "/"
	fd, err := f.openAs(dir+"map_files/"+strconv.FormatUint(f.m.Start, 16)+"-"+strconv.FormatUint(f.m.End, 16), true)
	if err == nil || f.m.Kind != File {
		return fd, err
	}
	return f.openAs(dir+"root"+f.m.Name, false)
}

// openAs opens a path if it is the mapping's file. The path alone is opened
// first, which does nothing to devices and pipes.
func (f *mappedFile) openAs(path string, byMapping bool) (int, error) {
	at, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	defer closeFD(at)
	var st unix.Stat_t
	if err := unix.Fstat(at, &st); err != nil {
		return -1, err
	}
	if err := openfile.Check(at); err != nil {
		return -1, err
	}
	f.unsure = !sameFile(&st, &f.m)
	if f.unsure && !(byMapping && hidesDevice(at)) {
		return -1, unix.ESTALE
	}
	return unix.Open(f.proc+"/self/fd/"+strconv.Itoa(at), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
}

func sameFile(st *unix.Stat_t, m *Mapping) bool {
	return st.Ino == m.Inode && m.Dev == Dev{unix.Major(st.Dev), unix.Minor(st.Dev)}
}

// hidesDevice reports whether stat(2) shows other devices or inode numbers on a
// file system than /proc/PID/maps does: stat(2) shows the subvolume's on btrfs,
// a layer's on overlayfs.
func hidesDevice(fd int) bool {
	var st unix.Statfs_t
	if unix.Fstatfs(fd, &st) != nil {
		return false
	}
	return st.Type == unix.BTRFS_SUPER_MAGIC || st.Type == unix.OVERLAYFS_SUPER_MAGIC
}

// closeFD closes a descriptor that was only read from: nothing can be lost.
func closeFD(fd int) { _ = unix.Close(fd) }

// fdReader reads a file by its descriptor.
type fdReader int

// ReadAt implements io.ReaderAt.
func (fd fdReader) ReadAt(b []byte, off int64) (int, error) {
	done := 0
	for done < len(b) {
		n, err := unix.Pread(int(fd), b[done:], off+int64(done))
		switch {
		case err == unix.EINTR:
		case err != nil:
			return done, err
		case n == 0:
			return done, io.EOF
		default:
			done += n
		}
	}
	return done, nil
}
