//go:build !device

package openfile

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestOthers: a file that its group may write is its owner's alone only if no other user is known
// to be in the group, and the group is a local one or the owner's by its number.
func TestOthers(t *testing.T) {
	dir := t.TempDir()
	w := writers{filepath.Join(dir, "group"), filepath.Join(dir, "passwd")}
	check(t, os.WriteFile(w.group, []byte("root:x:0:carol\nstaff:x:50:\nalice:x:1000:\nbob:x:1001:bob\ndave:x:1004:alice\ndev:x:2000:alice,bob\nsome:x:100:\nx\n::\n"), 0o600))
	check(t, os.WriteFile(w.passwd, []byte("root:x:0:0::/root:/bin/sh\nalice:x:1000:1000::/:\nbob:x:1001:1001::/:\ncarol:x:1002:100::/:\ndave:x:1004:1004::/:\noperator:x:0:50::/:\nx\n"), 0o600))
	for _, c := range []struct {
		what     string
		mode     uint32
		uid, gid uint32
		others   bool
	}{
		{"owner only", 0o755, 0, 2000, false},
		{"all", 0o757, 0, 0, true},
		{"root's group", 0o775, 1000, 0, false},
		{"private", 0o775, 1000, 1000, false},
		{"private, with its user in it", 0o775, 1001, 1001, false},
		{"private of another user", 0o775, 0, 1000, true},
		{"private no more", 0o775, 1004, 1004, true},
		{"of developers", 0o775, 1000, 2000, true},
		{"of root alone", 0o2775, 0, 50, false},
		{"of a user by passwd", 0o775, 0, 100, true},
		{"unknown", 0o775, 0, 3000, true},
		{"unknown, of the user's number", 0o775, 3000, 3000, false},
	} {
		if others := w.others(dir, &syscall.Stat_t{Mode: c.mode, Uid: c.uid, Gid: c.gid}); others != c.others {
			t.Errorf("%s: %v", c.what, others)
		}
	}
	for _, w := range []writers{{w.group, dir + "/none"}, {dir + "/none", w.passwd}, {dir, dir}} {
		if !w.others(dir, &syscall.Stat_t{Mode: 0o775, Gid: 50}) {
			t.Errorf("%v: unknown members are none", w)
		}
	}
}

// TestOthersByList: an access control list may let others write, and does if its mask does, which
// is the group's part of the mode.
func TestOthersByList(t *testing.T) {
	name := filepath.Join(t.TempDir(), "program")
	check(t, os.WriteFile(name, nil, 0o755))
	const writing = 2
	list := []uint16{1, 7, 2, 7, 4, 5, 0x10, 7, 0x20, 5} // include/uapi/linux/posix_acl.h: owner, a user, group, mask, others
	b := binary.LittleEndian.AppendUint32(nil, 2)
	for i := 0; i < len(list); i += 2 {
		b = binary.LittleEndian.AppendUint16(b, list[i])
		b = binary.LittleEndian.AppendUint16(b, list[i+1])
		id := uint32(0xffffffff)
		if list[i] == 2 {
			id = 65534
		}
		b = binary.LittleEndian.AppendUint32(b, id)
	}
	if err := unix.Setxattr(name, "system.posix_acl_access", b, 0); errors.Is(err, unix.EOPNOTSUPP) {
		t.Skip("no access control lists here")
	} else {
		check(t, err)
	}
	for _, mode := range []os.FileMode{0o775, 0o755} { // the mask
		check(t, os.Chmod(name, mode))
		var st syscall.Stat_t
		check(t, syscall.Stat(name, &st))
		st.Uid, st.Gid = 0, 0
		if others := machine().others(name, &st); others != (mode&(writing<<3) != 0) {
			t.Errorf("mode %o: %v", mode, others)
		}
	}
}
