package procmap

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ustack/filemap/bounded"
	"ustack/filemap/elfid"
	"ustack/tracefs/capturetest"
)

// readelfID is what readelf -n prints, "" if nothing.
func readelfID(t *testing.T, file string) string {
	t.Helper()
	out, err := exec.Command("readelf", "-n", file).Output()
	if _, missing := err.(*exec.Error); missing {
		t.Skip("no readelf")
	}
	if m := regexp.MustCompile(`Build ID: ([0-9a-f]+)`).FindSubmatch(out); m != nil {
		return string(m[1])
	}
	return ""
}

// TestBuildIDsOfMachine: the IDs of all that runs are those of readelf -n, by
// both sources.
func TestBuildIDsOfMachine(t *testing.T) {
	bothSources(t, Options{Filter: Filter{Perms: Exec}, IDs: NewIDs(nil)}, func(t *testing.T, r *Reader) {
		type file struct {
			pid int
			m   Mapping
		}
		files := map[FileID]file{}
		if _, err := r.Walk(nil, func(p *Process, err error) error {
			for _, m := range p.Mappings {
				if m.Kind == File && mayHaveID(&m) {
					files[FileID{m.Dev, m.Inode}] = file{p.PID, m}
				}
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		checked := 0
		for _, f := range files {
			path := filepath.Join("/proc", strconv.Itoa(f.pid), "map_files", hex(f.m.Start)+"-"+hex(f.m.End))
			if _, err := os.Stat(path); errors.Is(err, fs.ErrPermission) {
				path = f.m.Name // the link takes a capability
			}
			if !isInode(path, f.m.Inode) {
				continue // it has ended
			}
			want := readelfID(t, path)
			if !isInode(path, f.m.Inode) {
				continue
			}
			if got := f.m.BuildID.Hex(); got != want {
				t.Errorf("%s: %q, readelf says %q", f.m.Name, got, want)
			}
			checked++
		}
		t.Logf("%d files", checked)
		if checked == 0 {
			t.Error("nothing was checked")
		}
	})
}

// isInode reports whether a path leads to the file with this inode number. A
// link in map_files does on every file system.
func isInode(path string, inode uint64) bool {
	var st unix.Stat_t
	return unix.Stat(path, &st) == nil && (st.Ino == inode || strings.HasPrefix(path, "/proc/"))
}

func hex(v uint64) string { return string(appendHex(nil, v, 1)) }

// buildWith builds a C library with these flags of the linker.
func buildWith(t *testing.T, name string, flags ...string) string {
	t.Helper()
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		t.Skip("no gcc")
	}
	dir := t.TempDir()
	source, out := filepath.Join(dir, "x.c"), filepath.Join(dir, name)
	if err := os.WriteFile(source, []byte("int f(int x) { return x + 1; }\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	args := append([]string{"-shared", "-fPIC", "-o", out, source}, flags...)
	if msg, err := exec.Command(gcc, args...).CombinedOutput(); err != nil {
		t.Skipf("gcc: %v: %s", err, msg)
	}
	return out
}

// TestOddBuildIDs: any length from 1 to 20 bytes, none, Go's.
func TestOddBuildIDs(t *testing.T) {
	capturetest.SkipShort(t)
	goTool, err := exec.LookPath("go")
	if err == nil {
		goTool, err = filepath.EvalSymlinks(goTool)
	}
	if err != nil {
		t.Log("no go")
	}
	files := map[string]int{ // length of the ID, -1 for that of readelf
		buildWith(t, "sha1.so", "-Wl,--build-id=sha1"):                                               20,
		buildWith(t, "md5.so", "-Wl,--build-id=md5"):                                                 16,
		buildWith(t, "none.so", "-Wl,--build-id=none"):                                               0,
		buildWith(t, "four.so", "-Wl,--build-id=0xab000000"):                                         4,
		buildWith(t, "eight.so", "-Wl,--build-id=0x0011223344556677"):                                8,
		buildWith(t, "zeros.so", "-Wl,--build-id=0x0000000000000000000000000000000000000000"):        20,
		buildWith(t, "long.so", "-Wl,--build-id=0x000102030405060708090a0b0c0d0e0f1011121314151617"): 0,
		buildWith(t, "stripped.so", "-Wl,--build-id=sha1", "-s", "-Wl,-z,noseparate-code"):           20,
		goTool: -1,
	}
	for file, size := range files {
		if _, err := os.Stat(file); err != nil {
			continue
		}
		want := readelfID(t, file)
		if size >= 0 && size*2 != len(want) && size != 0 {
			t.Fatalf("%s: readelf says %q", file, want)
		}
		if size == 0 {
			want = "" // readelf shows build IDs that are too long
		}
		m := checkAt(t, mapFile(t, file, unix.PROT_READ|unix.PROT_EXEC), file, File)
		if m.BuildID.Hex() != want {
			t.Errorf("%s: %q, want %q", file, m.BuildID.Hex(), want)
		}
	}
}

// TestAskedOnce: a build ID is asked for once a file and round, however many
// processes and mappings have it.
func TestAskedOnce(t *testing.T) {
	libraries := systemLibraries(t, 10)
	first := startHelper(t, "libraries", slices.Repeat(libraries, 20)...)
	second := startHelper(t, "libraries", slices.Repeat(libraries, 20)...)
	bothSources(t, Options{IDs: NewIDs(nil)}, func(t *testing.T, r *Reader) {
		r.opt.IDs = NewIDs(nil)
		files := map[FileID]bool{}
		mappings := 0
		walk := func() {
			if _, err := r.Walk([]int{first.pid, second.pid}, func(p *Process, err error) error {
				for _, m := range p.Mappings {
					if mayHaveID(&m) {
						files[FileID{m.Dev, m.Inode}] = true
						mappings++
					}
				}
				return err
			}); err != nil {
				t.Fatal(err)
			}
		}
		walk()
		once := r.opt.IDs.Asked()
		if int(once) != len(files) {
			t.Errorf("asked %d times about %d files in %d mappings", once, len(files), mappings)
		}
		walk()
		if r.opt.IDs.Asked() != 2*once {
			t.Errorf("asked %d times in the first round, %d in two", once, r.opt.IDs.Asked())
		}
		t.Logf("asked %d times in two walks over %d mappings", r.opt.IDs.Asked(), mappings)
	})
}

// fakeGuard watches all, or nothing.
type fakeGuard struct {
	yes    bool
	during func()
	drain  func()
	drains int
}

func (g *fakeGuard) Watch(int, *Mapping) bool {
	if g.during != nil {
		g.during()
	}
	return g.yes
}
func (g *fakeGuard) Drain() {
	g.drains++
	if g.drain != nil {
		g.drain()
	}
}

// TestReplacedMeanwhile: a file is replaced before its mapping is seen, and the
// guard hears of it after that: what was remembered is not given out.
func TestReplacedMeanwhile(t *testing.T) {
	helper := startHelper(t, "libraries", systemLibraries(t, 3)...)
	bothSources(t, Options{}, func(t *testing.T, r *Reader) {
		g := &fakeGuard{yes: true}
		c := NewIDs(g)
		r.opt.IDs = c
		var m Mapping // one with a build ID
		var p Process
		if err := r.Process(helper.pid, &p); err != nil {
			t.Fatal(err)
		}
		for _, m = range p.Mappings {
			if !m.BuildID.IsZero() && distinguishes(r, &p, &m) {
				break
			}
		}
		bogus, _ := elfid.New([]byte("before"))
		spoil := func() {
			for file, a := range c.known {
				a.id = bogus
				c.known[file] = a
			}
		}
		check := func(what string, got Mapping, err error) {
			t.Helper()
			if err != nil || got.BuildID != m.BuildID {
				t.Errorf("%s: the build ID is %q, want %q (%v)", what, got.BuildID.Hex(), m.BuildID.Hex(), err)
			}
		}
		// The event comes after the beginning of the walk has drained.
		spoil()
		g.drains = 0
		g.drain = func() {
			if g.drains == 2 {
				c.Forget(FileID{m.Dev, m.Inode})
			}
		}
		if _, err := r.Walk([]int{helper.pid}, func(p *Process, err error) error {
			for _, got := range p.Mappings {
				if got.Start == m.Start {
					check("walk", got, err)
				}
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
		// A handle has been open for long.
		h, err := r.Open(helper.pid)
		if err != nil {
			t.Fatal(err)
		}
		defer h.Close()
		spoil()
		g.drains = 0
		got, _, err := h.At(m.Start)
		check("address", got, err)
		// The same without a guard.
		r.opt.IDs = NewIDs(nil)
		c = r.opt.IDs
		_, _, err = h.At(m.Start)
		if err != nil {
			t.Fatal(err)
		}
		spoil()
		got, _, err = h.At(m.Start)
		check("address without guard", got, err)
	})
}

func distinguishes(r *Reader, p *Process, m *Mapping) bool {
	h := Handle{r: r, pid: p.PID}
	return h.system(m).apart
}

// TestIDs goes through the life of an answer.
func TestIDs(t *testing.T) {
	id1, _ := elfid.New([]byte{1})
	id2, _ := elfid.New([]byte{2})
	file := func(id elfid.ID) *Mapping {
		return &Mapping{Dev: Dev{8, 1}, Inode: 5, Name: "/lib/x", BuildID: id}
	}
	exe, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer exe.Close()
	ask := func(c *IDs, m *Mapping) uint32 {
		q := c.ask(1, m, true)
		q.pin = pinOf("/proc", int(exe.Fd()))
		c.answer(q, m)
		return m.Generation
	}
	known := func(c *IDs, name string) (elfid.ID, uint32, bool) {
		m := Mapping{Dev: Dev{8, 1}, Inode: 5, Name: name}
		ok := c.lookup(&m)
		return m.BuildID, m.Generation, ok
	}
	t.Run("without guard", func(t *testing.T) {
		c := NewIDs(nil)
		c.drain()
		if g := ask(c, file(id1)); g != 0 {
			t.Errorf("the first generation is %d", g)
		}
		if id, g, ok := known(c, "/lib/x"); !ok || id != id1 || g != 0 {
			t.Errorf("known is %v %d %v", id, g, ok)
		}
		if _, _, ok := known(c, "/lib/y"); ok {
			t.Error("another name is taken for the same file")
		}
		c.nextRound()
		if _, _, ok := known(c, "/lib/x"); ok {
			t.Error("known beyond the round")
		}
		if g := ask(c, file(id1)); g != 0 {
			t.Errorf("the same ID again starts generation %d", g)
		}
		if g := ask(c, file(id2)); g != 1 {
			t.Errorf("another ID has generation %d", g)
		}
	})
	t.Run("with guard", func(t *testing.T) {
		g := &fakeGuard{yes: true}
		c := NewIDs(g)
		ask(c, file(id1))
		c.nextRound()
		if _, _, ok := known(c, "/lib/x"); !ok {
			t.Error("a guarded file is forgotten")
		}
		c.Forget(FileID{Dev{8, 1}, 5})
		if _, _, ok := known(c, "/lib/x"); ok {
			t.Error("a replaced file is still known")
		}
		if g := ask(c, file(id1)); g != 1 {
			t.Errorf("after it was replaced the generation is %d", g)
		}
		c.drain()
		if g.drains != 1 {
			t.Error("the guard was not asked")
		}
	})
	t.Run("replaced while asked", func(t *testing.T) {
		g := &fakeGuard{yes: true}
		c := NewIDs(g)
		g.during = func() { c.Forget(FileID{Dev{8, 1}, 5}) }
		ask(c, file(id1))
		if _, _, ok := known(c, "/lib/x"); !ok {
			t.Error("not known in its round")
		}
		c.nextRound()
		if _, _, ok := known(c, "/lib/x"); ok {
			t.Error("taken for guarded although it was replaced meanwhile")
		}
	})
	t.Run("guard that does not come back", func(t *testing.T) {
		g := &fakeGuard{yes: true}
		c := NewIDs(g)
		ask(c, file(id1))
		c.nextRound()
		c.guarding = bounded.New(time.Millisecond)
		release := make(chan struct{})
		defer close(release)
		g.during = func() { <-release }
		if g := ask(c, &Mapping{Dev: Dev{8, 1}, Inode: 6, Name: "/lib/y"}); g != 0 || !c.Alone() {
			t.Errorf("generation %d, given up: %v", g, c.Alone())
		}
		if _, _, ok := known(c, "/lib/x"); ok {
			t.Error("what the guard has watched is still known")
		}
		c.drain()
		if g.drains > 0 {
			t.Error("the guard is called again")
		}
	})
	t.Run("full", func(t *testing.T) {
		c := NewIDs(nil)
		ask(c, file(id1))
		ask(c, file(id2)) // generation 1
		for i := range maxFiles + 5 {
			ask(c, &Mapping{Inode: uint64(i + 10), Name: "/x"})
		}
		if len(c.known) > maxFiles {
			t.Errorf("%d files are remembered", len(c.known))
		}
		if g := ask(c, file(id1)); g <= 1 {
			t.Errorf("a generation comes again: %d", g)
		}
	})
}
