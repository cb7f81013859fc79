//go:build !device

package openfile

import (
	"bytes"
	"io"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// writers are the files that say who is in a group.
type writers struct{ group, passwd string }

// machine returns those of this machine.
func machine() writers { return writers{"/etc/group", "/etc/passwd"} }

// listed reports whether what is at a path has an access control list.
func (writers) listed(path string) bool {
	_, err := unix.Getxattr(path, "system.posix_acl_access", nil)
	return err != unix.ENODATA && err != unix.EOPNOTSUPP
}

// shared reports whether a group may have members other than a user and root.
func (w writers) shared(gid, uid uint32) bool {
	if gid == 0 {
		return false
	}
	name, members, ok := groupOf(w.group, gid)
	if !ok || members != "" && members != name { // it is named as its user is, if it is private
		return gid != uid || ok
	}
	text := readSmall(w.passwd)
	for line := range bytes.Lines(text) { // NAME:PASSWORD:UID:GID:...
		fields := bytes.SplitN(line, []byte(":"), 5)
		if len(fields) == 5 && is(fields[3], gid) && !is(fields[2], uid) && !is(fields[2], 0) {
			return true
		}
	}
	return text == nil
}

// groupOf finds a group in a file of lines NAME:PASSWORD:GID:MEMBER,...
func groupOf(file string, gid uint32) (name, members string, ok bool) {
	for line := range bytes.Lines(readSmall(file)) {
		fields := bytes.Split(bytes.TrimSpace(line), []byte(":"))
		if len(fields) == 4 && is(fields[2], gid) {
			return string(fields[0]), string(fields[3]), true
		}
	}
	return "", "", false
}

func is(text []byte, id uint32) bool {
	n, err := strconv.ParseUint(string(text), 10, 32)
	return err == nil && uint32(n) == id
}

// readSmall reads a file of at most 1 MB, nil if it cannot be read.
func readSmall(name string) []byte {
	f, err := os.Open(name)
	if err != nil {
		return nil
	}
	defer f.Close()
	const most = 1 << 20
	text, err := io.ReadAll(io.LimitReader(f, most+1))
	if err != nil || len(text) > most {
		return nil
	}
	return text
}
