//go:build !device

package sideband

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ustack/filemap/openfile"
	"ustack/filemap/procmap"
	"ustack/filemap/space"
	"ustack/tracefs"
	"ustack/tracefs/perf"
)

// TestProof: a file of another user is known to be the one at its path while it is what was mapped,
// and each mapping with that path and build ID was looked at and is of it.
func TestProof(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs to be root, to give a file to another user")
	}
	const other = 65534
	library := mappedLibrary(t)
	dir := t.TempDir()
	check(t, os.Chmod(dir, 0o777))
	path := filepath.Join(dir, "library")
	own := watchMounts(0)
	defer own.close()
	var st unix.Stat_t
	var system unix.Statfs_t
	check(t, errors.Join(unix.Stat(dir, &st), unix.Statfs(dir, &system)))
	if !own.stays(deviceOf(&st)) && system.Type != unix.TMPFS_MAGIC {
		t.Skip("temporary files are on a file system that can be exchanged")
	}
	put := func() {
		t.Helper()
		f, err := newFile(library, path+".new")
		check(t, err)
		check(t, errors.Join(f.Chmod(0o755), f.Chown(other, other), f.Close(), os.Rename(path+".new", path)))
	}
	files := openfile.NewOpener(0)
	defer files.Close()
	for _, c := range []struct {
		what   string
		proven bool
		run    func(b *Band)
	}{
		{"mapped", true, func(b *Band) {
			_, unmap := mapCode(t, path)
			drain(t, b)
			unmap()
		}},
		{"mapped twice", true, func(b *Band) {
			for range 2 {
				_, unmap := mapCode(t, path)
				drain(t, b)
				unmap()
			}
		}},
		{"not mapped", false, func(*Band) {}},
		{"mapped, and replaced", false, func(b *Band) {
			_, unmap := mapCode(t, path)
			drain(t, b)
			unmap()
			put()
		}},
		{"mapped and replaced, and again", false, func(b *Band) {
			for range 2 {
				put()
				pass(b, 3*coarse)
				_, unmap := mapCode(t, path)
				drain(t, b)
				unmap()
			}
		}},
		{"one was not looked at, and replaced", false, func(b *Band) {
			_, unmap := mapCode(t, path)
			unmap()
			put()
			pass(b, 3*coarse)
			_, unmap = mapCode(t, path)
			drain(t, b)
			unmap()
		}},
	} {
		t.Run(c.what, func(t *testing.T) {
			put()
			proof := openfile.BeginAt(time.Now())
			b := watchingWith(t, Options{Proof: proof})
			pass(b, 3*coarse)
			c.run(b)
			pass(b, 3*coarse)
			drain(t, b)
			f, err := files.Named(path)
			check(t, err)
			defer f.Close()
			err = files.CheckOwner(f, path, buildID(t, path).Hex(), proof)
			if (err == nil) != c.proven || err != nil && !errors.Is(err, openfile.ErrReplaceable) {
				t.Errorf("%v", err)
			}
		})
	}
}

// TestFilesProof: without a side band, too, a file that was there before names no other one that is
// mapped by its path.
func TestFilesProof(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs to be root, to give a file to another user")
	}
	const other = 65534
	library, dir := mappedLibrary(t), t.TempDir()
	check(t, os.Chmod(dir, 0o777))
	is, another := filepath.Join(dir, "is"), filepath.Join(dir, "another")
	for _, in := range []string{is, another} {
		path := filepath.Join(in, "library")
		check(t, os.Mkdir(in, 0o755))
		f, err := newFile(library, path)
		check(t, err)
		check(t, errors.Join(f.Chmod(0o755), f.Chown(other, other), f.Close(), os.Chown(in, other, other)))
	}
	path := filepath.Join(is, "library")
	reader, err := procmap.NewReader(procmap.Options{Filter: procmap.Filter{Perms: procmap.Exec}, IDs: procmap.NewIDs(nil)})
	check(t, err)
	now := func() tracefs.Time { return perf.Now(unix.CLOCK_MONOTONIC) }
	time.Sleep(3 * coarse)
	begin := openfile.BeginAt(time.Now())
	f := NewFiles(space.New(), reader, unix.CLOCK_MONOTONIC, noWatcher{}, new(Written), nil, begin)
	defer f.Close()
	mapped := func() {
		addr, unmap := mapCode(t, path)
		defer unmap()
		m := procmap.Mapping{Start: addr, End: addr + page, Kind: procmap.File, Perms: procmap.Read | procmap.Exec, Name: path, BuildID: buildID(t, path)}
		f.Watch(os.Getpid(), &m, now())
		f.Check(now())
	}
	mapped()
	files := openfile.NewOpener(0)
	defer files.Close()
	file, err := files.Named(path)
	check(t, err)
	defer file.Close()
	if err := files.CheckOwner(file, path, buildID(t, path).Hex(), begin); err != nil || file.Doubted() {
		t.Fatalf("%v, doubted %v", err, file.Doubted())
	}
	if mapped(); file.Doubted() {
		t.Error("doubted after it was mapped again")
	}
	check(t, errors.Join(os.Rename(is, is+".old"), os.Rename(another, is)))
	if mapped(); !file.Doubted() {
		t.Error("not doubted after another one was mapped")
	}
}
