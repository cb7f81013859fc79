package openfile

import "syscall"

// Bits of a file's mode: who may write.
const (
	allWrite   = 0o002
	groupWrite = 0o020
)

// others reports whether users other than its owner and root may write to what is at a path, which
// has no links: all, those that an access control list names, or a group. A group of which
// the members are not known, as of a directory service, counts for a shared one.
func (w writers) others(path string, st *syscall.Stat_t) bool {
	switch {
	case st.Mode&allWrite != 0:
		return true
	case st.Mode&groupWrite == 0: // no list gives more than that
		return false
	}
	return w.listed(path) || w.shared(st.Gid, st.Uid)
}
