package sideband

import (
	"os"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// TestUringAdvice: what a process marks by io_uring is not known to be in a child.
func TestUringAdvice(t *testing.T) {
	b, _ := openBand(t, Options{})
	code, err := unix.Mmap(-1, 0, os.Getpagesize(), unix.PROT_READ, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(code) }()
	at := uint64(uintptr(unsafe.Pointer(&code[0])))
	marked := func() bool {
		if _, err := b.Drain(); err != nil {
			t.Fatal(err)
		}
		return b.calls.withheld.has(os.Getpid(), at, at+1)
	}
	const nop, madvise = 0, 25 // include/uapi/linux/io_uring.h
	for _, opcode := range []byte{nop, madvise} {
		submitUring(t, opcode, at, uint32(len(code)), unix.MADV_DONTFORK)
		if got := marked(); got != (opcode == madvise) {
			t.Errorf("operation %d: marked %t", opcode, got)
		}
	}
}

// submitUring has io_uring do an operation of an address, a length and advice.
func submitUring(t *testing.T, opcode byte, addr uint64, size, advice uint32) {
	t.Helper()
	type offsets struct {
		head, tail, mask, entries, flags, dropped, array uint32
		_                                                [3]uint32
	}
	var params struct {
		sqEntries, cqEntries, flags, cpu, idle, features, wq uint32
		_                                                    [3]uint32
		sq                                                   offsets
		_                                                    offsets
	}
	const setup, enter, entries = 425, 426, 0x10000000 // where the entries are: IORING_OFF_SQES
	fd, _, e := unix.Syscall(setup, 1, uintptr(unsafe.Pointer(&params)), 0)
	if e != 0 {
		t.Skipf("no io_uring: %v", e)
	}
	defer func() { _ = unix.Close(int(fd)) }()
	ring, err := unix.Mmap(int(fd), 0, int(params.sq.array)+4, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(ring) }()
	entry, err := unix.Mmap(int(fd), entries, 64, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(entry) }()
	entry[0] = opcode
	*(*int32)(unsafe.Pointer(&entry[4])) = -1
	if opcode != 0 {
		*(*uint64)(unsafe.Pointer(&entry[16])) = addr
		*(*uint32)(unsafe.Pointer(&entry[24])) = size
		*(*uint32)(unsafe.Pointer(&entry[28])) = advice
	}
	*(*uint32)(unsafe.Pointer(&ring[params.sq.tail]))++
	if n, _, e := unix.Syscall6(enter, fd, 1, 1, 1, 0, 0); e != 0 || n != 1 {
		t.Fatalf("%d were submitted: %v", n, e)
	}
}
