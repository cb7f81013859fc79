package sideband

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"ustack/filemap/bounded"
	"ustack/filemap/procmap"
)

// elsewhere changes how a file is mapped, at once, so that the record does not say any more
// where that is. It returns a process that has it mapped, and where.
type elsewhere func(t *testing.T, at unsafe.Pointer, path string) (pid int, now uintptr)

const elsewhereSize = 2 * page

func cut(t *testing.T, at unsafe.Pointer, path string) (int, uintptr) {
	check(t, errors.Join(os.Remove(path), asErrorOf(unix.SYS_MPROTECT, uintptr(at), page, unix.PROT_READ)))
	return os.Getpid(), uintptr(at) + page
}

func remapped(t *testing.T, at unsafe.Pointer, path string) (int, uintptr) {
	check(t, os.Remove(path))
	return os.Getpid(), uintptr(movedAway(t, at))
}

// movedAway moves a mapping to another place.
func movedAway(t *testing.T, at unsafe.Pointer) unsafe.Pointer {
	to := reserve(t, elsewhereSize)
	got, err := unix.MremapPtr(at, elsewhereSize, to, elsewhereSize, unix.MREMAP_MAYMOVE|unix.MREMAP_FIXED)
	check(t, err)
	return got
}

// aside has another file with the same build ID come to the path.
func aside(t *testing.T, at unsafe.Pointer, path string) (int, uintptr) {
	now := movedAway(t, at)
	check(t, errors.Join(os.Rename(path, path+".gone"), os.Rename(path+".other", path)))
	return os.Getpid(), uintptr(now)
}

func inherited(t *testing.T, at unsafe.Pointer, path string) (int, uintptr) {
	pid, _ := forked(t)
	check(t, errors.Join(os.Remove(path), unix.MunmapPtr(at, elsewhereSize)))
	return pid, uintptr(at)
}

func asErrorOf(call, a, b, c uintptr) error {
	_, _, err := unix.Syscall(call, a, b, c)
	return asError(err)
}

// TestUnheld: a file that is written has no build ID from then on, also if its mapping was cut
// or moved, or is a child's by now, before it could be looked at, and it is not at its path.
// Until then it has one.
func TestUnheld(t *testing.T) {
	b := watchingBand(t)
	for name, change := range map[string]elsewhere{"cut": cut, "moved": remapped, "another at its path": aside, "a child's": inherited} {
		t.Run(name, func(t *testing.T) {
			library, path := mappedLibrary(t), filepath.Join(t.TempDir(), "library")
			other, err := newFile(library, path+".other")
			check(t, err)
			defer other.Close()
			f, err := newFile(library, path)
			check(t, err)
			defer f.Close()
			pass(b, 3*coarse)
			at, err := unix.MmapPtr(int(f.Fd()), 0, nil, elsewhereSize, rx, unix.MAP_PRIVATE)
			check(t, err)
			t.Cleanup(func() { _ = unix.MunmapPtr(at, elsewhereSize) })
			pid, now := change(t, at, path)
			for range 3 {
				drain(t, b)
			}
			hasID := func() bool {
				p, ok := b.History.Lookup(pid, uint64(now), b.Now())
				if !ok || p.Mapping.File.Name != path {
					t.Fatalf("%#x of process %d is %+v", now, pid, p.Mapping)
				}
				return !p.Mapping.File.BuildID.IsZero()
			}
			if !hasID() && name != "another at its path" { // as its inode shows at once
				t.Error("it has no build ID before it is written")
			}
			_, err = f.WriteAt(make([]byte, page-64), 64)
			check(t, err)
			for range 2 {
				drain(t, b)
			}
			if hasID() {
				t.Error("it has the build ID that it had before")
			}
		})
	}
}

// TestUnheldAtRoots: another file can come to the path of one that is known there, of root's or
// of a server, with its build ID, and make room for it again.
func TestUnheldAtRoots(t *testing.T) {
	if os.Getuid() != 0 {
		skip(t, "root's files are only root's")
	}
	for _, remote := range []bool{false, true} {
		unheldAtKnown(t, watchingBand(t), remote)
	}
}

