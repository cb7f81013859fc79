package openfile

import "golang.org/x/sys/unix"

// System returns the type of the file system of a file, as statfs(2) has it, 0 if it cannot be had.
// A file system of a server can pass on what the server says of the one there (9p does, v9fs_statfs
// in fs/9p/vfs_super.c): then it is 9p's. Such a server may be asked for that.
func System(fd int) int64 {
	var system unix.Statfs_t
	switch {
	case unix.Fstatfs(fd, &system) != nil:
		return 0
	case passedOn(fd, int64(system.Type)):
		return unix.V9FS_MAGIC
	}
	return int64(system.Type)
}

// passedOn reports whether a file is not on a file system of the type that statfs(2) has for it. One
// of a disk has a device of blocks, which have major numbers; those that have none, or need none, can
// make handles of files. What an overlay passes on is not seen, nor what one in memory without handles
// does (ramfs, hugetlbfs).
func passedOn(fd int, kind int64) bool {
	switch kind {
	case unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.F2FS_SUPER_MAGIC, unix.SQUASHFS_MAGIC, unix.ISOFS_SUPER_MAGIC, unix.JFFS2_SUPER_MAGIC:
		var st unix.Stat_t
		return unix.Fstat(fd, &st) == nil && unix.Major(st.Dev) == 0
	case unix.BTRFS_SUPER_MAGIC, unix.TMPFS_MAGIC, unix.EROFS_SUPER_MAGIC_V1, ubifs:
		_, _, err := unix.NameToHandleAt(fd, "", unix.AT_EMPTY_PATH)
		return err == unix.EOPNOTSUPP
	}
	return false
}

const ubifs = 0x24051905 // UBIFS_SUPER_MAGIC, fs/ubifs/ubifs.h

// isDisk reports whether a type of file system is on a disk or in memory, where no server is
// asked for what is read (include/uapi/linux/magic.h).
func isDisk(kind int64) bool {
	switch kind {
	case unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.F2FS_SUPER_MAGIC, unix.TMPFS_MAGIC, unix.RAMFS_MAGIC, unix.HUGETLBFS_MAGIC,
		unix.SQUASHFS_MAGIC, unix.EROFS_SUPER_MAGIC_V1:
		return true
	}
	return false
}

// Local reports whether a file is on a file system whose files only this kernel
// changes, and of which no server is asked. A server may be asked for that.
func Local(fd int) bool { return isLocal(System(fd)) }

// answers reports whether reads on a type of file system need no time limit. A server of 9p is as a
// rule the host of a virtual machine, which stalls with it: only root can mount one.
func answers(kind int64) bool { return isDisk(kind) || kind == unix.V9FS_MAGIC }

func isLocal(kind int64) bool { return isDisk(kind) || kind == unix.OVERLAYFS_SUPER_MAGIC }

// trueOwners reports whether files on a type of file system have the owners that they seem to have:
// any user can mount one of FUSE, whose program can give others. One of 9p only root can.
func trueOwners(kind int64) bool { return kind != 0 && kind != unix.FUSE_SUPER_MAGIC }

// Numbered reports whether the number of an inode is one file's on the file system of a file:
// programs that serve a file system give any number. Such a server may be asked for that.
func Numbered(fd int) bool {
	kind := System(fd)
	return kind != 0 && kind != unix.FUSE_SUPER_MAGIC && kind != unix.V9FS_MAGIC // virtiofs has FUSE's
}
