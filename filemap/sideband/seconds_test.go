package sideband

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestWholeSeconds: on a file system that stores whole seconds, a file that was overwritten in the
// second in which it was mapped is not taken for another one that had been there before.
func TestWholeSeconds(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can mount images")
	}
	library := mappedLibrary(t)
	info, err := os.Stat(library)
	check(t, err)
	image, dir := filepath.Join(t.TempDir(), "image"), t.TempDir()
	check(t, os.WriteFile(image, nil, 0o644))
	check(t, os.Truncate(image, 2*info.Size()+8<<20))
	tool(t, "mke2fs", "-q", "-t", "ext4", "-I", "128", "-O", "^has_journal", image)
	if text, err := exec.Command("mount", "-o", "loop", image, dir).CombinedOutput(); err != nil {
		t.Skipf("images cannot be mounted here, as in a container: %v: %s", err, text)
	}
	t.Cleanup(func() { tool(t, "umount", "-l", dir) })
	path := filepath.Join(dir, "library")
	for range 20 {
		time.Sleep(time.Until(time.Now().Truncate(time.Second).Add(time.Second)))
		f, err := newFile(library, path)
		check(t, err)
		check(t, f.Chown(65534, 65534))
		time.Sleep(3 * coarse)
		const unusedPID = 1 << 30
		h := &heldFile{pid: unusedPID, made: time.Now(), path: path, other: true, fd: -1}
		h.m.BuildID = buildID(t, library)
		check(t, f.Truncate(0))
		check(t, f.Close())
		var ok bool
		if h.is, ok = statAt(unix.AT_FDCWD, path, 0); !ok {
			t.Fatal("no file")
		}
		if same := h.is.changed.Unix() == h.made.Unix(); !same {
			check(t, os.Remove(path)) // a busy machine
			continue
		}
		h.open()
		h.leave()
		if !h.changed {
			t.Error("the file counts as it was when it was mapped")
		}
		return
	}
	skip(t, "no write in the second of the mapping")
}
