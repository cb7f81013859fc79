package budget

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"ustack/render/outfile"
)

// state is the contents of the state file (ustack help formats).
type state struct {
	Written int64 // how often the file was, the highest is the last
	day
	Bytes   int64    // that are used of this day, or reserved
	Reports int64    // of this day
	Pending *pending // nil for none
	Counts
	Causes []string // of the reports of this day, the oldest first
}

// Counts are of the time since the report before. The next one has them in its head.
type Counts struct {
	Refused    int64 // reports for which there was no budget
	Duplicates int64 // reports of which this day has one with the same cause
}

// add adds counts.
func (c *Counts) add(v Counts) {
	c.Refused += v.Refused
	c.Duplicates += v.Duplicates
}

// pending is the report that is being written.
type pending struct {
	Partial, Name string // paths of its file, which has one of them; "" of a pipe
	ID            fileID
	Reserved      int64  // bytes, all that were reserved for it
	Day           int64  // when the last of them were
	Counts        Counts // that its head has
	Cause         string // "" if it is unknown
}

// fileID identifies a file while it exists, and after that until another one has its inode that
// was born at the same time.
type fileID struct{ Device, Inode, Born int64 }

// The file has two slots of slotSize bytes, which are written in turn: a crash in the middle of
// one leaves the other as it is.
const (
	slots    = 2
	slotSize = 16 << 10
)

const (
	// mostCauses bounds the causes that a state has: the oldest one is forgotten, so that another
	// report of it is written.
	mostCauses = 64
	// mostCause bounds the text of one.
	mostCause = 160
)

// remember keeps the cause of a report that is complete.
func (s *state) remember(cause string) {
	if cause == "" {
		return
	}
	s.Causes = append(s.Causes[max(0, len(s.Causes)-mostCauses+1):len(s.Causes):len(s.Causes)], cause)
}

// errDamaged: the file has contents, but no valid ones.
var errDamaged = errors.New("the state file is damaged")

// openFile opens the state file, or creates it. No other user can write to it, and no other
// recorder opens it until it is closed.
func openFile(path string) (f *os.File, err error) {
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_CREAT|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0o600)
	if errors.Is(err, unix.ELOOP) {
		err = outfile.ErrLink
	}
	if err != nil {
		return nil, fmt.Errorf("opening the state file %s: %w", path, err)
	}
	f = os.NewFile(uintptr(fd), path)
	if err = private(fd); err == nil {
		err = lock(fd)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("opening the state file %s: %w", path, err), f.Close())
	}
	return f, nil
}

// private returns an error if other users can have written the file, or if it is none.
func private(fd int) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return errors.New("it is not a regular file")
	case int(st.Uid) != os.Geteuid():
		return fmt.Errorf("it belongs to user %d", st.Uid)
	case st.Mode&0o077 != 0:
		return fmt.Errorf("its mode is %#o: it must be 0600, as only its user may change it", st.Mode&0o777)
	case st.Nlink != 1:
		return fmt.Errorf("it has %d names: it must have one", st.Nlink)
	}
	return nil
}

// lock keeps other recorders away, until the process ends.
func lock(fd int) error {
	err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return errors.New("another recording uses it: give this one a file of its own (--state)")
	}
	return err
}

// read returns the last state that was written whole, a new one of an empty file.
func read(f *os.File) (last state, err error) {
	all := make([]byte, slots*slotSize)
	n, err := unix.Pread(int(f.Fd()), all, 0)
	if err != nil {
		return last, fmt.Errorf("reading the state file %s: %w", f.Name(), err)
	}
	all = all[:n]
	for i := 0; i < len(all); i += slotSize {
		var s state
		if s.parse(all[i:min(i+slotSize, len(all))]) && s.Written > last.Written {
			last = s
		}
	}
	if last.Written == 0 && len(all) > 0 {
		return last, errDamaged
	}
	return last, nil
}

// write writes the state to the disk, into the slot that is not the last one.
func (s *state) write(f *os.File) error {
	s.Written++
	text := s.text()
	fd := int(f.Fd())
	n, err := unix.Pwrite(fd, text, (s.Written-1)%slots*slotSize)
	if err == nil && n < len(text) {
		err = unix.ENOSPC
	}
	if err == nil {
		err = unix.Fdatasync(fd)
	}
	if err != nil {
		return fmt.Errorf("writing the state file %s: %w", f.Name(), err)
	}
	return nil
}

// syncName writes the name of a new file to the disk.
func syncName(path string) error {
	d, err := os.Open(filepath.Dir(path))
	if err != nil {
		return nil // it may not be readable for us: the name is there
	}
	_ = d.Sync() // not all file systems can
	return d.Close()
}

// identify returns what identifies a file, and its size. ok is false for what is no regular file.
func identify(fd int, name string) (id fileID, size int64, ok bool) {
	var st unix.Statx_t
	flags := unix.AT_SYMLINK_NOFOLLOW
	if name == "" {
		flags |= unix.AT_EMPTY_PATH
	}
	if err := unix.Statx(fd, name, flags, unix.STATX_BASIC_STATS|unix.STATX_BTIME, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return id, 0, false
	}
	id = fileID{Device: int64(unix.Mkdev(st.Dev_major, st.Dev_minor)), Inode: int64(st.Ino)}
	if st.Mask&unix.STATX_BTIME != 0 {
		id.Born = st.Btime.Sec*1e9 + int64(st.Btime.Nsec)
	}
	return id, int64(st.Size), true
}
