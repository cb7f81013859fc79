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
