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

// CheckOwner returns ErrReplaceable if a file that was opened by its path in a trace may be one
// that another user has put there in place of what was mapped: a build ID can be copied. One of
// these shows that it is not:
//
//   - It belongs to root, to the user of ustack, or to who runs it by sudo, and others may not
//     write to it (see writers). Its file system is not FUSE.
//   - Only those to whom the directories on the way belong can put files there, and what they
//     put there is what runs: others may not write to a directory, as to /tmp.
//   - The path was read from the kernel after since, and neither the file nor what is on the way
//     to it from a directory like /tmp has changed after that, on a file system whose files only
//     this kernel changes, so that their times are of its clock.
//   - It is what processes of the trace have mapped by this path and build ID, all of them, as
//     since knows of each, and has not changed after that. Others may not write to it.
func (o *Opener) CheckOwner(f *File, name, id string, since *Begin) error {
	result := new(error) // the call may go on without us
	if err := o.calls.Do(func() { *result = f.checkOwner(name, id, since) }); err != nil {
		return err
	}
	return *result
}

func (f *File) checkOwner(name, id string, since *Begin) error {
	st, ok := f.info.Sys().(*syscall.Stat_t)
	if !ok {
		return ErrReplaceable
	}
	fd := int(f.file.Fd())
	w, link := machine(), "/proc/self/fd/"+strconv.Itoa(fd)
	shared := w.others(link, st)
	if !shared && isOurs(st.Uid) && trueOwners(System(fd)) {
		return nil
	}
	local := Local(fd)
	if doubted, ok := since.isMapped(name, id, st); ok && !shared && local {
		f.doubted = doubted
		return nil
	}
	// The kernel's paths have no links. Where one leads elsewhere is up to others than the
	// directories of the path show.
	if at, err := os.Readlink(link); err != nil || at != name {
		return ErrReplaceable
	}
	unchanged := func(x *syscall.Stat_t) bool {
		return local && x.Dev == st.Dev && since.Shows(time.Unix(x.Ctim.Unix()))
	}
	open, err := w.onTheWay(name, unchanged)
	if err != nil {
		return err
	}
	if !open && !shared {
		return nil
	}
	if !unchanged(st) {
		return ErrReplaceable
	}
	same := func() bool {
		var now syscall.Stat_t
		return syscall.Fstat(fd, &now) == nil && now.Ino == st.Ino && now.Ctim == st.Ctim
	}
	doubted, ok := since.staysMapped(name, id, st, same, func() bool {
		var now syscall.Stat_t // another one can be mounted there
		_, err := w.onTheWay(name, unchanged)
		return err == nil && syscall.Lstat(name, &now) == nil && now.Dev == st.Dev && now.Ino == st.Ino
	})
	if !ok {
		return ErrReplaceable
	}
	f.doubted = doubted
	return nil
}

// Doubted reports whether what CheckOwner has allowed is so no more, as processes have mapped another
// file with the path and the build ID.
func (f *File) Doubted() bool { return f.doubted != nil && f.doubted() }

// MayBeDoubted reports whether Doubted may be true some time.
func (f *File) MayBeDoubted() bool { return f.doubted != nil }

// Shared reports whether users other than its owner and root may write to a file.
func (f *File) Shared() bool {
	shared := new(bool) // the call may go on without us
	look := func() {
		st, ok := f.info.Sys().(*syscall.Stat_t)
		*shared = !ok || machine().others("/proc/self/fd/"+strconv.Itoa(int(f.file.Fd())), st)
	}
	if f.calls == nil {
		look()
		return *shared
	}
	return f.calls.Do(look) != nil || *shared
}

// onTheWay looks at the directories on the way to a file. open is whether there is one into
// which others can put files. What is on the way after that has to be unchanged.
func (w writers) onTheWay(name string, unchanged func(*syscall.Stat_t) bool) (open bool, err error) {
	for at := 0; at >= 0; at = next(name, at) {
		dir := name[:max(at, 1)]
		info, err := os.Lstat(dir)
		if err != nil {
			return false, err
		}
		st, ok := info.Sys().(*syscall.Stat_t)
		if !ok || open && !unchanged(st) {
			return false, ErrReplaceable
		}
		open = open || w.others(dir, st)
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
