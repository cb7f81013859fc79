// Package privilegetest gives programs of tests capabilities.
package privilegetest

import (
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"ustack/tracefs/privilege"
)

// Other is a user without rights.
const Other = 65534

// Group may run the programs. No user is in it.
const Group = 64999

// Program copies the program that runs the test to a file called name, in a
// directory that all can enter. Only root, and members of Group, may run it. It
// skips the test if it is not run by root.
func Program(t testing.TB, name string) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root, to give a program capabilities")
	}
	dir := t.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil { // TempDir made it for us alone
		t.Fatal(err)
	}
	Reachable(t, dir)
	path := filepath.Join(dir, name)
	if err := copyFile("/proc/self/exe", path); err != nil {
		t.Fatal(err)
	}
	Protect(t, path)
	return path
}

// Reachable skips the test if users without rights cannot enter a directory, which they cannot
// where temporary files are private, as those of a package's build are.
func Reachable(t testing.TB, dir string) {
	t.Helper()
	for {
		info, err := os.Stat(dir)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode()&0o001 == 0 {
			t.Skipf("another user cannot enter %s: set TMPDIR", dir)
		}
		up := filepath.Dir(dir)
		if up == dir {
			return
		}
		dir = up
	}
}

// Protect leaves a program to root and to Group.
func Protect(t testing.TB, path string) {
	t.Helper()
	if err := errors.Join(os.Chown(path, 0, Group), os.Chmod(path, 0o750)); err != nil {
		t.Fatal(err)
	}
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o700)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// Give gives a program capabilities, permitted and, if asked for, in effect from
// the start (man 7 capabilities; struct vfs_cap_data in
// include/uapi/linux/capability.h). It skips the test where that cannot be.
func Give(t testing.TB, path string, caps privilege.Set, effective bool) {
	t.Helper()
	const revision, inEffect = 0x02000000, 1
	magic := uint32(revision)
	if effective {
		magic |= inEffect
	}
	var data []byte
	for _, v := range []uint32{magic, uint32(caps), 0, uint32(caps >> 32), 0} {
		data = binary.LittleEndian.AppendUint32(data, v)
	}
	if err := unix.Setxattr(path, "security.capability", data, 0); err != nil {
		t.Skipf("the file system keeps no capabilities: %v", err)
	}
}

// Attributes have a command run as Other, in Group.
func Attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: Other, Gid: Other, Groups: []uint32{Group}}}
}
