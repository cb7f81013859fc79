package watch

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"ustack/filemap/openfile"
	"ustack/filemap/procmap"
)

// Reason is why a file is not watched.
type Reason uint8

const (
	watched Reason = iota
	// NoInotify: there is no inotify for us.
	NoInotify
	// Full: a limit is reached, our own or the kernel's.
	Full
	// NotThere: the file is not under its name, or its directory cannot be
	// watched.
	NotThere
	// Linked: there are other names by which the file can be changed.
	Linked
	// Remote: the file system may change without the kernel's doing.
	Remote
	// Noisy: too much happens to other files of the directory.
	Noisy
	// Reasons is the number of reasons.
	Reasons
)

// String names the reason.
func (r Reason) String() string {
	return [...]string{"watched", "no inotify", "limit reached", "not there", "other links", "remote", "noisy directory"}[r]
}

// local are the file systems that only this kernel changes: all others, of
// networks or in user space, can change without an event (magic numbers of
// include/uapi/linux/magic.h; erofs and f2fs hold what Android maps).
var local = [...]int64{unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.F2FS_SUPER_MAGIC, unix.TMPFS_MAGIC,
	unix.RAMFS_MAGIC, unix.OVERLAYFS_SUPER_MAGIC, unix.SQUASHFS_MAGIC, unix.EROFS_SUPER_MAGIC_V1,
	unix.ISOFS_SUPER_MAGIC, unix.JFFS2_SUPER_MAGIC, ubifsMagic}

const ubifsMagic = 0x24051905 // UBIFS_SUPER_MAGIC, fs/ubifs/ubifs.h

// inodeOf returns the inode of the directory at a path, and whether its file system
// is local.
func inodeOf(at string) (id procmap.FileID, isLocal bool, err error) {
	fd, err := unix.Open(at, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return id, false, err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return id, false, err
	}
	kind := openfile.System(fd)
	for _, magic := range local {
		isLocal = isLocal || kind == magic
	}
	return procmap.FileID{Dev: procmap.Dev{Major: unix.Major(st.Dev), Minor: unix.Minor(st.Dev)}, Inode: st.Ino}, isLocal, nil
}

// check reports whether a path is this file, and the only way to it. A file
// that is mounted at the path changes in another directory.
func check(at string, id procmap.FileID) Reason {
	var st unix.Statx_t
	if unix.Statx(unix.AT_FDCWD, at, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_BASIC_STATS, &st) != nil {
		return NotThere
	}
	const mounted = unix.STATX_ATTR_MOUNT_ROOT // Linux 5.8
	switch {
	case id != procmap.FileID{Dev: procmap.Dev{Major: st.Dev_major, Minor: st.Dev_minor}, Inode: st.Ino}:
		return NotThere
	case st.Nlink != 1, st.Attributes_mask&mounted == 0, st.Attributes&mounted != 0:
		return Linked
	}
	return watched
}

// degrade reports that files can no longer be watched, and what that means.
func (w *Watcher) degrade(err error) {
	if w.full {
		return
	}
	w.full = true
	if w.opt.Log == nil {
		return
	}
	hint := ""
	switch {
	case errors.Is(err, unix.ENOSPC):
		hint = limit("max_user_watches")
	case errors.Is(err, unix.EMFILE):
		hint = limit("max_user_instances")
	}
	w.opt.Log(fmt.Sprintf("%v%s: build IDs of more files are asked for each time", err, hint))
}

// limit names a limit of the kernel with its value.
func limit(name string) string {
	value, err := os.ReadFile("/proc/sys/fs/inotify/" + name)
	if err != nil {
		return " (fs.inotify." + name + ")"
	}
	return " (fs.inotify." + name + "=" + strings.TrimSpace(string(value)) + ")"
}
