package saved

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"ustack/filemap/openfile"
	"ustack/filemap/sideband"
	"ustack/tracefs/perfdata"
)

// doubtListed leaves out of perf's list of build IDs those that are another file's than the one that was
// mapped, as far as this machine shows it. perf reads them at the end, at the paths: a file may have been
// replaced by then, and that of a container that has ended is looked for among those of the host.
func doubtListed(f *perfdata.File, name string, rec *sideband.Recorded) {
	written := writtenAt(name)
	if written.IsZero() || !isOwnHost(f.Host) {
		return
	}
	files := openfile.NewOpener(0)
	defer files.Close()
	rec.Doubt(func(path string, inode uint64) bool { return isOther(files, path, inode, written) })
}

// isOwnHost reports whether a name is this machine's.
func isOwnHost(name string) bool {
	var own unix.Utsname
	return name != "" && unix.Uname(&own) == nil && unix.ByteSliceToString(own.Nodename[:]) == name
}

// isOther reports whether a path led to another file than the one with an inode when perf.data was
// written: that file is there, and has not changed since. The numbers of devices are not compared, as
// they can be others after a boot.
func isOther(files *openfile.Opener, path string, inode uint64, written time.Time) bool {
	at, err := files.Named(path)
	if err != nil {
		return false
	}
	defer at.Close()
	st, ok := at.Info().Sys().(*syscall.Stat_t)
	return ok && st.Ino != inode && at.SameNumbers() && openfile.ChangedBefore(time.Unix(st.Ctim.Unix()), written)
}
