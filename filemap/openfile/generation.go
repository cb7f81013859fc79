package openfile

import "golang.org/x/sys/unix"

// getVersion is FS_IOC_GETVERSION (include/uapi/linux/fs.h) with the long of 64-bit kernels.
const getVersion = 0x80087601

// Generation returns the generation of the file's inode, nil if its file system does not say it.
// numbered is as in Numbered.
func (f *File) Generation() (generation *uint32, numbered bool) {
	found := new(struct {
		generation *uint32
		numbered   bool
	}) // the call may go on without us
	look := func() {
		fd := int(f.file.Fd())
		if found.numbered = Numbered(fd); !found.numbered {
			return
		}
		if n, err := unix.IoctlGetInt(fd, getVersion); err == nil {
			is := uint32(n)
			found.generation = &is
		}
	}
	if f.calls == nil {
		look()
	} else if f.calls.Do(look) != nil {
		return nil, false
	}
	return found.generation, found.numbered
}

// SameNumbers reports whether mappings of the file have the number of its inode that stat(2) has: those of
// an overlay can have another one, and programs that serve a file system give any.
func (f *File) SameNumbers() bool { return f.asked(f.sameNumbers) }

func (f *File) sameNumbers() bool {
	fd := int(f.file.Fd())
	return Numbered(fd) && System(fd) != unix.OVERLAYFS_SUPER_MAGIC
}
