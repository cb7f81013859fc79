package procmap

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

func errorIs(err, want error) bool { return errors.Is(err, want) }

// writeFile makes a file of a test.
func writeFile(t *testing.T, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, content, 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// mapFile maps a page of a file into this process.
func mapFile(t *testing.T, name string, prot int) uint64 {
	t.Helper()
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC, 0) // os.Open would poll it, and keep a P
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	return mapFD(t, fd, prot, unix.MAP_PRIVATE)
}

func mapFD(t *testing.T, fd, prot, flags int) uint64 {
	t.Helper()
	b, err := unix.Mmap(fd, 0, os.Getpagesize(), prot, flags)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(b) })
	return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b))))
}

// nameMemory is prctl(PR_SET_VMA, PR_SET_VMA_ANON_NAME).
func nameMemory(t *testing.T, addr uint64, name string) {
	t.Helper()
	p, err := unix.BytePtrFromString(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Prctl(unix.PR_SET_VMA, unix.PR_SET_VMA_ANON_NAME, uintptr(addr), uintptr(os.Getpagesize()), uintptr(unsafe.Pointer(p))); err != nil {
		t.Skipf("this kernel does not name memory (CONFIG_ANON_VMA_NAME): %v", err)
	}
}

// checkAt looks at an address of this process with both sources, which agree.
func checkAt(t *testing.T, addr uint64, name string, kind Kind) Mapping {
	t.Helper()
	found := lookAt(t, addr, name, kind)
	sameIDs(t, found)
	return found[0]
}

// sameIDs fails unless all sources give the same build ID.
func sameIDs(t *testing.T, found []Mapping) {
	t.Helper()
	for _, m := range found[1:] {
		if m.BuildID != found[0].BuildID {
			t.Errorf("the ioctl says build ID %v, the text %v", found[0].BuildID, m.BuildID)
		}
	}
}

// checkUnreachable is checkAt of a file that no path leads to. Its build ID is
// compared where its link in map_files may be followed.
func checkUnreachable(t *testing.T, addr uint64, name string, kind Kind) {
	t.Helper()
	found := lookAt(t, addr, name, kind)
	t.Run("build ID", func(t *testing.T) {
		needMapFiles(t)
		sameIDs(t, found)
		if found[0].BuildID.IsZero() {
			t.Errorf("no build ID: %+v", found[0])
		}
	})
}

// lookAt looks at an address of this process with both sources. They agree in
// all but the build ID.
func lookAt(t *testing.T, addr uint64, name string, kind Kind) (found []Mapping) {
	t.Helper()
	for _, source := range []Source{Ioctl, Text} {
		r, err := NewReader(Options{Source: source, IDs: NewIDs(nil)})
		if err != nil {
			t.Logf("%v: %v", source, err)
			continue
		}
		h, err := r.Open(os.Getpid())
		if err != nil {
			t.Fatal(err)
		}
		m, ok, err := h.At(addr)
		h.Close()
		if err != nil || !ok {
			t.Fatalf("%v: nothing at %#x (%v)", source, addr, err)
		}
		if m.Name != name || m.Kind != kind {
			t.Errorf("%v: %q is a %v, want %q, a %v", source, m.Name, m.Kind, name, kind)
		}
		if m.Kind.HasFile() != (kind <= Memfd) {
			t.Errorf("%v: HasFile is %v", source, m.Kind.HasFile())
		}
		found = append(found, m)
		if m.BuildID = found[0].BuildID; m != found[0] {
			t.Errorf("the text says %+v, the ioctl %+v", m, found[0])
		}
	}
	return found
}

// TestLiveKinds makes each kind of memory and looks at it.
func TestLiveKinds(t *testing.T) {
	elf, err := os.ReadFile(systemLibraries(t, 1)[0])
	if err != nil {
		t.Fatal(err)
	}
	rx := unix.PROT_READ | unix.PROT_EXEC
	t.Run("file", func(t *testing.T) {
		name := writeFile(t, "lib x.so", elf)
		if m := checkAt(t, mapFile(t, name, rx), name, File); m.BuildID.IsZero() || m.Inode == 0 {
			t.Errorf("no build ID or inode: %+v", m)
		}
	})
	t.Run("deleted", func(t *testing.T) {
		name := writeFile(t, "gone.so", elf)
		addr := mapFile(t, name, rx)
		os.Remove(name)
		checkUnreachable(t, addr, name+" (deleted)", Deleted)
	})
	t.Run("deleted and replaced", func(t *testing.T) {
		name := writeFile(t, "other.so", elf)
		addr := mapFile(t, name, rx)
		os.Remove(name)
		if err := os.WriteFile(name, []byte("another file"), 0o644); err != nil {
			t.Fatal(err)
		}
		checkUnreachable(t, addr, name+" (deleted)", Deleted)
	})
	t.Run("memfd", func(t *testing.T) {
		fd, err := unix.MemfdCreate("jit code", 0)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(fd)
		if _, err := unix.Write(fd, elf); err != nil {
			t.Fatal(err)
		}
		checkUnreachable(t, mapFD(t, fd, rx, unix.MAP_PRIVATE), "/memfd:jit code (deleted)", Memfd)
	})
	t.Run("shared anonymous", func(t *testing.T) {
		checkAt(t, mapFD(t, -1, rx, unix.MAP_SHARED|unix.MAP_ANON), "/dev/zero (deleted)", SharedAnon)
	})
	t.Run("private /dev/zero", func(t *testing.T) {
		checkAt(t, mapFile(t, "/dev/zero", rx), "/dev/zero", File)
	})
	t.Run("SysV", func(t *testing.T) {
		id, err := unix.SysvShmGet(unix.IPC_PRIVATE, 4096, unix.IPC_CREAT|0o600)
		if err != nil {
			t.Skipf("no SysV shared memory: %v", err)
		}
		defer unix.SysvShmCtl(id, unix.IPC_RMID, nil)
		b, err := unix.SysvShmAttach(id, 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.SysvShmDetach(b)
		checkAt(t, uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))), "/SYSV00000000 (deleted)", SysV)
	})
	t.Run("anonymous", func(t *testing.T) {
		// Two permissions that Go's own memory does not have, so that the
		// kernel does not merge it with that.
		checkAt(t, mapFD(t, -1, rx, unix.MAP_PRIVATE|unix.MAP_ANON), "", Anonymous)
	})
	t.Run("named", func(t *testing.T) {
		addr := mapFD(t, -1, rx, unix.MAP_PRIVATE|unix.MAP_ANON)
		nameMemory(t, addr, "v8 jit")
		checkAt(t, addr, "[anon:v8 jit]", AnonNamed)
	})
	t.Run("named, shared", func(t *testing.T) {
		addr := mapFD(t, -1, rx, unix.MAP_SHARED|unix.MAP_ANON)
		nameMemory(t, addr, "v8 jit")
		checkAt(t, addr, "[anon_shmem:v8 jit]", AnonShmem)
	})
	for name, kind := range map[string]Kind{"[vdso]": VDSO, "[stack]": Stack, "[vvar]": Special, "[vsyscall]": Vsyscall} {
		t.Run(name, func(t *testing.T) {
			lines, err := rawLines(os.Getpid(), "")
			if err != nil {
				t.Skip(err)
			}
			for _, line := range lines {
				if m, err := ParseLine([]byte(line)); err == nil && m.Name == name {
					checkAt(t, m.Start, name, kind)
					return
				}
			}
			t.Skip("this process has none")
		})
	}
	t.Run("[heap]", func(t *testing.T) { // of a process that has one
		h := startHeap(t)
		bothSources(t, Options{}, func(t *testing.T, r *Reader) {
			var p Process
			if err := r.Process(h, &p); err != nil {
				t.Fatal(err)
			}
			for _, m := range p.Mappings {
				if m.Name == "[heap]" && m.Kind == Heap {
					return
				}
			}
			t.Error("no heap")
		})
	})
	t.Run("line feeds", func(t *testing.T) {
		name := writeFile(t, "a\nb\tc\x1b[31m \xff", elf)
		checkAt(t, mapFile(t, name, rx), name, File)
	})
	t.Run("backslash", func(t *testing.T) {
		name := writeFile(t, `x\134y`, elf)
		checkAt(t, mapFile(t, name, rx), name, File)
	})
}

