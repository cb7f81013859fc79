package procmap

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// These tests hold the kernel to what FORMATS 4.1 and 4.2 say of it: the code
// relies on it. None asks for a build ID, see identify.

func TestQueryStruct(t *testing.T) {
	var q query
	if size := unsafe.Sizeof(q); size != 104 {
		t.Errorf("the struct has %d bytes, the kernel's has 104", size)
	}
	for _, f := range []struct {
		name      string
		got, want uintptr
	}{
		{"size", unsafe.Offsetof(q.size), 0}, {"query_flags", unsafe.Offsetof(q.flags), 8},
		{"query_addr", unsafe.Offsetof(q.addr), 16}, {"vma_start", unsafe.Offsetof(q.start), 24},
		{"vma_end", unsafe.Offsetof(q.end), 32}, {"vma_flags", unsafe.Offsetof(q.perms), 40},
		{"vma_page_size", unsafe.Offsetof(q.pageSize), 48}, {"vma_offset", unsafe.Offsetof(q.offset), 56},
		{"inode", unsafe.Offsetof(q.inode), 64}, {"dev_major", unsafe.Offsetof(q.major), 72},
		{"dev_minor", unsafe.Offsetof(q.minor), 76}, {"vma_name_size", unsafe.Offsetof(q.nameSize), 80},
		{"build_id_size", unsafe.Offsetof(q.buildIDSize), 84}, {"vma_name_addr", unsafe.Offsetof(q.name), 88},
		{"build_id_addr", unsafe.Offsetof(q.buildID), 96},
	} {
		if f.got != f.want {
			t.Errorf("%s is at byte %d, should be at %d", f.name, f.got, f.want)
		}
	}
	const iowr, kind, number = 3, 'f', 17
	if code := iowr<<30 | int(unsafe.Sizeof(q))<<16 | kind<<8 | number; code != ioctlQuery {
		t.Errorf("the ioctl is %#x, by its definition %#x", ioctlQuery, code)
	}
}

// rawQuery makes a query with exactly this struct, followed by more bytes.
func rawQuery(fd int, q query, more []byte) (query, unix.Errno) {
	buf := make([]byte, unsafe.Sizeof(q), int(unsafe.Sizeof(q))+len(more)+1)
	copy(buf, unsafe.Slice((*byte)(unsafe.Pointer(&q)), unsafe.Sizeof(q)))
	buf = append(buf, more...)
	errno := ioctl(fd, unsafe.Pointer(unsafe.SliceData(buf)))
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&q)), unsafe.Sizeof(q)), buf)
	return q, errno
}

