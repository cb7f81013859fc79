package anoncode

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"ustack/filemap"
	"ustack/filemap/resolve"
	"ustack/tracefs"
)

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestDirectory: maps of a directory are regular files in it, of a size that a map
// can have.
func TestDirectory(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	name := func(n string) string { return filepath.Join(dir, n) }
	const text = "1000 100 f\n"
	write(t, name("perf-10.map"), text)
	write(t, filepath.Join(other, "map"), text)
	if err := os.Symlink(filepath.Join(other, "map"), name("perf-11.map")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("perf-10.map", name("perf-12.map")); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(name("perf-13.map"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(name("perf-14.map"), 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, name("perf-15.map"), text)
	if err := os.Truncate(name("perf-15.map"), maxMapSize+1); err != nil {
		t.Fatal(err)
	}
	f, err := OpenDirectory(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for pid := 9; pid <= 16; pid++ {
		for range 2 {
			if m := f.find(Program{PID: pid}, 0); (m != nil) != (pid == 10) {
				t.Errorf("process %d: %v", pid, m != nil)
			}
		}
	}
	if _, err := OpenDirectory(name("perf-10.map")); err == nil {
		t.Error("a file is a directory")
	}
	if _, err := OpenDirectory(name("none")); err == nil || !strings.Contains(err.Error(), "none") {
		t.Errorf("a directory that is not there: %v", err)
	}
}

// TestShelf: the maps that were used last are kept.
func TestShelf(t *testing.T) {
	f := &Directory{shelf: newShelf()}
	dir := t.TempDir()
	var err error
	if f.root, err = os.OpenRoot(dir); err != nil {
		t.Fatal(err)
	}
	for pid := range 3 * maxSlots {
		f.find(Program{PID: 1}, 0)
		f.find(Program{PID: pid}, 0)
	}
	if _, ok := f.slots[1]; !ok || len(f.slots) != maxSlots {
		t.Errorf("%d maps are kept", len(f.slots))
	}
}

// TestAttribute: only frames in memory that can be code get names, and return
// addresses are looked up where the call is.
func TestAttribute(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "perf-7.map"), "1000 100 first\n2000 100 second\n")
	f, err := OpenDirectory(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	asked := 0
	e := New(Options{Directory: f, Program: func(s *resolve.Query) (Program, bool) {
		asked++
		return Program{PID: int(s.TID)}, s.TID != 9
	}})
	heap, code, named := &filemap.Memory{Name: "[heap]"}, &filemap.Memory{Name: "[anon]", Exec: true}, &filemap.Memory{Name: "[anon:js]", Exec: true}
	at := func(addr uint64) tracefs.Frame {
		return tracefs.Frame{Form: tracefs.FormPlain, Addr: addr, HasAddr: true}
	}
	anonymous := func(m *filemap.Memory) resolve.Attribution {
		return resolve.Attribution{Reason: filemap.Anonymous, Memory: m}
	}
	s := func(tid int32) *resolve.Query {
		return &resolve.Query{TID: tid,
			Frames: []tracefs.Frame{at(0x1000), at(0x1000), at(0x1010), at(0x2100), at(0x1010), at(0x1010), at(0x1010), at(0x3000)},
			Attributions: []resolve.Attribution{anonymous(code), anonymous(code), anonymous(named), anonymous(nil), anonymous(heap),
				resolve.Unnamed(filemap.NoVMA), resolve.Named(&filemap.File{}, filemap.Verified), anonymous(code)},
		}
	}
	one := s(7)
	e.Attribute(one)
	for i, want := range []string{"first", "", "first", "second", "", "", "", ""} {
		m, got := one.Attributions[i].Memory, ""
		if m != nil && m.Code != nil {
			got = m.Code.Function
		}
		if got != want {
			t.Errorf("frame %d: %q, want %q", i, got, want)
		}
	}
	if m := one.Attributions[2].Memory; m.Name != "[anon:js]" || !m.Exec {
		t.Errorf("%+v", m)
	}
	if m := one.Attributions[3].Memory; m.Name != "[anon]" {
		t.Errorf("%+v", m)
	}
	again := s(7)
	e.Attribute(again)
	if again.Attributions[0].Memory != one.Attributions[0].Memory {
		t.Error("one function is two")
	}
	again = s(7)
	again.Continued = true // its first frame is a return address
	if e.Attribute(again); again.Attributions[0].Memory.Code != nil {
		t.Errorf("%+v", again.Attributions[0].Memory.Code)
	}
	for _, tid := range []int32{8, 9} {
		other := s(tid)
		e.Attribute(other)
		for i := range other.Attributions {
			if m := other.Attributions[i].Memory; m != nil && m.Code != nil {
				t.Errorf("thread %d, frame %d: %+v", tid, i, m.Code)
			}
		}
	}
	if asked != 5 {
		t.Errorf("asked %d times for a process", asked)
	}
}
