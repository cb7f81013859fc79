package whole

import (
	"os"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"ustack/filemap/procmem"
	"ustack/tracefs"
	"ustack/tracefs/perf"
)

// present returns which of the pages of memory of this process are in memory
// (Documentation/admin-guide/mm/pagemap.rst).
func present(t *testing.T, mem []byte) (list []bool) {
	t.Helper()
	f, err := os.Open("/proc/self/pagemap")
	if err != nil {
		t.Skip(err)
	}
	defer f.Close()
	page := os.Getpagesize()
	for at := 0; at < len(mem); at += page {
		var b [8]byte // little endian
		if _, err := f.ReadAt(b[:], int64(uintptr(unsafe.Pointer(&mem[at])))/int64(page)*8); err != nil {
			t.Fatal(err)
		}
		list = append(list, b[7]>>7 == 1)
	}
	return list
}

// TestHoles: pages that a program has never touched are in memory once a copy has ended there,
// with what they had; others, and too many, are not read.
func TestHoles(t *testing.T) {
	if os.Getpagesize() != pageSize {
		t.Skip("pages of another size")
	}
	const pages, stackPages = 40, perf.MaxStack/pageSize + 1
	mem, err := unix.Mmap(-1, 0, pages*pageSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(mem)
	if err := unix.Madvise(mem, unix.MADV_NOHUGEPAGE); err != nil {
		t.Skip(err)
	}
	mem[0], mem[3*pageSize] = 1, 2
	h := NewHoles(procmem.New(0))
	const now = tracefs.Time(10e9)
	h.Fill(os.Getpid(), uint64(uintptr(unsafe.Pointer(&mem[16]))), pageSize-16, now)
	for i, in := range present(t, mem) {
		if i < 2 && !in || i > stackPages && in {
			t.Errorf("page %d: %v", i, in)
		}
	}
	if n := len(h.tried); n != 1 || h.reads != holeReads-1 {
		t.Errorf("%d pages are noted, %d readings left", n, h.reads)
	}
	if mem[0] != 1 || mem[3*pageSize] != 2 {
		t.Error("the memory has changed")
	}
	if key := (hole{1, 1}); !h.may(key, now) || h.may(key, now+1) || !h.may(key, now+holeAgain) {
		t.Error("a page is read again at once, or never")
	}
	n := 0
	for page := range uint64(2 * holeReads) {
		if h.may(hole{2, page}, now+holeAgain) {
			n++
		}
	}
	if n > holeReads || len(h.tried) > maxHoles {
		t.Errorf("%d of a second, %d noted", n, len(h.tried))
	}
	if !h.may(hole{3, 1}, now+3*holeAgain) {
		t.Error("none in the next second")
	}
}
