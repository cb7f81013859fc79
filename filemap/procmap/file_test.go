package procmap

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"ustack/filemap/openfile"
)

// TestInodeReuse: a file that got the inode number of another one, under the
// same name, is another generation with an ID of its own.
func TestInodeReuse(t *testing.T) {
	one, two := buildWith(t, "a.so", "-Wl,--build-id=0x00000001"), buildWith(t, "b.so", "-Wl,--build-id=0x00000002")
	contents := [2][]byte{}
	for i, name := range []string{one, two} {
		var err error
		if contents[i], err = os.ReadFile(name); err != nil {
			t.Fatal(err)
		}
	}
	bothSources(t, Options{IDs: NewIDs(nil)}, func(t *testing.T, r *Reader) {
		name := filepath.Join(t.TempDir(), "lib.so")
		var inodes, generations []uint64
		for round := range 20 {
			if err := os.WriteFile(name, contents[round%2], 0o755); err != nil {
				t.Fatal(err)
			}
			addr := mapFile(t, name, unix.PROT_READ|unix.PROT_EXEC)
			h, err := r.Open(os.Getpid())
			if err != nil {
				t.Fatal(err)
			}
			m, ok, err := h.At(addr)
			h.Close()
			if !ok || err != nil || m.BuildID.Hex() != []string{"00000001", "00000002"}[round%2] {
				t.Fatalf("round %d: %v %v: %+v", round, ok, err, m)
			}
			inodes, generations = append(inodes, m.Inode), append(generations, uint64(m.Generation))
			unmap(t, addr)
			os.Remove(name)
		}
		t.Logf("inodes %v, generations %v", inodes, generations)
		for i := 1; i < len(inodes); i++ {
			if inodes[i] == inodes[i-1] && generations[i] == generations[i-1] {
				t.Errorf("round %d: inode %d has the generation of the file before", i, inodes[i])
			}
		}
	})
}

func unmap(t *testing.T, addr uint64) {
	t.Helper()
	if _, _, errno := unix.Syscall(unix.SYS_MUNMAP, uintptr(addr), uintptr(os.Getpagesize()), 0); errno != 0 {
		t.Fatal(errno)
	}
}

