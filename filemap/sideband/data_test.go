package sideband

import (
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	rw        = unix.PROT_READ | unix.PROT_WRITE
	hugePage  = 1 << hugeBits
	hugeBits  = 21
	hugeFlags = unix.MAP_PRIVATE | unix.MAP_ANON | unix.MAP_FIXED | unix.MAP_HUGETLB | unix.MAP_NORESERVE | hugeBits<<26 // MAP_HUGE_SHIFT
)

// TestDataOverCode: code that goes by other ways than those that are traced is not
// taken to be there once data is.
func TestDataOverCode(t *testing.T) {
	for what, replace := range map[string]func(t *testing.T, code func(at unsafe.Pointer)) unsafe.Pointer{
		"huge page":                            underHugePage,
		"io_destroy":                           inRing,
		"moved huge page":                      underMovedPage,
		"huge page moved with another mapping": underPageMovedWith,
		"mprotect": func(t *testing.T, code func(unsafe.Pointer)) unsafe.Pointer {
			at := reserve(t, page)
			code(at)
			check(t, unix.Mprotect(unsafe.Slice((*byte)(at), page), rw))
			return at
		},
	} {
		t.Run(what, func(t *testing.T) {
			library := mappedLibrary(t)
			fd, err := unix.Open(library, unix.O_RDONLY|unix.O_CLOEXEC, 0)
			check(t, err)
			defer unix.Close(fd)
			b, _ := openBand(t, Options{})
			found := func(at unsafe.Pointer) bool {
				now := b.Now()
				drain(t, b)
				p, ok := b.History.Lookup(os.Getpid(), uint64(uintptr(at)), now)
				return ok && p.Mapping.File.Name == library
			}
			at := replace(t, func(at unsafe.Pointer) {
				_, err := unix.MmapPtr(fd, page, at, page, rx, unix.MAP_PRIVATE|unix.MAP_FIXED)
				check(t, err)
				if !found(at) {
					t.Fatal("code that is mapped is not known")
				}
			})
			if found(at) {
				t.Error("code is known where data is")
			}
		})
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// reserve takes addresses for a test.
func reserve(t *testing.T, size uintptr) unsafe.Pointer {
	t.Helper()
	at, err := unix.MmapPtr(-1, 0, nil, size, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	check(t, err)
	t.Cleanup(func() { _ = unix.MunmapPtr(at, size) })
	return at
}

// underHugePage maps a huge page over code, by a length of less.
func underHugePage(t *testing.T, code func(at unsafe.Pointer)) unsafe.Pointer {
	area := reserve(t, 2*hugePage)
	first := unsafe.Add(area, -uintptr(area)&(hugePage-1))
	at := unsafe.Add(first, hugePage/2)
	code(at)
	if _, err := unix.MmapPtr(-1, 0, first, page, rw, hugeFlags); err != nil {
		t.Skipf("no huge pages of 2 MiB here: %v", err)
	}
	return at
}

// underMovedPage moves a huge page over code, by a length of less.
func underMovedPage(t *testing.T, code func(at unsafe.Pointer)) unsafe.Pointer {
	area := reserve(t, 3*hugePage)
	first := unsafe.Add(area, -uintptr(area)&(hugePage-1))
	if _, err := unix.MmapPtr(-1, 0, first, hugePage, rw, hugeFlags); err != nil {
		t.Skipf("no huge pages of 2 MiB here: %v", err)
	}
	to := unsafe.Add(first, hugePage)
	at := unsafe.Add(to, hugePage/2)
	code(at)
	_, err := unix.MremapPtr(first, page, to, page, unix.MREMAP_MAYMOVE|unix.MREMAP_FIXED)
	if errors.Is(err, unix.EINVAL) {
		t.Skip("the kernel moves no huge pages (before Linux 5.16)")
	}
	check(t, err)
	return at
}

// underPageMovedWith moves a small mapping and a huge page after it over code, by a length of less.
func underPageMovedWith(t *testing.T, code func(at unsafe.Pointer)) unsafe.Pointer {
	area := reserve(t, 4*hugePage)
	first := unsafe.Add(area, -uintptr(area)&(hugePage-1))
	from := unsafe.Add(first, 2*hugePage)
	if _, err := unix.MmapPtr(-1, 0, from, hugePage, rw, hugeFlags); err != nil {
		t.Skipf("no huge pages of 2 MiB here: %v", err)
	}
	before := -page
	_, err := unix.MmapPtr(-1, 0, unsafe.Add(from, before), page, rw, unix.MAP_PRIVATE|unix.MAP_FIXED|unix.MAP_ANON)
	check(t, err)
	to := unsafe.Add(first, hugePage)
	at := unsafe.Add(to, hugePage/2)
	code(at)
	_, err = unix.MremapPtr(unsafe.Add(from, before), 2*page, unsafe.Add(to, before), 2*page, unix.MREMAP_MAYMOVE|unix.MREMAP_FIXED)
	if errors.Is(err, unix.EFAULT) {
		t.Skip("the kernel moves one mapping at a time (before Linux 6.17)")
	}
	check(t, err)
	return at
}

// inRing maps code into the ring of an AIO context, which goes as a whole.
func inRing(t *testing.T, code func(at unsafe.Pointer)) unsafe.Pointer {
	const events = 1000 // of 32 bytes
	var context uintptr
	if _, _, e := unix.Syscall(unix.SYS_IO_SETUP, events, uintptr(unsafe.Pointer(&context)), 0); e != 0 {
		t.Skipf("the kernel has no io_setup for us: %v", e)
	}
	ring := *(*unsafe.Pointer)(unsafe.Pointer(&context))
	at := unsafe.Add(ring, page)
	code(at)
	if _, _, e := unix.Syscall(unix.SYS_IO_DESTROY, context, 0, 0); e != 0 {
		t.Fatal(e)
	}
	got, err := unix.MmapPtr(-1, 0, at, page, rw, unix.MAP_PRIVATE|unix.MAP_ANON)
	check(t, err)
	t.Cleanup(func() { _ = unix.MunmapPtr(got, page) })
	if got != at {
		t.Skip("the kernel has chosen another address")
	}
	return at
}

// Where the program that overlapping makes has its code.
const overlappingBase, overlappingSize = 0x10000000, 4 * page

// overlapping is a program that writes a byte and waits. Of its one segment of code
// another one, without any file, takes the third page.
func overlapping() []byte {
	const head, segment = 64, 56
	code := []byte{
		0xb8, 1, 0, 0, 0, // mov $1,%eax: write
		0xbf, 1, 0, 0, 0, // mov $1,%edi
		0x48, 0x89, 0xe6, // mov %rsp,%rsi
		0xba, 1, 0, 0, 0, // mov $1,%edx
		0x0f, 0x05, // syscall
		0xb8, 34, 0, 0, 0, // mov $34,%eax: pause
		0x0f, 0x05, // syscall
	}
	out := make([]byte, overlappingSize)
	copy(out, "\x7fELF\x02\x01\x01")
	le := binary.LittleEndian
	le.PutUint16(out[16:], 2)  // ET_EXEC
	le.PutUint16(out[18:], 62) // EM_X86_64
	le.PutUint32(out[20:], 1)
	le.PutUint64(out[24:], overlappingBase+head+2*segment)
	le.PutUint64(out[32:], head)
	le.PutUint16(out[52:], head)
	le.PutUint16(out[54:], segment)
	le.PutUint16(out[56:], 2)
	for i, s := range [...]struct {
		flags          uint32
		at, file, size uint64
	}{{5, overlappingBase, overlappingSize, overlappingSize}, {6, overlappingBase + 2*page, 0, page}} {
		h := out[head+i*segment:]
		le.PutUint32(h, 1) // PT_LOAD
		le.PutUint32(h[4:], s.flags)
		le.PutUint64(h[16:], s.at)
		le.PutUint64(h[24:], s.at)
		le.PutUint64(h[32:], s.file)
		le.PutUint64(h[40:], s.size)
		le.PutUint64(h[48:], page)
	}
	copy(out[head+2*segment:], code)
	return out
}

// TestOverlappingSegments: where segments of a program lie over each other, the last
// one counts.
func TestOverlappingSegments(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("the program is one for x86")
	}
	name := filepath.Join(t.TempDir(), "program")
	check(t, os.WriteFile(name, overlapping(), 0o700))
	b, _ := openBand(t, Options{})
	cmd := exec.Command(name)
	out, err := cmd.StdoutPipe()
	check(t, err)
	check(t, cmd.Start())
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	_, err = out.Read(make([]byte, 1))
	check(t, err)
	now := b.Now()
	drain(t, b)
	for at, want := range map[uint64]bool{0: true, 2 * page: false, 3 * page: true} {
		p, ok := b.History.Lookup(cmd.Process.Pid, overlappingBase+at, now)
		if found := ok && p.Mapping.File.Name == name; found != want {
			t.Errorf("page %d: code of the program: %t, want %t", at/page, found, want)
		}
	}
}
