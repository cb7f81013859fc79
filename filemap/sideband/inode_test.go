package sideband

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"ustack/filemap/procmap"
)

// TestInodeOfAnother: a mapping has not the build ID of a file that was made after it, and
// has the number of its inode, and is mapped in its place by now.
func TestInodeOfAnother(t *testing.T) {
	before := time.Now()
	library, path := mappedLibrary(t), filepath.Join(t.TempDir(), "library")
	f, err := newFile(library, path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	addr := keptCode(t, path)
	r, err := procmap.NewReader(procmap.Options{Filter: procmap.Filter{Perms: procmap.Exec}, IDs: procmap.NewIDs(nil), Stat: true})
	if err != nil {
		t.Fatal(err)
	}
	h, err := r.Open(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	m, ok, err := h.At(addr)
	h.Close()
	if err != nil || !ok || m.BuildID != buildID(t, library) {
		t.Fatalf("%+v, %v, %v", m, ok, err)
	}
	if _, err := os.Stat("/proc/self/map_files"); err != nil || os.Geteuid() != 0 {
		t.Skip("the files that are mapped cannot be looked at: not root")
	}
	for _, test := range []struct {
		mapped time.Time
		same   bool
	}{{before, false}, {time.Now().Add(time.Second), true}} {
		c := &completer{reader: r}
		of := m
		of.BuildID, of.Generation = (procmap.Mapping{}).BuildID, 0
		c.ask(os.Getpid(), &of, test.mapped)
		if of.BuildID.IsZero() == test.same {
			t.Errorf("the same file: %v, and the build ID is %v", test.same, of.BuildID)
		}
	}
}
