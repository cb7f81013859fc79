package procmap

import (
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// The inode of a file that is gone is soon another file's, of any name. So an answer about a
// file that no guard watches holds while a descriptor of its path keeps the inode: until the
// end of the round, as a file system cannot be unmounted meanwhile. And it holds while the times
// of the file are what they were before it was read: it may be written, and mapped by the next
// process after that.

// pin keeps a file.
type pin struct {
	fd int // of its path; negative for none
	is stamp
}

// stamp is what a write to a file changes.
type stamp struct {
	size           uint64
	written, state unix.StatxTimestamp
}

// maxPins bounds the descriptors, pinsShare is the part of all that they may take. A file
// beyond that is read for each mapping.
const maxPins, pinsShare = 1 << 12, 4

// pins keep files. The zero value keeps none, and knows no limit yet.
type pins struct {
	fds []int
	max int
}

// add keeps a file, and reports whether it does.
func (p *pins) add(f pin) bool {
	if p.max == 0 {
		p.max = roomForPins()
	}
	if f.fd < 0 || len(p.fds) >= p.max {
		f.drop()
		return false
	}
	p.fds = append(p.fds, f.fd)
	return true
}

// release lets all files go.
func (p *pins) release() {
	for _, fd := range p.fds {
		closeFD(fd)
	}
	p.fds = p.fds[:0]
}

func (p pin) drop() {
	if p.fd >= 0 {
		closeFD(p.fd)
	}
}

// same reports whether the file is what it was.
func (p pin) same() bool {
	is, ok := stampOf(p.fd)
	return ok && is == p.is
}

// stampOf looks at a file. A server is not asked.
func stampOf(fd int) (s stamp, ok bool) {
	var st unix.Statx_t
	if unix.Statx(fd, "", unix.AT_EMPTY_PATH|unix.AT_STATX_DONT_SYNC, unix.STATX_SIZE|unix.STATX_MTIME|unix.STATX_CTIME, &st) != nil {
		return s, false
	}
	return stamp{st.Size, st.Mtime, st.Ctime}, true
}

// young reports whether a file may be written now without another time: those of files are
// coarse.
func (s stamp) young(now time.Time) bool {
	tick := 20 * time.Millisecond // more than one
	if s.state.Nsec == 0 {
		tick = 2 * time.Second // a file system that stores no more, FAT even ones only
	}
	return !time.Unix(s.state.Sec, int64(s.state.Nsec)).Before(now.Add(-tick))
}

func roomForPins() int {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) != nil {
		return 1
	}
	return int(max(min(limit.Cur/pinsShare, maxPins), 1))
}

// pinOf keeps an open file, by none if it cannot, or if the file may have just been written.
func pinOf(proc string, fd int) pin {
	at, err := unix.Open(proc+"/self/fd/"+strconv.Itoa(fd), unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return pin{fd: -1}
	}
	is, ok := stampOf(at)
	if !ok || is.young(time.Now()) {
		closeFD(at)
		at = -1
	}
	return pin{at, is}
}

// leave is called when a read has come to its end, and by a caller that does not wait for it:
// the second call closes what the file is kept by.
func (f *mappedFile) leave() {
	if !f.over.CompareAndSwap(false, true) {
		f.pin.drop()
	}
}
