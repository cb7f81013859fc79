package procmap

import (
	"fmt"
	"os"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// holeKinds are the kinds of memory whose page may be absent where the kernel
// would look for a build ID.
var holeKinds = []string{"memfd", "shared anonymous", "System V", "tmpfs", "hugetlb"}

// holeSize is the size of two pages of any machine, and of one huge page.
const holeSize = 2 << 20

// makeHole maps memory of a kind that has no page yet, executable, and returns
// where, and the descriptor of its file, -1 if it has none.
func makeHole(kind string) (mem []byte, fd int, err error) {
	prot, fd := unix.PROT_READ|unix.PROT_EXEC, -1
	switch kind {
	case "memfd":
		fd, err = unix.MemfdCreate("hole", unix.MFD_CLOEXEC)
	case "hugetlb":
		fd, err = unix.MemfdCreate("hole", unix.MFD_CLOEXEC|unix.MFD_HUGETLB|unix.MFD_HUGE_2MB)
	case "tmpfs":
		fd, err = unix.Open("/dev/shm", unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o700)
	case "System V":
		mem, err = mapSysV(prot)
		return mem, -1, err
	}
	if err != nil {
		return nil, -1, fmt.Errorf("making the file: %w", err)
	}
	flags := unix.MAP_SHARED
	if fd < 0 {
		flags |= unix.MAP_ANON
	} else if err := unix.Ftruncate(fd, holeSize); err != nil {
		return nil, fd, fmt.Errorf("giving the file a size: %w", err)
	}
	if mem, err = unix.Mmap(fd, 0, holeSize, prot, flags); err != nil {
		err = fmt.Errorf("mapping: %w", err)
	}
	return mem, fd, err
}

// mapSysV maps a segment that goes when nothing maps it any more.
func mapSysV(prot int) ([]byte, error) {
	id, err := unix.SysvShmGet(unix.IPC_PRIVATE, holeSize, unix.IPC_CREAT|0o700)
	if err != nil {
		return nil, fmt.Errorf("making the segment: %w", err)
	}
	mem, err := unix.SysvShmAttach(id, 0, 0)
	if _, rerr := unix.SysvShmCtl(id, unix.IPC_RMID, nil); err == nil && rerr != nil {
		err = rerr
	}
	if err != nil {
		return nil, fmt.Errorf("attaching the segment: %w", err)
	}
	return mem, unix.Mprotect(mem, prot)
}

func unmapHole(kind string, mem []byte) {
	if kind == "System V" {
		_ = unix.SysvShmDetach(mem)
		return
	}
	_ = unix.Munmap(mem)
}

// mapHoles is the helper that maps all of them, except the ones that TestHoles skips.
func mapHoles() error {
	for _, kind := range holeKinds {
		if _, _, err := makeHole(kind); err != nil && kind != "hugetlb" {
			return fmt.Errorf("%s: %w", kind, err)
		}
	}
	return nil
}

// recorder is a kernel that notes what it is asked.
type recorder struct{ queries, forIDs int }

func (r *recorder) call(fd int, arg unsafe.Pointer) unix.Errno {
	r.queries++
	if q := (*query)(arg); q.buildIDSize != 0 || q.buildID != 0 {
		r.forIDs++
		return unix.EPERM // not this kernel, either
	}
	return ioctl(fd, arg)
}

// TestNeverAsksForIDs: whatever is mapped, no question is for a build ID. In some
// kernels that is a NULL dereference, or a loop without end.
func TestNeverAsksForIDs(t *testing.T) {
	libraries := startHelper(t, "libraries", systemLibraries(t, 5)...)
	holes := startHelper(t, "holes")
	r := needIoctl(t, Options{IDs: NewIDs(nil)})
	var kernel recorder
	r.buf.call = kernel.call
	ids, kinds := 0, map[Kind]int{}
	look := func(m *Mapping) bool {
		if !m.BuildID.IsZero() {
			ids++
		}
		kinds[m.Kind]++
		return true
	}
	if _, err := r.Walk(nil, func(p *Process, err error) error {
		for i := range p.Mappings {
			look(&p.Mappings[i])
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for _, pid := range []int{libraries.pid, holes.pid, os.Getpid()} {
		h, err := r.Open(pid)
		if err != nil {
			t.Fatal(err)
		}
		defer h.Close()
		if err := h.Each(look); err != nil {
			t.Error(err)
		}
		for next := uint64(0); ; {
			m, ok, err := h.Next(next)
			if err != nil {
				t.Fatal(err)
			}
			if !ok {
				break
			}
			look(&m)
			if _, _, err := h.At(m.Start); err != nil {
				t.Error(err)
			}
			next = m.End
		}
	}
	t.Logf("%d questions, %d build IDs, %v", kernel.queries, ids, kinds)
	if kernel.forIDs > 0 {
		t.Errorf("%d of %d questions were for a build ID", kernel.forIDs, kernel.queries)
	}
	if kernel.queries == 0 || ids == 0 || kinds[Memfd] == 0 || kinds[SharedAnon] == 0 {
		t.Error("too little was looked at")
	}
}

// TestHoles: memory without a page is read like any other, and has no page
// afterwards either.
func TestHoles(t *testing.T) {
	for _, kind := range holeKinds {
		t.Run(kind, func(t *testing.T) {
			mem, fd, err := makeHole(kind)
			if err != nil {
				t.Skip(err)
			}
			defer unmapHole(kind, mem)
			if fd >= 0 {
				defer unix.Close(fd)
			}
			addr := uint64(uintptr(unsafe.Pointer(unsafe.SliceData(mem))))
			bothSources(t, Options{IDs: NewIDs(nil)}, func(t *testing.T, r *Reader) {
				h, err := r.Open(os.Getpid())
				if err != nil {
					t.Fatal(err)
				}
				defer h.Close()
				m, ok, err := h.At(addr)
				if err != nil || !ok || !m.BuildID.IsZero() || m.Perms&Exec == 0 {
					t.Errorf("%+v, %v, %v", m, ok, err)
				}
			})
			var st unix.Stat_t
			if fd >= 0 && (unix.Fstat(fd, &st) != nil || st.Blocks != 0) {
				t.Errorf("it has %d blocks now", st.Blocks)
			}
		})
	}
}
