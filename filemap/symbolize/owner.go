package symbolize

import (
	"os"
	"syscall"

	"ustack/filemap"
)

// planted is the result for a file that other users may have put where it is.
const planted = "another user's: not used"

// mayName reports whether a file that this one points to, by .gnu_debuglink or
// .gnu_debugaltlink, may name its functions. Any user can put a file into a directory like
// /tmp, and give it a checksum or a build ID. So it has to belong to root, to the owner of this
// one, or to the user of ustack, and others may not write to it. Directories that the user has
// named are trusted.
func (o *object) mayName(to *object) bool {
	if !to.in.traced {
		return true
	}
	if to.file.Shared() {
		return false
	}
	uid, ok := to.owner()
	if !ok || uid == 0 || uid == uint32(os.Geteuid()) {
		return ok
	}
	mine, ok := o.owner()
	return ok && uid == mine
}

// checkOwner returns an error if the file that a path of the trace leads to may be another user's,
// in place of the one that ran.
func (f *finder) checkOwner(o *object, want *filemap.File) error {
	if !o.in.traced {
		return nil
	}
	since := f.since
	if tookPlace(want.Path, o.name) {
		since = nil // it may have been there before
	}
	return o.in.files.CheckOwner(o.file, o.name, o.id.Hex(), since)
}

// owner returns the user to whom a file belongs.
func (o *object) owner() (uid uint32, ok bool) {
	st, ok := o.file.Info().Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return st.Uid, true
}
