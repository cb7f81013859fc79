package sideband

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestSeenTooLate: a file that is gone when it is looked at loses its build ID if that is
// late, unless only root could write to it. What is there is not lost for being late.
func TestSeenTooLate(t *testing.T) {
	const unusedPID = 1 << 30
	there := filepath.Join(t.TempDir(), "library")
	f, err := newFile(mappedLibrary(t), there)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := os.Chmod(there, 0o644); err != nil {
		t.Fatal(err)
	}
	time.Sleep(3 * coarse)
	at, ok := statAt(unix.AT_FDCWD, there, 0)
	if !ok {
		t.Fatal("no file")
	}
	gone := filepath.Join(t.TempDir(), "gone")
	for _, c := range []struct {
		path    string
		is      pathFile
		ago     time.Duration
		changed bool
	}{
		{"", pathFile{}, time.Millisecond, false},
		{"", pathFile{}, time.Minute, true},
		{gone, pathFile{}, time.Millisecond, false},
		{gone, pathFile{}, time.Minute, true},
		{gone, pathFile{roots: true}, time.Minute, false},
	} {
		h := &heldFile{pid: unusedPID, made: time.Now().Add(-c.ago), path: c.path, is: c.is, fd: -1}
		h.open()
		if h.changed != c.changed {
			t.Errorf("%+v: changed: %v", c, h.changed)
		}
	}
	h := &heldFile{pid: unusedPID, made: at.changed.Add(2 * coarse), path: there, is: at, fd: -1}
	h.m.BuildID = buildID(t, there)
	time.Sleep(tooLate + coarse)
	h.open()
	defer h.leave()
	if h.changed {
		t.Error("a file that is there is lost")
	}
}

// TestSettleSuspects: a file loses its build ID if its mapping was there when it was looked
// at and found to be of another file, not if the mapping had gone by then, though that was
// not known yet.
func TestSettleSuspects(t *testing.T) {
	for _, gone := range []bool{false, true} {
		b := watchingBand(t)
		path := filepath.Join(t.TempDir(), "library")
		f, err := newFile(mappedLibrary(t), path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		pass(b, 3*coarse)
		addr, unmap := mapCode(t, path)
		drain(t, b)
		at := b.drained
		if !idOf(t, b, addr) {
			t.Fatal("the file has no build ID")
		}
		if gone {
			unmap()
		} else {
			t.Cleanup(unmap)
		}
		s := suspect{watchedFile: watchedFile{mappedFile: mappedFile{path, buildID(t, path)}}, in: os.Getpid(), start: addr, at: at, looked: b.Now()}
		b.files.stamps.suspects = append(b.files.stamps.suspects, s)
		if b.files.settleSuspects(b.drained) || len(b.files.stamps.lost) > 0 {
			t.Error("it was settled by what was known before it was looked at")
		}
		drain(t, b)
		p, ok := b.History.Lookup(os.Getpid(), addr, s.looked-1)
		if !gone && (!ok || !p.Mapping.File.BuildID.IsZero()) {
			t.Errorf("a strange file has its build ID: %+v, %v", p.Mapping, ok)
		}
		p, ok = b.History.Lookup(os.Getpid(), addr, at)
		if gone && (!ok || p.Mapping.File.BuildID.IsZero()) {
			t.Errorf("a file that was unmapped has lost its build ID: %+v, %v", p.Mapping, ok)
		}
	}
}