// TestAmbiguousName: of a name with a literal \012 the ioctl knows what it is, and with
// the right to read links in map_files the text does.
func TestAmbiguousName(t *testing.T) {
	name := writeFile(t, "nl\nx\\012y", []byte("text"))
	addr := mapFile(t, name, unix.PROT_READ)
	bothSources(t, Options{}, func(t *testing.T, r *Reader) {
		want := name
		if link := fmt.Sprintf("/proc/self/map_files/%x-%x", addr, addr+uint64(os.Getpagesize())); r.Source() == Text {
			if _, err := os.Readlink(link); err != nil {
				want = strings.ReplaceAll(name, `\012`, "\n")
			}
		}
		h, err := r.Open(os.Getpid())
		if err != nil {
			t.Fatal(err)
		}
		defer h.Close()
		if m, _, err := h.At(addr); err != nil || m.Name != want {
			t.Errorf("At says %q (%v), want %q", m.Name, err, want)
		}
		seen := false
		err = h.Each(func(m *Mapping) bool {
			seen = seen || m.Start == addr && m.Name == want
			return true
		})
		if err != nil || !seen {
			t.Errorf("Each does not have %q: %v", want, err)
		}
	})
}

// TestLongNames: the ioctl has room for 4095 bytes, paths have no bound.
func TestLongNames(t *testing.T) {
	elf, err := os.ReadFile(systemLibraries(t, 1)[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, length := range []int{4000, 4094, 4095, 4096, 4097, 9000, 70000} {
		dir := t.TempDir()
		fd, path := deepDirectory(t, dir, length)
		name := strings.Repeat("n", length-len(path)-1)
		path += "/" + name
		file, err := unix.Openat(fd, name, unix.O_RDWR|unix.O_CREAT|unix.O_CLOEXEC, 0o755)
		if err != nil {
			t.Fatal(err)
		}
		unix.Close(fd)
		if _, err := unix.Write(file, elf); err != nil {
			t.Fatal(err)
		}
		addr := mapFD(t, file, unix.PROT_READ|unix.PROT_EXEC, unix.MAP_PRIVATE)
		unix.Close(file)
		t.Run(strconv.Itoa(length), func(t *testing.T) {
			checkUnreachable(t, addr, path, File)
			bothSources(t, Options{}, func(t *testing.T, r *Reader) {
				var p Process
				if err := r.Process(os.Getpid(), &p); err != nil {
					t.Fatal(err)
				}
				if !strings.Contains(strings.Join(ourLines(&p), "\n"), path) {
					t.Error("not in the list")
				}
			})
		})
	}
}

// deepDirectory makes directories in dir until a name of at most 255 bytes is missing
// for a path of this length.
func deepDirectory(t *testing.T, dir string, length int) (fd int, path string) {
	t.Helper()
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	for path = dir; length-len(path)-1 > 255; {
		name := strings.Repeat("d", min(200, length-len(path)-3))
		if err := unix.Mkdirat(fd, name, 0o755); err != nil {
			t.Fatal(err)
		}
		next, err := unix.Openat(fd, name, unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		unix.Close(fd)
		fd, path = next, path+"/"+name
	}
	return fd, path
}

func TestClassify(t *testing.T) {
	disk, none := Dev{0xfe, 0}, Dev{0, 1}
	for _, test := range []struct {
		name  string
		dev   Dev
		inode uint64
		want  Kind
	}{
		{"/usr/bin/cat", disk, 5, File},
		{"/usr/bin/cat (deleted)", disk, 5, Deleted},
		{"/memfd:x (deleted)", none, 5, Memfd},
		{"/memfd: (deleted)", none, 5, Memfd},
		{"/memfd:x (deleted)", disk, 5, Deleted}, // a file that was called so
		{"/memfd:x", none, 5, File},
		{"/dev/zero (deleted)", none, 5, SharedAnon},
		{"/dev/zero", Dev{0, 6}, 4, File},
		{"/dev/zero (deleted)", disk, 5, Deleted},
		{"/anon_hugepage (deleted)", Dev{0, 15}, 5, SharedAnon},
		{"/SYSV0000002a (deleted)", none, 5, SysV},
		{"/SYSV0000002g (deleted)", none, 5, Deleted},
		{"/SYSV00 (deleted)", none, 5, Deleted},
		{"/[aio] (deleted)", none, 5, Deleted},
		{"", Dev{}, 0, Anonymous},
		{"", disk, 7, File},
		{"[heap]", Dev{}, 0, Heap},
		{"[stack]", Dev{}, 0, Stack},
		{"[stack:12]", Dev{}, 0, Stack},
		{"[vdso]", Dev{}, 0, VDSO},
		{"[vsyscall]", Dev{}, 0, Vsyscall},
		{"[vvar]", Dev{}, 0, Special},
		{"[uprobes]", Dev{}, 0, Special},
		{"[anon:scudo:primary]", Dev{}, 0, AnonNamed},
		{"[anon_shmem:v8]", none, 5, AnonShmem},
		{"anon_inode:[io_uring]", Dev{0, 14}, 5, File},
		{"[", Dev{}, 0, File},
	} {
		if got := Classify(test.name, test.dev, test.inode); got != test.want {
			t.Errorf("%q on %v is a %v, want %v", test.name, test.dev, got, test.want)
		}
	}
	seen := map[string]bool{}
	for k := File; k <= Anonymous; k++ {
		if s := k.String(); s == "" || seen[s] {
			t.Errorf("kind %d is called %q", k, s)
		} else {
			seen[s] = true
		}
	}
}
