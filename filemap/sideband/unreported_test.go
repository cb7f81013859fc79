package sideband

import (
	"debug/elf"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// withoutNotes writes a library to a file, and takes the segments of notes from it, where the
// kernel looks for a build ID. The sections stay, as in what the Go linker makes.
func withoutNotes(t *testing.T, library, path string) *os.File {
	t.Helper()
	f, err := newFile(library, path)
	check(t, err)
	t.Cleanup(func() { f.Close() })
	e, err := elf.NewFile(f)
	check(t, err)
	if e.Class != elf.ELFCLASS64 {
		skip(t, "a 64-bit library is needed")
	}
	head := make([]byte, 64)
	_, err = f.ReadAt(head, 0)
	check(t, err)
	at, size := int64(e.ByteOrder.Uint64(head[32:])), int64(e.ByteOrder.Uint16(head[54:]))
	for i, p := range e.Progs {
		if p.Type == elf.PT_NOTE {
			_, err := f.WriteAt(binary.NativeEndian.AppendUint32(nil, uint32(elf.PT_NULL)), at+int64(i)*size)
			check(t, err)
		}
	}
	return f
}

// TestUnreported: a file whose build ID the kernel does not report has none if others than root
// can write it: they can have done so before it was read, which no time shows.
func TestUnreported(t *testing.T) {
	if os.Getuid() != 0 {
		skip(t, "root's files are only root's")
	}
	b := watchingBand(t)
	library, dir := mappedLibrary(t), t.TempDir()
	addrs := make(map[bool]uint64)
	for _, roots := range []bool{true, false} {
		path := filepath.Join(dir, "library")
		if roots {
			path += ".root"
		}
		f := withoutNotes(t, library, path)
		if buildID(t, path).IsZero() {
			skip(t, "a library with sections is needed")
		}
		if !roots {
			giveAway(t, path)
		}
		mem, err := unix.Mmap(int(f.Fd()), 0, page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		check(t, err)
		mem[0] = elf.ELFMAG[0] // as it was: it is dirty from now on
		t.Cleanup(func() { _ = unix.Munmap(mem) })
		pass(b, 3*coarse)
		addrs[roots] = keptCode(t, path)
	}
	for range 2 {
		drain(t, b)
	}
	for roots, addr := range addrs {
		if idOf(t, b, addr) != roots {
			t.Errorf("only root can write it %v: has a build ID %v", roots, !roots)
		}
	}
}
