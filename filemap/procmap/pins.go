package procmap

import (
	"strconv"

	"golang.org/x/sys/unix"
)

// The inode of a file that is gone is soon another file's, of any name. So an answer about a
// file that no guard watches holds while a descriptor of its path keeps the inode: until the
// end of the round, as a file system cannot be unmounted meanwhile.

// maxPins bounds the descriptors, pinsShare is the part of all that they may take. A file
// beyond that is read for each mapping.
const maxPins, pinsShare = 1 << 12, 4

// pins keep the inodes of files. The zero value keeps none, and knows no limit yet.
type pins struct {
	fds []int
	max int
}

// add keeps a file by a descriptor of its path, negative for none, and reports whether it does.
func (p *pins) add(fd int) bool {
	if p.max == 0 {
		p.max = roomForPins()
	}
	if fd < 0 || len(p.fds) >= p.max {
		unpin(fd)
		return false
	}
	p.fds = append(p.fds, fd)
	return true
}

// release lets all files go.
func (p *pins) release() {
	for _, fd := range p.fds {
		unpin(fd)
	}
	p.fds = p.fds[:0]
}

func unpin(fd int) {
	if fd >= 0 {
		_ = unix.Close(fd) // of a path
	}
}

func roomForPins() int {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) != nil {
		return 1
	}
	return int(max(min(limit.Cur/pinsShare, maxPins), 1))
}

// pinOf returns a descriptor of the path of an open file, negative if it cannot be had. Closing
// it asks no server.
func pinOf(proc string, fd int) int {
	at, err := unix.Open(proc+"/self/fd/"+strconv.Itoa(fd), unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1
	}
	return at
}

// leave is called when a read has come to its end, and by a caller that does not wait for it:
// the second call closes what the file is kept by.
func (f *mappedFile) leave() {
	if !f.over.CompareAndSwap(false, true) {
		unpin(f.pin)
	}
}