func openMaps(t *testing.T, path string) int {
	t.Helper()
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Skipf("opening %s: %v", path, err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	return fd
}

// elfMapping is an executable mapping of a file with a build ID in this
// process.
func elfMapping(t *testing.T) Mapping {
	t.Helper()
	library := systemLibraries(t, 1)[0]
	mapFile(t, library, unix.PROT_READ|unix.PROT_EXEC)
	r := needIoctl(t, Options{IDs: NewIDs(nil)})
	var p Process
	if err := r.Process(os.Getpid(), &p); err != nil {
		t.Fatal(err)
	}
	for _, m := range p.Mappings {
		if m.BuildID.Len() == 20 && m.Name == library {
			return m
		}
	}
	t.Skip("no file with a build ID of 20 bytes")
	return Mapping{}
}

func TestErrno(t *testing.T) {
	needIoctl(t, Options{})
	self := openMaps(t, "/proc/self/maps")
	m := elfMapping(t)
	name := make([]byte, 4096)
	address := func(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }
	good := func() query {
		return query{size: 104, flags: coveringOrNext, addr: m.Start, nameSize: 4096, name: address(name)}
	}
	page := uint64(os.Getpagesize())
	for _, test := range []struct {
		what  string
		edit  func(q *query)
		more  []byte
		errno unix.Errno
	}{
		{"all right", func(q *query) {}, nil, 0},
		{"nothing there", func(q *query) { q.flags, q.addr = 0, 0 }, nil, unix.ENOENT},
		{"there, but not shared", func(q *query) { q.flags = uint64(Shared) }, nil, unix.ENOENT},
		{"nothing after it", func(q *query) { q.addr = 1<<64 - 4096 }, nil, unix.ENOENT},
		{"vsyscall", func(q *query) { q.flags, q.addr = 0, 0xffffffffff600000 }, nil, unix.ENOENT},
		{"too small", func(q *query) { q.size = 23 }, nil, unix.EINVAL},
		{"the smallest", func(q *query) { q.size = 24; q.flags = 0 }, nil, 0},
		{"unknown flag", func(q *query) { q.flags |= 0x40 }, nil, unix.EINVAL},
		{"name without room", func(q *query) { q.nameSize = 0 }, nil, unix.EINVAL},
		{"room without name", func(q *query) { q.name = 0 }, nil, unix.EINVAL},
		{"larger than a page", func(q *query) { q.size = page + 1 }, make([]byte, page), unix.E2BIG},
		{"longer, not zero", func(q *query) { q.size = 112 }, []byte{0, 0, 0, 0, 0, 0, 0, 1}, unix.E2BIG},
		{"longer, zero", func(q *query) { q.size = 112 }, make([]byte, 8), 0},
		{"name too long", func(q *query) { q.nameSize = 4 }, nil, unix.ENAMETOOLONG},
		{"bad pointer to name", func(q *query) { q.name = 1 }, nil, unix.EFAULT},
		{"bad pointer, nothing there", func(q *query) { q.name, q.flags, q.addr = 1, 0, 0 }, nil, unix.ENOENT},
	} {
		t.Run(test.what, func(t *testing.T) {
			q := good()
			test.edit(&q)
			got, errno := rawQuery(self, q, test.more)
			if errno != test.errno {
				t.Fatalf("errno %d (%v), want %d (%v)", errno, errno, test.errno, test.errno)
			}
			if errno != 0 && got != q {
				t.Errorf("the call failed and wrote something:\n%+v\n%+v", q, got)
			}
			if q.size == 24 && got != q {
				t.Errorf("with a size of 24 something was written:\n%+v\n%+v", q, got)
			}
		})
	}
	runtime.KeepAlive(name)
	t.Run("no argument", func(t *testing.T) {
		if errno := ioctl(self, nil); errno != unix.EFAULT {
			t.Errorf("errno %v, want EFAULT", errno)
		}
	})
	t.Run("not maps", func(t *testing.T) {
		for _, file := range []string{"/proc/self/smaps", "/dev/null"} {
			if _, errno := rawQuery(openMaps(t, file), good(), nil); errno != unix.ENOTTY {
				t.Errorf("%s: errno %v, want ENOTTY", file, errno)
			}
		}
	})
	t.Run("maps of a thread", func(t *testing.T) {
		if got, errno := rawQuery(openMaps(t, fmt.Sprintf("/proc/self/task/%d/maps", os.Getpid())), good(), nil); errno != 0 || got.start != m.Start {
			t.Errorf("errno %v, start %#x", errno, got.start)
		}
	})
}

// TestMemoryGone: what is gone is ESRCH for the ioctl, and no text.
func TestMemoryGone(t *testing.T) {
	needIoctl(t, Options{})
	gone := func(t *testing.T, fd int) {
		t.Helper()
		b := newBuffers()
		// Who reads all processes meanwhile keeps the memory for a moment.
		waitFor(t, func() bool { return b.ask(fd, 0, coveringOrNext, false) == unix.ESRCH })
		var text [100]byte
		if n, err := unix.Pread(fd, text[:], 0); n > 0 || err != nil && err != unix.ESRCH {
			t.Errorf("%d bytes of text, %v", n, err)
		}
	}
	for _, source := range []Source{Ioctl, Text} {
		r, err := NewReader(Options{Source: source, Stat: true})
		if err != nil {
			t.Fatal(err)
		}
		short, err := NewReader(Options{Source: source})
		if err != nil {
			t.Fatal(err)
		}
		// result is what both Readers make of a process.
		result := func(t *testing.T, pid int, want error) {
			t.Helper()
			var p Process
			for _, r := range []*Reader{r, short} {
				if err := r.Process(pid, &p); !errorIs(err, want) {
					t.Errorf("reading it gives %v, want %v", err, want)
				}
			}
		}
		t.Run(source.String()+"/exec", func(t *testing.T) {
			h := startHelper(t, "exec")
			fd := openMaps(t, fmt.Sprintf("/proc/%d/maps", h.pid))
			open, err := r.Open(h.pid)
			if err != nil {
				t.Fatal(err)
			}
			defer open.Close()
			h.in.Close() // now it executes cat
			waitFor(t, func() bool { s, err := r.Stat(h.pid); return err != nil || s.Comm == "cat" || s.State == 'Z' })
			gone(t, fd)
			if _, _, err := open.At(0x1000); !errorIs(err, ErrGone) {
				t.Errorf("the old memory answers with %v", err)
			}
			if err := open.Each(func(*Mapping) bool { return true }); !errorIs(err, ErrGone) {
				t.Errorf("the old memory answers with %v", err)
			}
		})
		t.Run(source.String()+"/zombie", func(t *testing.T) {
			cmd := exec.Command("true")
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			before := openMaps(t, fmt.Sprintf("/proc/%d/maps", cmd.Process.Pid))
			waitFor(t, func() bool { s, err := r.Stat(cmd.Process.Pid); return err == nil && s.State == 'Z' })
			gone(t, openMaps(t, fmt.Sprintf("/proc/%d/maps", cmd.Process.Pid)))
			result(t, cmd.Process.Pid, ErrNoMemory)
			cmd.Wait()
			gone(t, before)
			result(t, cmd.Process.Pid, ErrGone)
		})
		t.Run(source.String()+"/kernel thread", func(t *testing.T) {
			s, err := r.Stat(2)
			if err != nil || !s.KernelThread || s.Comm != "kthreadd" {
				t.Skipf("process 2 is no kernel thread: %+v, %v", s, err)
			}
			gone(t, openMaps(t, "/proc/2/maps"))
			result(t, 2, ErrNoMemory)
			result(t, 2, ErrNoMemory) // as remembered
		})
	}
}

func waitFor(t *testing.T, ready func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if ready() {
			return
		}
	}
	t.Fatal("waited for 10 s")
}

