package openfile

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

// holder is who may change a file.
type holder uint8

const (
	kernel  holder = iota // this one alone
	another               // perhaps others
	server                // a server, or a program
)

// holderOf returns who may change a file. The file systems of servers are known, and those that do not
// say what they are are of one, too; another one of no device may be. A file of an overlay is where the file system of its layer can say where on a
// disk it is.
func holderOf(fd int) holder {
	switch kind := System(fd); kind {
	case unix.NFS_SUPER_MAGIC, unix.V9FS_MAGIC, unix.FUSE_SUPER_MAGIC, unix.SMB_SUPER_MAGIC, unix.SMB2_SUPER_MAGIC, unix.CIFS_SUPER_MAGIC,
		unix.AFS_SUPER_MAGIC, unix.AFS_FS_MAGIC, unix.CEPH_SUPER_MAGIC, unix.CODA_SUPER_MAGIC, vboxsf, orangefs, 0:
		return server
	case unix.OVERLAYFS_SUPER_MAGIC:
		if onDisk(fd) {
			return kernel
		}
	default:
		var st unix.Stat_t
		if isDisk(kind) || unix.Fstat(fd, &st) == nil && unix.Major(st.Dev) != 0 {
			return kernel
		}
	}
	return another
}

// fs/vboxsf/super.c, include/uapi/linux/magic.h; fs/orangefs/protocol.h.
const vboxsf, orangefs = 0x786f4256, 0x20030528

// onDisk reports whether the file system of an open file can say where on a disk it is: those of
// servers cannot (ovl_fiemap in fs/overlayfs/inode.c asks that of the layer), but for SMB's.
func onDisk(fd int) bool {
	const fiemap = 0xC020660B // FS_IOC_FIEMAP, include/uapi/linux/fs.h
	ask := struct {           // struct fiemap, include/uapi/linux/fiemap.h
		start, length          uint64
		flags, mapped, room, _ uint32
	}{length: 1}
	_, _, err := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), fiemap, uintptr(unsafe.Pointer(&ask)))
	return err == 0
}

// direct reads a file at its server, past the pages that the kernel keeps (O_DIRECT).
type direct struct {
	of   *File
	file *os.File
}

// block is how reads that go past the kernel's pages are aligned, at most.
const block = 4096

// openDirect opens a file to be read at its server, nil if it has none, or where it is unknown if it
// has and it cannot be read so.
func (f *File) openDirect() (*direct, error) {
	fd := int(f.file.Fd())
	holder := holderOf(fd)
	if holder == kernel {
		return nil, nil
	}
	d, err := f.reopen(fd)
	if err != nil && holder == another {
		err = nil
	}
	return d, err
}

func (f *File) reopen(fd int) (*direct, error) {
	fd, err := unix.Open("/proc/self/fd/"+strconv.Itoa(fd), unix.O_RDONLY|unix.O_DIRECT|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	file, err := AsFile(fd, f.file.Name())
	if err != nil {
		return nil, err
	}
	d := &direct{f, file}
	if _, err := d.read(0, block); err != nil {
		_ = file.Close() // was only read
		return nil, err
	}
	return d, nil
}

// ReadAt implements io.ReaderAt.
func (d *direct) ReadAt(b []byte, off int64) (n int, err error) {
	from := off &^ (block - 1)
	size := (off + int64(len(b)) - from + block - 1) &^ (block - 1)
	late := &struct {
		b   []byte
		err error
	}{} // the call may go on without us
	if err := d.of.do(func() { late.b, late.err = d.read(from, int(size)) }); err != nil {
		return 0, &fs.PathError{Op: "read", Path: d.file.Name(), Err: err}
	}
	if late.err != nil {
		return 0, late.err
	}
	if n = copy(b, late.b[min(off-from, int64(len(late.b))):]); n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

// read reads whole blocks, as far as the file goes.
func (d *direct) read(from int64, size int) ([]byte, error) {
	b := make([]byte, size+block)
	if over := int(uintptr(unsafe.Pointer(unsafe.SliceData(b))) % block); over != 0 {
		b = b[block-over:]
	}
	for n := 0; ; {
		got, err := d.pread(b[n:size], from+int64(n))
		if err != nil {
			return nil, &fs.PathError{Op: "read", Path: d.file.Name(), Err: err}
		}
		if n += got; got == 0 || n == size || n%block != 0 { // the end of the file is within a block
			return b[:n], nil
		}
	}
}

func (d *direct) pread(b []byte, off int64) (n int, err error) {
	c, err := d.file.SyscallConn()
	if err != nil {
		return 0, err
	}
	gone := c.Control(func(fd uintptr) {
		for n, err = unix.Pread(int(fd), b, off); err == unix.EINTR; {
			n, err = unix.Pread(int(fd), b, off)
		}
	})
	return n, errors.Join(gone, err)
}

func (d *direct) close() {
	if d != nil {
		_ = d.file.Close() // was only read
	}
}

// recent keeps the last block that was read: a build ID is near the beginning of most files.
type recent struct {
	from io.ReaderAt
	at   int64
	b    []byte
}

// ReadAt implements io.ReaderAt.
func (r *recent) ReadAt(b []byte, off int64) (int, error) {
	if len(b) > block/2 {
		return r.from.ReadAt(b, off)
	}
	if off < r.at || off+int64(len(b)) > r.at+int64(len(r.b)) {
		buf := make([]byte, block)
		n, err := r.from.ReadAt(buf, off)
		if n < len(b) {
			return copy(b, buf[:n]), err
		}
		r.at, r.b = off, buf[:n]
	}
	return copy(b, r.b[off-r.at:]), nil
}
