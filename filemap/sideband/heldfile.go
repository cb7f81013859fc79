package sideband

import (
	"io"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"ustack/filemap/elfid"
	"ustack/filemap/openfile"
	"ustack/filemap/procmap"
)

// heldFile is a file to be held, and the result. Opening it may be given up, and goes
// on then.
type heldFile struct {
	pid  int
	m    procmap.Mapping
	made time.Time
	read bool   // see recordedFile
	path string // "" if the file is not at its path
	is   pathFile
	// other: the path is another process's, which may have another file there.
	other bool

	fd             int // negative if it cannot be held
	at             pathFile
	changed, young bool
	remote         bool // it is of a server
	// inMemory: its file system has it in memory only. In the end only if it is root's and has
	// the ID.
	inMemory bool
	// fresh: it may have been changed since it was mapped, and back, or right before its build
	// ID was read. executed: the process
	// executes it.
	fresh, executed bool
	direct          bool // it was found by its mapping
	// strange: the process has another file mapped there by now, neither the one at the path
	// nor one with the ID.
	strange bool

	over atomic.Bool // open has come to its end, or is left alone
}

// leave is called by the opener of the file, and by a caller that no longer waits
// for it: the second call closes the file.
func (h *heldFile) leave() {
	if !h.over.CompareAndSwap(false, true) {
		h.close()
	}
}

func (h *heldFile) close() {
	if h.fd >= 0 {
		_ = unix.Close(h.fd) // of a path
	}
}

// open opens the file: the one that the process has mapped, or else the one at its
// path and was there before. A file that may have changed since it was mapped is
// looked into. If the one that is mapped has another ID, and none is at the path, the
// file was written and deleted, or another one has come to its place: it is not known to
// be what it was.
func (h *heldFile) open() {
	h.find()
	h.leave()
}

// tooLate: usually a file is looked at within milliseconds, but not while ustack does not
// get to run.
const tooLate = time.Second

// seenTooLate reports whether a file that cannot be looked at any more was mapped so long ago
// that it may have been written meanwhile. To some only root can write.
func (h *heldFile) seenTooLate() bool {
	return !h.remote && !h.is.roots && time.Since(h.made) > tooLate
}

func (h *heldFile) find() {
	if h.direct = h.try(linkOf(h.pid, &h.m)); !h.direct {
		if h.strange = h.at != (pathFile{}) && !h.remote; h.path == "" || !h.try(h.path) {
			h.changed = h.path == "" && h.strange || h.seenTooLate()
			return
		}
	}
	// The one at the path can be another file than the one that is mapped, in a chroot, say.
	h.inMemory = h.inMemory && h.at.roots && h.readable()
	// The times of file systems are coarse: where they do not decide, the ID does. For a write
	// since that was undone within the tick, see freshFile.
	switch {
	case !h.at.roots && (h.at.changed.After(h.made) || !h.readable()):
		h.changed = true
	case !h.at.changedBefore(h.made):
		h.changed = h.at.written.After(h.made) || !hasID(h.fd, h.m.BuildID)
	}
	if fresh := h.at.isFresh(h.made); h.at.roots { // who undoes no write, but can make one before the ID is read
		h.fresh = !h.changed && h.read && fresh
	} else {
		h.fresh = !h.changed && (h.read || fresh)
	}
	h.executed = h.fresh && executes(h.pid, h.at)
	h.young = !h.at.changedBefore(time.Now())
}

// try opens a file by its path alone and reads its times. The process may have
// mapped something else meanwhile: a file that is not at the path has to have the ID.
func (h *heldFile) try(path string) (ok bool) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	h.remote, h.inMemory = !openfile.Local(fd), inMemory(fd)
	if openfile.Check(fd) != nil { // reading a file of the kernel's own does things
		_ = unix.Close(fd) // of a path
		return false
	}
	if h.at, ok = statFD(fd); ok && !h.remote {
		is := h.path != "" && h.at.same(h.is)
		if is && path == h.path && h.other { // not another file of that name
			is = hasID(fd, h.m.BuildID) || !h.at.changedBefore(h.made)
		}
		if is || path != h.path && hasID(fd, h.m.BuildID) {
			h.fd = fd
			return true
		}
	}
	_ = unix.Close(fd) // of a path
	return false
}

// readable makes the file that is held one that can be read, and reports whether it has the
// build ID. One of an overlay stays as it is: it can be on a server, which is asked with a time
// limit.
func (h *heldFile) readable() bool {
	if layered(h.fd) {
		return hasID(h.fd, h.m.BuildID)
	}
	fd, err := unix.Open("/proc/self/fd/"+strconv.Itoa(h.fd), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	_ = unix.Close(h.fd) // of a path
	h.fd = fd
	return reads(fd, h.m.BuildID)
}

// reads reports whether a build ID is in a file that is open for reading.
func reads(fd int, want elfid.ID) bool {
	id, err := elfid.Read(contents(fd))
	return err == nil && id == want
}

// contents reads a file that is open.
type contents int

func (c contents) ReadAt(b []byte, off int64) (n int, err error) {
	for n < len(b) {
		got, err := unix.Pread(int(c), b[n:], off+int64(n))
		switch {
		case err == unix.EINTR:
		case err != nil:
			return n, err
		case got == 0:
			return n, io.EOF
		default:
			n += got
		}
	}
	return n, nil
}

// layered reports whether a file is one of an overlay.
func layered(fd int) bool { return openfile.System(fd) == unix.OVERLAYFS_SUPER_MAGIC }

// inMemory reports whether a file is on a file system that has no disk.
func inMemory(fd int) bool {
	switch openfile.System(fd) {
	case unix.TMPFS_MAGIC, unix.RAMFS_MAGIC, unix.HUGETLBFS_MAGIC:
		return true
	}
	return false
}
