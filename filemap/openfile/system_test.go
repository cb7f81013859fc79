package openfile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestSystemOfMounts: what is mounted here has the type that the kernel has for it.
func TestSystemOfMounts(t *testing.T) {
	magic := map[string]int64{"ext4": unix.EXT4_SUPER_MAGIC, "xfs": unix.XFS_SUPER_MAGIC, "btrfs": unix.BTRFS_SUPER_MAGIC,
		"f2fs": unix.F2FS_SUPER_MAGIC, "tmpfs": unix.TMPFS_MAGIC, "squashfs": unix.SQUASHFS_MAGIC, "erofs": unix.EROFS_SUPER_MAGIC_V1,
		"overlay": unix.OVERLAYFS_SUPER_MAGIC, "9p": unix.V9FS_MAGIC, "virtiofs": unix.FUSE_SUPER_MAGIC}
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Skip(err)
	}
	last := make(map[string]string) // what is mounted at a place last
	for line := range strings.Lines(string(text)) {
		head, tail, _ := strings.Cut(line, " - ")
		kind, _, _ := strings.Cut(tail, " ")
		if fields := strings.Fields(head); len(fields) > 4 {
			last[fields[4]] = kind
		}
	}
	for at, kind := range last {
		want, known := magic[kind]
		var st unix.Stat_t
		fd, err := unix.Open(at, unix.O_PATH|unix.O_CLOEXEC, 0)
		if !known || err != nil {
			continue
		}
		if got := System(fd); got != want && unix.Fstat(fd, &st) == nil {
			t.Errorf("%s, %s: %#x, not %#x, device %d", at, kind, got, want, st.Dev)
		}
		if remote := kind == "9p" || kind == "virtiofs"; Local(fd) == remote || Numbered(fd) == remote {
			t.Errorf("%s, %s: local %v, numbered %v", at, kind, Local(fd), Numbered(fd))
		}
		_ = unix.Close(fd) // of a path
	}
}

// TestSystemPassedOn: a file system of no device that passes on the type of one of a disk is not taken for
// that, nor is one without handles for one that has them.
func TestSystemPassedOn(t *testing.T) {
	proc, err := os.Open("/proc/self/status") // has no device, and no handles
	if err != nil {
		t.Skip(err)
	}
	defer proc.Close()
	kinds := []int64{unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.F2FS_SUPER_MAGIC, unix.SQUASHFS_MAGIC}
	if _, _, err := unix.NameToHandleAt(int(proc.Fd()), "", unix.AT_EMPTY_PATH); err == unix.EOPNOTSUPP {
		kinds = append(kinds, unix.BTRFS_SUPER_MAGIC, unix.TMPFS_MAGIC, unix.EROFS_SUPER_MAGIC_V1)
	} else {
		t.Logf("handles of files of /proc: %v", err) // ENOSYS: no kernel has to have them
	}
	for _, kind := range kinds {
		if !passedOn(int(proc.Fd()), kind) {
			t.Errorf("/proc is a file system of type %#x", kind)
		}
	}
	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var system unix.Statfs_t
	if err := unix.Fstatfs(int(f.Fd()), &system); err != nil {
		t.Fatal(err)
	}
	if kind := int64(system.Type); passedOn(int(f.Fd()), kind) && kind != unix.V9FS_MAGIC {
		t.Skipf("%s is on a file system that passes on its type", name)
	} else if got := System(int(f.Fd())); got != kind {
		t.Errorf("%#x, not %#x", got, kind)
	}
}

// TestTrueOwners: the owners of files are believed but where any user can mount what gives others.
func TestTrueOwners(t *testing.T) {
	for kind, want := range map[int64]bool{unix.EXT4_SUPER_MAGIC: true, unix.TMPFS_MAGIC: true, unix.OVERLAYFS_SUPER_MAGIC: true,
		unix.NFS_SUPER_MAGIC: true, unix.V9FS_MAGIC: true, unix.FUSE_SUPER_MAGIC: false, 0: false} {
		if got := trueOwners(kind); got != want {
			t.Errorf("%#x: %t", kind, got)
		}
	}
}
