package procmap

import (
	"bytes"
	"io"
	"strconv"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"ustack/filemap/elfid"
	"ustack/filemap/openfile"
	"ustack/filemap/procmem"
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
	proc   string
	pid    int
	m      Mapping
	memory *procmem.Reader

	id  elfid.ID
	err error
	// unsure: it was the mapping's file if the mapping has stayed.
	unsure bool
	// keep: the file is to be kept by pin.
	keep bool
	pin  pin
	over atomic.Bool // read has come to its end, or is left alone
}

func newMappedFile(r *Reader, pid int, m *Mapping) *mappedFile {
	return &mappedFile{proc: r.opt.Proc, pid: pid, m: *m, memory: r.memory, pin: pin{fd: -1}}
}

// read reads the build ID.
func (f *mappedFile) read() {
	defer f.leave()
	fd, err := f.open()
	if err != nil {
		f.err = err
		return
	}
	defer closeFD(fd)
	if f.keep {
		f.pin = pinOf(f.proc, fd)
	}
	f.id, f.err = elfid.Read(fdReader(fd))
}

// open opens the very file that is mapped, never another one with its name:
// through map_files, which the kernel resolves by the mapping, or else by its
// path as the process sees it, if device and inode are right and show that.
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
	if !byMapping && !openfile.Numbered(at) {
		return -1, unix.ESTALE
	}
	f.unsure = !sameFile(&st, &f.m)
	if f.unsure && !(byMapping && hidesDevice(at)) {
		return -1, unix.ESTALE
	}
	fd, err := unix.Open(f.proc+"/self/fd/"+strconv.Itoa(at), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err == nil && isOverlay(at) {
		f.unsure = true
		if err = f.check(fd); err != nil {
			closeFD(fd)
			return -1, err
		}
	}
	return fd, err
}

// check compares an open file of overlayfs with the memory of the process. Who writes to
// a file of a lower layer writes to a copy in the upper one: all names of the file, its
// link in map_files too, lead to the copy from then on, with device and inode number as
// before, but what was mapped before stays the lower file.
func (f *mappedFile) check(fd int) error {
	id, same, err := elfid.Mapped(fdReader(fd), f.m.Start, f.m.Offset, f.readMemory)
	if err == nil && id.IsZero() {
		same, err = f.sameCode(fd)
	}
	if err == nil && !same {
		err = unix.ESTALE
	}
	return err
}

// sameCode compares the beginning of a mapping with the beginning of an open file.
func (f *mappedFile) sameCode(fd int) (bool, error) {
	const enough = 64 << 10
	want := make([]byte, min(f.m.End-f.m.Start, enough))
	n, err := fdReader(fd).ReadAt(want, int64(f.m.Offset))
	if n == 0 || err != nil && err != io.EOF {
		return false, err
	}
	got := make([]byte, n)
	err = f.readMemory(f.m.Start, got)
	return err == nil && bytes.Equal(got, want[:n]), err
}

// readMemory reads the memory of the process.
func (f *mappedFile) readMemory(addr uint64, b []byte) error {
	return f.memory.Read(f.pid, procmem.Part{Addr: addr, To: b})
}

func sameFile(st *unix.Stat_t, m *Mapping) bool {
	return st.Ino == m.Inode && m.Dev == Dev{unix.Major(st.Dev), unix.Minor(st.Dev)}
}

// hidesDevice reports whether stat(2) shows other devices or inode numbers on a
// file system than /proc/PID/maps does: it is that of the subvolume on btrfs,
// that of a layer on overlayfs.
func hidesDevice(fd int) bool { return isOn(fd, unix.BTRFS_SUPER_MAGIC) || isOverlay(fd) }

func isOverlay(fd int) bool { return isOn(fd, unix.OVERLAYFS_SUPER_MAGIC) }

// isOn reports whether a file is on a file system of this type.
func isOn(fd int, magic int64) bool {
	var st unix.Statfs_t
	return unix.Fstatfs(fd, &st) == nil && int64(st.Type) == magic
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
