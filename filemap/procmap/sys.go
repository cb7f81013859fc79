package procmap

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// These do what package unix does, for a path in a buffer that is used again:
// reading the mappings of a process makes no garbage.

// openPath opens a path for reading.
func openPath(path *[]byte) (int, error) {
	*path = append(*path, 0)
	for {
		fd, _, errno := unix.Syscall6(unix.SYS_OPENAT, atCWD, uintptr(unsafe.Pointer(unsafe.SliceData(*path))),
			unix.O_RDONLY|unix.O_CLOEXEC, 0, 0, 0)
		switch errno {
		case 0:
			return int(fd), nil
		case unix.EINTR:
		default:
			return -1, errno
		}
	}
}

// atCWD is AT_FDCWD, -100, as the kernel gets it.
const atCWD = ^uintptr(-unix.AT_FDCWD - 1)

// readLink reads where a symbolic link leads to.
func readLink(path *[]byte, to []byte) (int, error) {
	*path = append(*path, 0)
	n, _, errno := unix.Syscall6(unix.SYS_READLINKAT, atCWD, uintptr(unsafe.Pointer(unsafe.SliceData(*path))),
		uintptr(unsafe.Pointer(unsafe.SliceData(to))), uintptr(len(to)), 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}

// readFD reads what there is, nothing at the end.
func readFD(fd int, b []byte) (int, error) {
	for {
		n, err := unix.Read(fd, b)
		if err == unix.EINTR {
			continue
		}
		if n < 0 {
			n = 0
		}
		return n, err
	}
}
