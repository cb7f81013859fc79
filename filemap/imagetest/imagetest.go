// Package imagetest mounts images of file systems for tests.
package imagetest

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Seconds returns a directory on a file system of 8 MB that stores times in whole seconds. It
// skips the test where images cannot be mounted.
func Seconds(t *testing.T) (dir string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can mount images")
	}
	mkfs, err := exec.LookPath("mke2fs")
	if err != nil {
		t.Skip(err)
	}
	image, dir := filepath.Join(t.TempDir(), "image"), t.TempDir()
	if err := os.WriteFile(image, make([]byte, 8<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	if text, err := exec.Command(mkfs, "-q", "-t", "ext4", "-I", "128", "-O", "^has_journal", image).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	if text, err := exec.Command("mount", "-o", "loop", image, dir).CombinedOutput(); err != nil {
		t.Skipf("images cannot be mounted here, as in a container: %v: %s", err, text)
	}
	t.Cleanup(func() {
		if text, err := exec.Command("umount", "-l", dir).CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, text)
		}
	})
	return dir
}