// TestNeverAnotherFile: on the text path the path leads to another file, or to
// none: then there is no ID, rather than a wrong one.
func TestNeverAnotherFile(t *testing.T) {
	one, two := buildWith(t, "a.so", "-Wl,--build-id=0x00000001"), buildWith(t, "b.so", "-Wl,--build-id=0x00000002")
	elf, err := os.ReadFile(one)
	if err != nil {
		t.Fatal(err)
	}
	name := writeFile(t, "lib.so", elf)
	addr := mapFile(t, name, unix.PROT_READ|unix.PROT_EXEC)
	r := needText(t, Options{IDs: NewIDs(nil)})
	h, err := r.openAs(os.Getpid(), os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	var m Mapping
	if ok, err := h.find(addr, 0, &m); !ok || err != nil {
		t.Fatal(err)
	}
	root := "/proc/self/root"
	f := newMappedFile(r, os.Getpid(), &m)
	if fd, err := f.openAs(root+m.Name, false); err != nil {
		t.Errorf("by its path: %v", err)
	} else {
		unix.Close(fd)
	}
	for _, replace := range []func() error{
		func() error { return os.Rename(two, name) },
		func() error { os.Remove(name); return os.Symlink("/dev/zero", name) },
		func() error { os.Remove(name); return unix.Mkfifo(name, 0o600) },
		func() error { os.Remove(name); return os.Mkdir(name, 0o700) },
		func() error { return os.Remove(name) },
	} {
		if err := replace(); err != nil {
			t.Fatal(err)
		}
		if fd, err := f.openAs(root+m.Name, false); err == nil {
			unix.Close(fd)
			t.Error("another file is taken for the one that is mapped")
		}
	}
}

// TestOverlay: on overlayfs the kernel shows the file that the process opened,
// and the ID is that of the file, or there is none rather than a wrong one.
func TestOverlay(t *testing.T) {
	needRoot(t)
	lower := buildWith(t, "lib.so", "-Wl,--build-id=0x0badcafe")
	for _, upperFS := range []string{"same", "tmpfs"} {
		t.Run(upperFS, func(t *testing.T) {
			base := t.TempDir()
			var helper *helperProcess
			var name string
			inOwnMounts(t, func() error {
				if upperFS == "tmpfs" {
					if err := unix.Mount("tmpfs", base, "tmpfs", 0, ""); err != nil {
						return err
					}
				}
				for _, d := range []string{"upper", "work", "merged"} {
					if err := os.Mkdir(filepath.Join(base, d), 0o755); err != nil {
						return err
					}
				}
				opts := "lowerdir=" + filepath.Dir(lower) + ",upperdir=" + base + "/upper,workdir=" + base + "/work"
				if err := unix.Mount("overlay", base+"/merged", "overlay", 0, opts); err != nil {
					return err
				}
				name = base + "/merged/lib.so"
				helper = startHelper(t, "libraries", name)
				return nil
			})
			if helper == nil {
				return
			}
			bothSources(t, Options{Filter: Filter{Perms: Exec}, IDs: NewIDs(nil)}, func(t *testing.T, r *Reader) {
				var p Process
				if err := r.Process(helper.pid, &p); err != nil {
					t.Fatal(err)
				}
				for _, m := range p.Mappings {
					if m.Name == name {
						t.Logf("%s, build ID %s", m.AppendText(nil), m.BuildID.Hex())
						if got := m.BuildID.Hex(); got != "0badcafe" {
							t.Errorf("the build ID is %q", got)
						}
						if m.Dev.Major != 0 {
							t.Errorf("the device is %v, not that of the overlay", m.Dev)
						}
						return
					}
				}
				t.Errorf("no %s in\n%v", name, ourLines(&p))
			})
		})
	}
}

// TestOverlayCopy: who writes to a file of a lower layer writes to a copy, which all
// names lead to from then on. Who had mapped the file before still has that one, at the
// same device and inode number.
func TestOverlayCopy(t *testing.T) {
	needRoot(t)
	for _, c := range []struct {
		what          string
		lower, upper  string
		before, after string // the build IDs
	}{
		{"with build IDs", "-Wl,--build-id=0x00000001", "-Wl,--build-id=0x00000002", "", "00000002"},
		{"without", "-Wl,--build-id=none", "-Wl,--build-id=none", "", ""},
	} {
		t.Run(c.what, func(t *testing.T) {
			lower := buildWith(t, "lib.so", c.lower, "-O0")
			upper, err := os.ReadFile(buildWith(t, "lib.so", c.upper, "-O2"))
			if err != nil {
				t.Fatal(err)
			}
			base := t.TempDir()
			name := base + "/merged/lib.so"
			var helpers [2]*helperProcess
			inOwnMounts(t, func() error {
				for _, d := range []string{"upper", "work", "merged"} {
					if err := os.Mkdir(filepath.Join(base, d), 0o755); err != nil {
						return err
					}
				}
				opts := "lowerdir=" + filepath.Dir(lower) + ",upperdir=" + base + "/upper,workdir=" + base + "/work"
				if err := unix.Mount("overlay", base+"/merged", "overlay", 0, opts); err != nil {
					return err
				}
				helpers[0] = startHelper(t, "libraries", name)
				if err := os.WriteFile(name, upper, 0o755); err != nil {
					return err
				}
				helpers[1] = startHelper(t, "libraries", name)
				return nil
			})
			bothSources(t, Options{Filter: Filter{Perms: Exec}, IDs: NewIDs(&fakeGuard{yes: true})}, func(t *testing.T, r *Reader) {
				files := openfile.NewOpener(0)
				defer files.Close()
				for _, i := range []int{0, 1, 0} {
					var p Process
					if err := r.Process(helpers[i].pid, &p); err != nil {
						t.Fatal(err)
					}
					m := mappingOf(t, &p, name)
					if want := []string{c.before, c.after}[i]; m.BuildID.Hex() != want {
						t.Errorf("process %d has build ID %q, want %q", i, m.BuildID.Hex(), want)
					}
					f, err := r.OpenMapped(files, helpers[i].pid, &m)
					if (err == nil) != (i == 1) {
						t.Errorf("process %d: opening the file: %v", i, err)
					}
					if err == nil {
						f.Close()
					}
				}
			})
		})
	}
}

func mappingOf(t *testing.T, p *Process, name string) Mapping {
	t.Helper()
	for _, m := range p.Mappings {
		if m.Name == name {
			return m
		}
	}
	t.Fatalf("no %s in\n%v", name, ourLines(p))
	return Mapping{}
}

// TestBtrfs: two snapshots of btrfs show the same device and inode number, and
// in two mount namespaces even the same path, for two files.
func TestBtrfs(t *testing.T) {
	needRoot(t)
	mkfs, err := exec.LookPath("mkfs.btrfs")
	if err != nil {
		t.Skip("no mkfs.btrfs")
	}
	one, two := buildWith(t, "a.so", "-Wl,--build-id=0x00000001"), buildWith(t, "b.so", "-Wl,--build-id=0x00000002")
	base := t.TempDir()
	var helpers [2]*helperProcess
	name := base + "/mnt/lib.so"
	for i := range helpers {
		inOwnMounts(t, func() error {
			script := `set -e
				if [ ! -e "$0/image" ]; then
					mkdir "$0/fs" "$0/mnt"; truncate -s 128M "$0/image"; "$1" -q "$0/image"
					mount -o loop "$0/image" "$0/fs"
					btrfs -q subvolume create "$0/fs/0"; cp "$2" "$0/fs/0/lib.so"; sync
					btrfs -q subvolume snapshot "$0/fs/0" "$0/fs/1"; cat "$3" > "$0/fs/1/lib.so"; sync
				else
					mount -o loop "$0/image" "$0/fs"
				fi
				mount --bind "$0/fs/$4" "$0/mnt"`
			// sh has our mount namespace, as a child of this thread.
			if out, err := exec.Command("sh", "-c", script, base, mkfs, one, two, strconv.Itoa(i)).CombinedOutput(); err != nil {
				return fmt.Errorf("%w: %s", err, out)
			}
			helpers[i] = startHelper(t, "libraries", name)
			return nil
		})
		if helpers[i] == nil {
			return
		}
	}
	bothSources(t, Options{Filter: Filter{Perms: Exec}, IDs: NewIDs(nil)}, func(t *testing.T, r *Reader) {
		var found []Mapping
		if _, err := r.Walk([]int{helpers[0].pid, helpers[1].pid}, func(p *Process, err error) error {
			for _, m := range p.Mappings {
				if m.Name == name {
					found = append(found, m)
				}
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
		if len(found) != 2 || found[0].BuildID.Hex() != "00000001" || found[1].BuildID.Hex() != "00000002" {
			t.Fatalf("%+v", found)
		}
		t.Logf("device %v, inode %d; device %v, inode %d", found[0].Dev, found[0].Inode, found[1].Dev, found[1].Inode)
	})
}