func unheldAtKnown(t *testing.T, b *Band, remote bool) {
	library, dir := mappedLibrary(t), t.TempDir()
	at, kept, gone := filepath.Join(dir, "at"), filepath.Join(dir, "kept"), filepath.Join(dir, "gone")
	const name = "lib/library" // renaming what is above its directory goes unseen
	var f *os.File
	for _, d := range []string{at, gone} {
		check(t, os.MkdirAll(filepath.Join(d, "lib"), 0o755))
		var err error
		f, err = newFile(library, filepath.Join(d, name))
		check(t, err)
		defer f.Close()
	}
	pass(b, 3*coarse)
	keptCode(t, filepath.Join(at, name))
	drain(t, b)
	if s := &b.files.stamps; remote {
		s.refused = make(map[watchedAs]bool)
		for as := range s.by {
			s.refused[as] = true
			s.drop(as)
		}
	}
	check(t, errors.Join(os.Rename(at, kept), os.Rename(gone, at)))
	addr := keptCode(t, filepath.Join(at, name))
	check(t, errors.Join(os.Rename(at, gone), os.Rename(kept, at)))
	drain(t, b)
	pass(b, 3*coarse)
	_, err := f.WriteAt(make([]byte, page-64), 64)
	check(t, err)
	for range 2 {
		drain(t, b)
	}
	if idOf(t, b, addr) {
		t.Errorf("remote %v: the file that was written has a build ID", remote)
	}
}

// TestUnheldFull: of more files that cannot be held than are kept, the build ID is lost. What
// all processes have unmapped is looked for no more.
func TestUnheldFull(t *testing.T) {
	b := fakeBand()
	for i := range maxUnheld + 2 {
		b.files.notHeld(1, &watchedFile{mappedFile: mappedFile{name: filepath.Join("/", string(rune('a'+i)))}})
	}
	for pid := range maxUnheldIn + 2 {
		b.files.notHeld(pid, &watchedFile{mappedFile: mappedFile{name: "/a"}})
	}
	if n := len(b.files.stamps.lost); n != 2+1+1 {
		t.Errorf("%d build IDs are lost", n)
	}
	if b.files.findUnheld(b.Now()); len(b.files.stamps.unheld) > 0 {
		t.Error("files that are not mapped are looked for again")
	}
}

// mapsLibrary maps the code of a new copy of a library, which was written long before.
func mapsLibrary(t *testing.T, b *Band) (f *os.File, path string, at unsafe.Pointer) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "library")
	f, err := newFile(mappedLibrary(t), path)
	check(t, err)
	t.Cleanup(func() { _ = f.Close() })
	pass(b, 3*coarse)
	at, err = unix.MmapPtr(int(f.Fd()), 0, nil, elsewhereSize, rx, unix.MAP_PRIVATE)
	check(t, err)
	t.Cleanup(func() { _ = unix.MunmapPtr(at, elsewhereSize) })
	return f, path, at
}

// TestUnheldMoved: a file that was released while mremap was under way, when it was mapped
// nowhere, is watched again.
func TestUnheldMoved(t *testing.T) {
	b := watchingBand(t)
	f, path, at := mapsLibrary(t, b)
	drain(t, b)
	check(t, os.Remove(path))
	b.files.stamps.close()
	now := uint64(uintptr(movedAway(t, at)))
	drain(t, b)
	if !idOf(t, b, now) {
		t.Error("it has no build ID before it is written")
	}
	check(t, writeShared(f, path))
	for range 2 {
		drain(t, b)
	}
	if idOf(t, b, now) {
		t.Error("it has the build ID that it had before")
	}
}

