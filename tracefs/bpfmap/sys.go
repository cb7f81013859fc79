package bpfmap

import (
	"bytes"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The attributes of the commands of bpf(2) that are used (union bpf_attr in
// include/uapi/linux/bpf.h). The kernel takes fields after them as zero.
type (
	attrObject struct {
		path  uint64
		fd    uint32
		flags uint32
	}
	attrID   struct{ id, next, flags uint32 }
	attrInfo struct {
		fd, size uint32
		info     uint64
	}
	attrElement struct {
		fd    uint32
		_     uint32
		key   uint64
		value uint64 // or the next key
		flags uint64
	}
	// mapInfo is the beginning of struct bpf_map_info.
	mapInfo struct {
		kind, id, keySize, valueSize, maxEntries, flags uint32
		name                                            [16]byte
	}
)

// bpf does a command. The attributes may point to memory that the caller keeps alive.
func bpf(command uintptr, attr unsafe.Pointer, size uintptr) (int, error) {
	for {
		r, _, errno := unix.Syscall(unix.SYS_BPF, command, uintptr(attr), size)
		switch errno {
		case 0:
			return int(r), nil
		case unix.EINTR:
			continue
		}
		return -1, errno
	}
}

func pointer(b []byte) uint64 {
	if len(b) == 0 {
		return 0
	}
	return uint64(uintptr(unsafe.Pointer(&b[0])))
}

// objectGet opens what is pinned at a path, for reading.
func objectGet(path string) (int, error) {
	name, err := unix.ByteSliceFromString(path)
	if err != nil {
		return -1, err
	}
	pinned := new(runtime.Pinner)
	defer pinned.Unpin()
	pinned.Pin(&name[0])
	a := attrObject{path: pointer(name), flags: unix.BPF_F_RDONLY}
	return bpf(unix.BPF_OBJ_GET, unsafe.Pointer(&a), unsafe.Sizeof(a))
}

func byID(id uint32) (int, error) {
	a := attrID{id: id, flags: unix.BPF_F_RDONLY}
	return bpf(unix.BPF_MAP_GET_FD_BY_ID, unsafe.Pointer(&a), unsafe.Sizeof(a))
}

// info returns what the kernel says of a map. A descriptor of anything else is an error.
func info(fd int) (Info, error) {
	var i mapInfo
	pinned := new(runtime.Pinner)
	defer pinned.Unpin()
	pinned.Pin(&i)
	a := attrInfo{fd: uint32(fd), size: uint32(unsafe.Sizeof(i)), info: uint64(uintptr(unsafe.Pointer(&i)))}
	if _, err := bpf(unix.BPF_OBJ_GET_INFO_BY_FD, unsafe.Pointer(&a), unsafe.Sizeof(a)); err != nil {
		return Info{}, err
	}
	name, _, _ := bytes.Cut(i.name[:], []byte{0})
	return Info{i.kind, i.id, i.keySize, i.valueSize, i.maxEntries, i.flags, string(name)}, nil
}

// nextKey sets next to the key after another one, the first one if key is nil. The error is
// ENOENT after the last one.
func nextKey(fd int, key, next []byte) error {
	a := attrElement{fd: uint32(fd), key: pointer(key), value: pointer(next)}
	_, err := bpf(unix.BPF_MAP_GET_NEXT_KEY, unsafe.Pointer(&a), unsafe.Sizeof(a))
	runtime.KeepAlive(key)
	runtime.KeepAlive(next)
	return err
}

// lookup reads the value of a key. The error is ENOENT if it is not in the map.
func lookup(fd int, key, value []byte) error {
	a := attrElement{fd: uint32(fd), key: pointer(key), value: pointer(value)}
	_, err := bpf(unix.BPF_MAP_LOOKUP_ELEM, unsafe.Pointer(&a), unsafe.Sizeof(a))
	runtime.KeepAlive(key)
	runtime.KeepAlive(value)
	return err
}

// Probe reports whether maps can be found by their numbers. The error says why not.
func Probe() error {
	var a attrID
	_, err := bpf(unix.BPF_MAP_GET_NEXT_ID, unsafe.Pointer(&a), unsafe.Sizeof(a))
	if err == unix.ENOENT { // there are none
		return nil
	}
	return explain(err)
}
