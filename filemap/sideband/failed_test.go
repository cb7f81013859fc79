package sideband

import (
	"os"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// calling is a system call about a page of code at an address, in a range of two, and
// what is known of it after.
type calling struct {
	call  func(addr uintptr) error
	fails bool
	// stays: the code is known to be there still. Else that is unknown.
	stays bool
}

func mmapAt(addr, flags, fd uintptr) error {
	_, _, err := unix.Syscall6(unix.SYS_MMAP, addr, page, unix.PROT_READ, unix.MAP_PRIVATE|flags, fd, 0)
	return asError(err)
}

func mremapAt(addr, size, flags, to uintptr) error {
	_, _, err := unix.Syscall6(unix.SYS_MREMAP, addr, page, size, flags, to, 0)
	return asError(err)
}

func munmapAt(addr, size uintptr) error {
	_, _, err := unix.Syscall(unix.SYS_MUNMAP, addr, size, 0)
	return asError(err)
}

func asError(err unix.Errno) error {
	if err == 0 {
		return nil
	}
	return err
}

const noFile = ^uintptr(0)

var callings = map[string]calling{
	"munmap, address":    {func(at uintptr) error { return munmapAt(at+1, page) }, true, true},
	"munmap, no size":    {func(at uintptr) error { return munmapAt(at, 0) }, true, true},
	"munmap, great size": {func(at uintptr) error { return munmapAt(at, noFile-page+1) }, true, true},
	"munmap, size":       {func(at uintptr) error { return munmapAt(at, 1<<56) }, true, false},
	"mmap, no file":      {func(at uintptr) error { return mmapAt(at, unix.MAP_FIXED, noFile) }, true, false},
	"mmap, address":      {func(at uintptr) error { return mmapAt(at+1, unix.MAP_FIXED|unix.MAP_ANON, noFile) }, true, false},
	"mmap, not over it": {func(at uintptr) error {
		return mmapAt(at, unix.MAP_FIXED|unix.MAP_FIXED_NOREPLACE|unix.MAP_ANON, noFile)
	}, true, true},
	"mremap, flags":   {func(at uintptr) error { return mremapAt(at, page, unix.MREMAP_FIXED, at+page) }, true, false},
	"mremap, onto it": {func(at uintptr) error { return mremapAt(at+page, page, unix.MREMAP_FIXED, at) }, true, false},
	"mremap, of a copy": {func(at uintptr) error {
		return mremapAt(at, page, unix.MREMAP_MAYMOVE|unix.MREMAP_FIXED|unix.MREMAP_DONTUNMAP, at+page)
	}, false, true},
	"twice": {func(at uintptr) error {
		return firstOf(mmapAt(at, unix.MAP_FIXED, noFile), munmapAt(at, 0))
	}, true, false},
}

func firstOf(errs ...error) error { return errs[0] }

// TestFailedCalls: after a call that fails, it is not said that the code has gone: it is
// there, or that is not known until the process is read again.
func TestFailedCalls(t *testing.T) {
	library := mappedLibrary(t)
	b, r := openBand(t, Options{})
	if len(b.Unseen()) > 0 {
		skip(t, "%v cannot be seen", b.Unseen())
	}
	for name, c := range callings {
		t.Run(name, func(t *testing.T) {
			at := twoPages(t, library)
			drain(t, b)
			if err := c.call(at); (err != nil) != c.fails {
				t.Skip("the kernel does this otherwise: ", err)
			}
			drain(t, b)
			const in = 8 // bytes in the page
			addr := uint64(at) + in
			p, ok := b.History.Lookup(os.Getpid(), addr, b.Now())
			v := b.History.Spaces.Space(os.Getpid()).At(b.Now())
			switch {
			case ok != c.stays:
				t.Errorf("it is in %+v, %v", p, ok)
			case ok && (p.Late || p.Mapping.File.BuildID != buildID(t, library) || p.Offset != page+in):
				t.Errorf("it is at %#x of %+v, late: %v", p.Offset, p.Mapping.File, p.Late)
			case !ok && v.Knows(addr):
				t.Error("it is not there, as far as is known")
			}
			if err := b.Read(r, os.Getpid(), 0); err != nil {
				t.Fatal(err)
			}
			if p, ok := b.History.Lookup(os.Getpid(), addr, b.Now()); !ok || p.Late || p.Mapping.File.BuildID != buildID(t, library) {
				t.Errorf("read again, it is in %+v, %v", p, ok)
			}
		})
	}
}

// twoPages maps a page of code of a file, and keeps one after it.
func twoPages(t *testing.T, library string) uintptr {
	t.Helper()
	area, err := unix.Mmap(-1, 0, 2*page, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	at := uintptr(unsafe.Pointer(unsafe.SliceData(area)))
	t.Cleanup(func() {
		if err := munmapAt(at, 2*page); err != nil {
			t.Error(err)
		}
	})
	f, err := os.Open(library)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	_, _, errno := unix.Syscall6(unix.SYS_MMAP, at, page, unix.PROT_READ|unix.PROT_EXEC, unix.MAP_PRIVATE|unix.MAP_FIXED, f.Fd(), page)
	if errno != 0 {
		t.Fatal(errno)
	}
	return at
}

// TestMovedBeside: what is beside a small mapping that goes to where a huge page could go
// has not gone.
func TestMovedBeside(t *testing.T) {
	library := mappedLibrary(t)
	b, _ := openBand(t, Options{})
	if len(b.Unseen()) > 0 {
		skip(t, "%v cannot be seen", b.Unseen())
	}
	area := reserve(t, 3*hugePage)
	first := unsafe.Add(area, -uintptr(area)&(hugePage-1))
	at := unsafe.Add(first, hugePage/2)
	f, err := os.Open(library)
	check(t, err)
	defer f.Close()
	_, err = unix.MmapPtr(int(f.Fd()), page, at, page, unix.PROT_READ|unix.PROT_EXEC, unix.MAP_PRIVATE|unix.MAP_FIXED)
	check(t, err)
	drain(t, b)
	_, err = unix.MremapPtr(unsafe.Add(first, hugePage), page, first, page, unix.MREMAP_MAYMOVE|unix.MREMAP_FIXED)
	check(t, err)
	drain(t, b)
	_, ok := b.History.Lookup(os.Getpid(), uint64(uintptr(at)), b.Now())
	if v := b.History.Spaces.Space(os.Getpid()).At(b.Now()); !ok && v.Knows(uint64(uintptr(at))) {
		t.Error("it has gone, as far as is known")
	}
}