// TestNoIoctl: a kernel without the ioctl is one whose maps answers ENOTTY, as
// a plain file does.
func TestNoIoctl(t *testing.T) {
	proc := t.TempDir()
	for name, text := range map[string]string{
		"self/maps": "00400000-00401000 r-xp 00000000 fe:00 12                         /bin/self\n",
		"7/maps": "00400000-00401000 r-xp 00002000 fe:00 12                                 /bin/x\n" +
			"00401000-00402000 r--p 00003000 fe:00 12                         /bin/x\n",
		"7/stat":  "7 (a ) b) S 1 7 7 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 4711 1 1\n",
		"8/other": "",
	} {
		file := proc + "/" + name
		if err := os.MkdirAll(file[:strings.LastIndex(file, "/")], 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	r, err := NewReader(Options{Proc: proc, Filter: Filter{Perms: Exec}, Stat: true})
	if err != nil {
		t.Fatal(err)
	}
	if r.Source() != Text {
		t.Errorf("the source is %v, want text", r.Source())
	}
	var got []string
	c, err := r.Walk(nil, func(p *Process, err error) error {
		if err == nil {
			got = append(got, fmt.Sprint(p.PID, p.Stat, ourLines(p)))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	want := "7 {a ) b 4711 1 83 false} [00400000-00401000 r-xp 00002000 fe:00 12                                 /bin/x]"
	if len(got) != 1 || got[0] != want || c != (Counts{Processes: 1, Mappings: 1, Gone: 1}) {
		t.Errorf("got %q, %+v\nwant %q", got, c, want)
	}
	if _, err := NewReader(Options{Proc: proc, Source: Ioctl}); err == nil || !strings.Contains(err.Error(), "6.11") {
		t.Errorf("forced, the ioctl gives %v", err)
	}
}
