package sideband

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"ustack/filemap/procmap"
	"ustack/tracefs"
	"ustack/tracefs/perf"
)

// TestInodes: the inode of a mapping is known if the record right before its own has it, of
// the same mapping, and none is missing.
func TestInodes(t *testing.T) {
	record := func(time tracefs.Time, inode uint64) *perf.Record {
		return &perf.Record{Time: time, CPU: 1, PID: 7, TID: 8, Addr: 0x1000, Len: page, Offset: page, Major: 8, Minor: 1, Inode: inode}
	}
	beside := record(100, 33)
	for name, c := range map[string]struct {
		change func(s *inodes, r *perf.Record)
		known  bool
	}{
		"alike":             {func(*inodes, *perf.Record) {}, true},
		"again":             {func(s *inodes, r *perf.Record) { s.of(record(105, 0)) }, false},
		"another place":     {func(_ *inodes, r *perf.Record) { r.Addr += page }, false},
		"another length":    {func(_ *inodes, r *perf.Record) { r.Len += page }, false},
		"another offset":    {func(_ *inodes, r *perf.Record) { r.Offset += page }, false},
		"another CPU":       {func(_ *inodes, r *perf.Record) { r.CPU++ }, false},
		"another process":   {func(_ *inodes, r *perf.Record) { r.PID++ }, false},
		"another thread":    {func(_ *inodes, r *perf.Record) { r.TID++ }, false},
		"before":            {func(_ *inodes, r *perf.Record) { r.Time = 99 }, false},
		"later":             {func(_ *inodes, r *perf.Record) { r.Time += pairWithin + 1 }, false},
		"loss":              {func(s *inodes, _ *perf.Record) { s.lost() }, false},
		"loss, next batch":  {func(s *inodes, _ *perf.Record) { s.lost(); s.begin() }, false},
		"loss before it":    {func(s *inodes, _ *perf.Record) { s.lost(); s.saw(beside) }, false},
		"loss a batch ago":  {func(s *inodes, _ *perf.Record) { s.lost(); s.begin(); s.saw(beside) }, true},
		"of more than kept": {func(s *inodes, _ *perf.Record) { manyInodes(s) }, false},
		"of its own":        {func(s *inodes, r *perf.Record) { s.lost(); r.Inode = 33 }, true},
	} {
		var s inodes
		s.begin()
		s.saw(beside)
		r := record(110, 0)
		c.change(&s, r)
		want := procmap.FileID{}
		if c.known {
			want = procmap.FileID{Dev: procmap.Dev{Major: 8, Minor: 1}, Inode: 33}
		}
		if got := s.of(r); got != want {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
}

// manyInodes has more threads map files than are kept.
func manyInodes(s *inodes) {
	for tid := range 2 * maxInodes {
		s.saw(&perf.Record{TID: 100 + tid, Inode: 1})
	}
	if len(s.by) > maxInodes {
		panic("too many inodes are kept")
	}
}

// TestInodeOfRecords: the kernel reports the inode of each file that is mapped as code.
func TestInodeOfRecords(t *testing.T) {
	b := watchingBand(t)
	library := mappedLibrary(t)
	keptCode(t, library)
	drain(t, b)
	want, _ := statIn(os.Getpid(), library)
	if !reportsInode(library) {
		skip(t, "the file system has other inodes for programs")
	}
	if !b.files.stamps.holds(want.id, mappedFile{library, buildID(t, library)}) {
		t.Errorf("%+v is not held", want)
	}
	if len(b.files.stamps.unheld) > 0 {
		t.Errorf("%v could not be looked at", b.files.stamps.unheld)
	}
}

// TestUnheldEnded: of a process that has ended before it was looked at, the file at the path
// shows the build ID if the inode is that of the mapping, and not if it is another one's.
func TestUnheldEnded(t *testing.T) {
	if os.Getuid() != 0 {
		skip(t, "root's files are only root's")
	}
	b := watchingBand(t)
	library, dir := mappedLibrary(t), t.TempDir()
	at, kept, gone := filepath.Join(dir, "at"), filepath.Join(dir, "kept"), filepath.Join(dir, "gone")
	path := filepath.Join(at, "library")
	for _, d := range []string{at, gone} {
		check(t, os.Mkdir(d, 0o755))
		f, err := newFile(library, filepath.Join(d, "library"))
		check(t, err)
		check(t, f.Close())
	}
	if !reportsInode(path) {
		skip(t, "the file system has other inodes for programs")
	}
	pass(b, 3*coarse)
	keptCode(t, path)
	drain(t, b)
	for _, other := range []bool{false, true} {
		if other {
			check(t, errors.Join(os.Rename(at, kept), os.Rename(gone, at)))
		}
		h := startHelper(t, "mapped", path)
		var pid int
		var addr uint64
		_, err := fmt.Sscan(h.said["mapped"][0], &pid, &addr)
		check(t, err)
		now := b.Now()
		h.stop()
		if other {
			check(t, errors.Join(os.Rename(at, gone), os.Rename(kept, at)))
		}
		drain(t, b)
		drain(t, b)
		p, ok := b.History.Lookup(pid, addr, now)
		if !ok || p.Mapping.File.Name != path || p.Mapping.File.BuildID.IsZero() != other {
			t.Errorf("another file %v: %+v, %v", other, p.Mapping, ok)
		}
	}
}