// TestNoAnswer: while so many calls get no answer that no other is made, files that are mapped
// have no build ID: they can be written unseen.
func TestNoAnswer(t *testing.T) {
	b := watchingBand(t)
	addrs := make(map[bool]uint64)
	for _, refused := range []bool{false, true} {
		path := filepath.Join(t.TempDir(), "library")
		f, err := newFile(mappedLibrary(t), path)
		check(t, err)
		defer f.Close()
		pass(b, 3*coarse)
		if refused {
			refuseAll(t, b)
		}
		addrs[refused] = keptCode(t, path)
		drain(t, b)
		drain(t, b)
	}
	for refused, addr := range addrs {
		if idOf(t, b, addr) == refused {
			t.Errorf("refused %v, has a build ID %v", refused, refused)
		}
	}
}

// refuseAll has calls stay out so that no other is made.
func refuseAll(t *testing.T, b *Band) {
	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	b.completer.calls = bounded.New(time.Millisecond)
	for b.completer.calls.Do(func() { <-release }) != bounded.ErrRefused {
	}
}

// noWatcher watches nothing.
type noWatcher struct{}

func (noWatcher) Watch(int, *procmap.Mapping) bool { return false }
func (noWatcher) Drain()                           {}

// TestUnheldMissing: if the mapping of a file cannot be looked at, and the record with its inode
// is missing, its process has no build ID there, though a file of root's with that ID is at the
// path: the process could have another one there. All others keep theirs.
func TestUnheldMissing(t *testing.T) {
	const unusedPID, another, addr = 1 << 30, 1<<30 + 1, 0x10000
	library := mappedLibrary(t)
	for _, missing := range []bool{false, true} {
		b := fakeBand()
		b.files.watcher, b.files.reported = noWatcher{}, new(Written)
		m := procmap.Mapping{Start: addr, End: addr + page, Perms: procmap.Read | procmap.Exec, Name: library, BuildID: buildID(t, library)}
		at := b.Now()
		for _, pid := range []int{unusedPID, another} {
			b.History.mapped(pid, &m, at)
		}
		b.files.watch(another, &m, recordedFile{}, at)
		b.files.watch(unusedPID, &m, recordedFile{missing: missing}, at)
		b.files.checkWritten(b.Now())
		for pid, want := range map[int]bool{unusedPID: !missing, another: true} {
			p, ok := b.History.Spaces.Lookup(pid, addr, at+1)
			if !ok || p.Mapping.File.BuildID.IsZero() == want {
				t.Errorf("missing %v, process %d: %+v, %v", missing, pid, p.Mapping, ok)
			}
		}
		b.files.stamps.close()
	}
}

// TestUnheldSharer: a process that shares its memory has what another one has mapped that ended.
func TestUnheldSharer(t *testing.T) {
	const mapper, stays = 1 << 30, 1<<30 + 1
	b := fakeBand()
	b.History.fork(stays, mapper, b.Now())
	b.History.shared(stays, mapper, b.Now())
	file := watchedFile{mappedFile: mappedFile{name: "/a"}}
	b.files.notHeld(mapper, &file)
	b.History.left(mapper, b.Now())
	u := b.files.stamps.unheld[file.mappedFile]
	if !b.files.isHeir(stays, u, b.Now()) {
		t.Error("the file is not looked for in the process that has it")
	}
}

// TestUnheldAtOnce: a file that was written before it could be looked for has no build ID as soon
// as the records of that time are read.
func TestUnheldAtOnce(t *testing.T) {
	b := watchingBand(t)
	for name, change := range map[string]elsewhere{"cut": cut, "moved": remapped, "a child's": inherited} {
		f, path, at := mapsLibrary(t, b)
		pid, now := change(t, at, path)
		_, err := f.WriteAt(make([]byte, page-64), 64)
		check(t, err)
		written := b.Now()
		drain(t, b)
		p, ok := b.History.Lookup(pid, uint64(now), written)
		if !ok || p.Mapping.File.Name != path || !p.Mapping.File.BuildID.IsZero() {
			t.Errorf("%s: it is in %+v, %v", name, p.Mapping, ok)
		}
	}
}
