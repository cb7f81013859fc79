package procmap

import (
	"io"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"ustack/filemap/elfid"
	"ustack/filemap/openfile"
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

// fileID reads the build ID from the file that is mapped, the zero ID if there
// is none or the file cannot be had.
func (h *Handle) fileID(m *Mapping) elfid.ID {
	fd, err := h.openFile(m)
	if err != nil {
		return elfid.ID{}
	}
	defer unix.Close(fd)
	id, err := elfid.Read(fdReader(fd))
	if err != nil {
		return elfid.ID{}
	}
	return id
}

// openFile opens the very file that is mapped, never another one with its
// name: through map_files, which the kernel resolves by the mapping, or else by
// its path as the process sees it, if device and inode are right.
func (h *Handle) openFile(m *Mapping) (int, error) {
	defer h.r.raise().Lower()
	// The name has no leading zeros (proc_map_files_lookup in fs/proc/base.c).
	h.r.setPath(h.pid, "map_files/")
	h.r.path = append(strconv.AppendUint(h.r.path, m.Start, 16), '-')
	h.r.path = strconv.AppendUint(h.r.path, m.End, 16)
	if fd, err := h.openAs(string(h.r.path), m, true); err == nil {
		return fd, nil
	}
	if m.Kind != File {
		return -1, unix.ENOENT
	}
	h.r.setPath(h.pid, "root")
	return h.openAs(string(h.r.path)+m.Name, m, false)
}

// openAs opens a path if it is the mapping's file. The path alone is opened
// first, which does nothing to devices and pipes.
func (h *Handle) openAs(path string, m *Mapping, byMapping bool) (int, error) {
	at, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	defer unix.Close(at)
	var st unix.Stat_t
	if err := unix.Fstat(at, &st); err != nil {
		return -1, err
	}
	if err := openfile.Check(at); err != nil {
		return -1, err
	}
	if !sameFile(&st, m) && !(byMapping && hidesDevice(at) && h.stillMapped(m)) {
		return -1, unix.ESTALE
	}
	return unix.Open(h.r.opt.Proc+"/self/fd/"+strconv.Itoa(at), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
}

func sameFile(st *unix.Stat_t, m *Mapping) bool {
	return st.Ino == m.Inode && m.Dev == Dev{unix.Major(st.Dev), unix.Minor(st.Dev)}
}

// hidesDevice reports whether stat(2) shows other devices or inode numbers on a
// file system than /proc/PID/maps does: it is that of the subvolume on btrfs,
// that of a layer on overlayfs.
func hidesDevice(fd int) bool {
	var st unix.Statfs_t
	if unix.Fstatfs(fd, &st) != nil {
		return false
	}
	return st.Type == unix.BTRFS_SUPER_MAGIC || st.Type == unix.OVERLAYFS_SUPER_MAGIC
}

// stillMapped reports whether the mapping is what it was, so that what its
// link in map_files led to meanwhile was its file.
func (h *Handle) stillMapped(m *Mapping) bool {
	fd, err := unix.Open(h.r.opt.Proc+"/"+strconv.Itoa(h.pid)+"/maps", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	still := false
	_ = scanText(fd, func(t *Mapping) bool {
		still = t.Start == m.Start && t.End == m.End && t.Dev == m.Dev && t.Inode == m.Inode && t.Offset == m.Offset
		return t.Start < m.Start
	})
	return still
}

// scanText reads an open /proc/PID/maps with memory of its own, so that it can
// be done while another one is being read.
func scanText(fd int, fn func(m *Mapping) bool) error {
	var r Reader
	return r.readText(fd, fn)
}

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
