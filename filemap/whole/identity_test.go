package whole

import (
	"bytes"
	"errors"
	"testing"

	"ustack/filemap/elfid"
	"ustack/filemap/procmap"
	"ustack/filemap/space"
	"ustack/filemap/unwind"
)

// TestFilesOfProcesses: a build ID and a name are what any user can give a file of their
// own. So two processes share the tables of a file if it is the same open file, and a
// file that is opened again has to be the one that it was.
func TestFilesOfProcesses(t *testing.T) {
	id, _ := elfid.New([]byte("what both say"))
	f := &space.File{Name: "/lib/lib.so", BuildID: id, Kind: procmap.File} // as perf reports it
	mapping := func(start uint64) *space.Mapping {
		return &space.Mapping{Start: start, End: start + 0x1000, Since: 7, Perms: procmap.Exec, File: f}
	}
	identities := map[int]string{1: "forged", 2: "right", 3: "right"}
	opened, closed := 0, 0
	var debugged []string
	s := New(Options{
		Open: func(pid int, m *space.Mapping) (*unwind.Binary, error) {
			opened++
			return &unwind.Binary{ReaderAt: bytes.NewReader(nil), Identity: identities[pid], Close: func() { closed++ }}, nil
		},
		Debug: func(b *unwind.Binary, _ *space.File) (*unwind.Binary, error) {
			debugged = append(debugged, b.Identity)
			return nil, errNoDebug
		},
	})
	defer s.Close()
	one, two, three := s.file(1, mapping(0x1000)), s.file(2, mapping(0x2000)), s.file(3, mapping(0x3000))
	if one == two || two != three {
		t.Errorf("files %p, %p and %p", one, two, three)
	}
	if again := s.file(2, mapping(0x2000)); again != two || opened != 3 || closed != 1 {
		t.Errorf("opened %d times, closed %d times", opened, closed)
	}
	later := mapping(0x2000)
	later.Since = 8
	if s.file(2, later); opened != 4 {
		t.Error("what came to the same place later is not opened")
	}
	if b, err := two.Open(); err != nil || b.Identity != "right" {
		t.Errorf("at first: %+v, %v", b, err)
	}
	identities[2] = "forged"
	if _, err := two.Open(); !errors.Is(err, errOther) {
		t.Errorf("another file is taken for it: %v", err)
	}
	if _, err := two.Debug(); !errors.Is(err, errOther) || len(debugged) > 0 {
		t.Errorf("the debug file of another file is looked for: %v, %q", err, debugged)
	}
}

// TestRest: a file is opened again once it was closed because no stack led through it. It
// can be another one by then with the same device, inode and times: an image of a file
// system in the place of the last one.
func TestRest(t *testing.T) {
	m := &space.Mapping{Start: 0x1000, End: 0x2000, Perms: procmap.Exec, File: &space.File{Name: "/lib/lib.so", Kind: procmap.File}}
	opened := 0
	s := New(Options{Open: func(int, *space.Mapping) (*unwind.Binary, error) {
		opened++
		return &unwind.Binary{ReaderAt: bytes.NewReader(nil), Identity: "of both", Close: func() {}}, nil
	}})
	defer s.Close()
	first := s.file(1, m)
	if s.file(1, m) != first || opened != 1 {
		t.Fatalf("opened %d times", opened)
	}
	s.Rest()
	if s.file(1, m) == first || opened != 2 {
		t.Errorf("opened %d times, the file of before: %v", opened, s.file(1, m) == first)
	}
}
