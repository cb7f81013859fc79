package sideband

import (
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"ustack/filemap/procmap"
)

// nameMemory names memory, or skips the test where the kernel cannot.
func nameMemory(t *testing.T, mem []byte, name string) {
	t.Helper()
	text, err := unix.BytePtrFromString(name)
	if err != nil {
		t.Fatal(err)
	}
	err = unix.Prctl(unix.PR_SET_VMA, unix.PR_SET_VMA_ANON_NAME, uintptr(unsafe.Pointer(unsafe.SliceData(mem))), uintptr(len(mem)),
		uintptr(unsafe.Pointer(text)))
	if err == unix.EINVAL {
		t.Skip("this kernel has no names for anonymous memory (CONFIG_ANON_VMA_NAME)")
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestNames: anonymous memory has its name as soon as it has one: also a part of it,
// another one, none again, and one that it got before it was code. What it was
// before is not changed by that.
func TestNames(t *testing.T) {
	b, _ := openBand(t, Options{})
	pid := unix.Getpid()
	const all = unix.PROT_READ | unix.PROT_WRITE | unix.PROT_EXEC
	mem, err := unix.Mmap(-1, 0, 8*page, all, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(mem) }()
	at := func(part int) uint64 {
		return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(mem)))) + uint64(part)*page
	}
	is := func(what string, part int, want string) {
		t.Helper()
		drain(t, b)
		p, ok := b.History.Lookup(pid, at(part), b.Now())
		if !ok || p.Mapping.File.Name != want {
			t.Errorf("%s: part %d is %+v, %v, want %q", what, part, p, ok, want)
		}
	}
	is("made", 2, "")
	before := b.Now()
	nameMemory(t, mem[2*page:4*page], "my jit")
	is("named", 2, "[anon:my jit]")
	is("named", 4, "")
	nameMemory(t, mem[3*page:4*page], "other")
	is("named again", 3, "[anon:other]")
	is("named again", 2, "[anon:my jit]")
	for range 3 {
		if err := unix.Mprotect(mem[2*page:3*page], unix.PROT_READ|unix.PROT_EXEC); err != nil {
			t.Fatal(err)
		}
		if err := unix.Mprotect(mem[2*page:3*page], all); err != nil {
			t.Fatal(err)
		}
	}
	is("protected", 2, "[anon:my jit]")
	if p, ok := b.History.Lookup(pid, at(2), before); !ok || p.Mapping.File.Kind != procmap.Anonymous {
		t.Errorf("before it had a name, it was %+v", p)
	}
	if _, err := unix.MmapPtr(-1, 0, unsafe.Pointer(&mem[2*page]), 2*page, all, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_FIXED); err != nil {
		t.Fatal(err)
	}
	is("mapped anew", 2, "")
}
