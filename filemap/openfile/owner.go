package openfile

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// ErrReplaceable: another user can have put the file where it is.
var ErrReplaceable = errors.New("another user can have put it there: not used")

const allWrite = 0o002

// CheckOwner returns ErrReplaceable if a file that was opened by its path in a trace may be one
// that another user has put there in place of what was mapped: a build ID can be copied. One of
// these shows that it is not:
//
//   - It belongs to root, to the user of ustack, or to who runs it by sudo, and is not for all to
//     write. Members of its group are trusted. Its file system is one of this kernel's.
//   - Only those to whom the directories on the way belong can put files there, and what they
//     put there is what runs: no directory is for all to write, as /tmp is.
//   - The path was read from the kernel after since, and neither the file nor what is on the way
//     to it from a directory like /tmp has changed after that, on a file system whose files only
//     this kernel changes, so that their times are of its clock.
func (o *Opener) CheckOwner(f *File, name string, since *Begin) error {
	result := new(error) // the call may go on without us
	if err := o.calls.Do(func() { *result = f.checkOwner(name, since) }); err != nil {
		return err
	}
	return *result
}

func (f *File) checkOwner(name string, since *Begin) error {
	st, ok := f.info.Sys().(*syscall.Stat_t)
	if !ok {
		return ErrReplaceable
	}
	fd := int(f.file.Fd())
	shared := st.Mode&allWrite != 0
	if !shared && isOurs(st.Uid) && Numbered(fd) {
		return nil
	}
	// The kernel's paths have no links. Where one leads elsewhere is up to others than the
	// directories of the path show.
	if at, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(fd)); err != nil || at != name {
		return ErrReplaceable
	}
	local := Local(fd)
	unchanged := func(x *syscall.Stat_t) bool {
		return local && x.Dev == st.Dev && since.Shows(time.Unix(x.Ctim.Unix()))
	}
	open, err := onTheWay(name, unchanged)
	if err != nil {
		return err
	}
	if (open || shared) && !unchanged(st) {
		return ErrReplaceable
	}
	return nil
}

// onTheWay looks at the directories on the way to a file. open is whether there is one into
// which all users can put files. What is on the way after that has to be unchanged.
func onTheWay(name string, unchanged func(*syscall.Stat_t) bool) (open bool, err error) {
	for at := 0; at >= 0; at = next(name, at) {
		info, err := os.Lstat(name[:max(at, 1)])
		if err != nil {
			return false, err
		}
		st, ok := info.Sys().(*syscall.Stat_t)
		if !ok || open && !unchanged(st) {
			return false, ErrReplaceable
		}
		open = open || st.Mode&allWrite != 0
	}
	return open, nil
}

// next returns where the next slash of a path is after the one at a place, -1 if there is none.
func next(name string, at int) int {
	n := strings.IndexByte(name[at+1:], '/')
	if n < 0 {
		return -1
	}
	return at + 1 + n
}

// isOurs reports whether a user is root, the user of ustack, or who runs it by sudo, which alone
// sets SUDO_UID for root.
func isOurs(uid uint32) bool {
	if uid == 0 || uid == uint32(os.Geteuid()) {
		return true
	}
	by, err := strconv.ParseUint(os.Getenv("SUDO_UID"), 10, 32)
	return err == nil && os.Getuid() == 0 && uint64(uid) == by
}
