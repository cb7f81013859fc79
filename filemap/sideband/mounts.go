package sideband

import (
	"slices"

	"golang.org/x/sys/unix"

	"ustack/filemap/procmap"
	"ustack/tracefs"
	"ustack/tracefs/perf"
)

// The records of mappings name a file by its device and its inode's number. A file that is
// looked at later and has both need not be it: as soon as a file system is unmounted, its device
// can have another one (a loop device, a disk that is exchanged), or its number goes to the next
// one (file systems without a disk). The other file can have all else in common, too, its size
// and times, where images are built reproducibly. So a file counts only
//   - if its file system cannot have been unmounted since the mapping was made, as it is also
//     that of our root or our program,
//   - or if it is at a path here, and no mount has come or gone here since,
//   - or if a process has it mapped, and had it from when the mapping was made.
//
// Not seen is what root does to a device that is mounted: the table of a device mapper, say.

// mounts knows whether mounts come and go.
type mounts struct {
	// changed reports whether any did since it was called last, in our mount namespace; nil if
	// that cannot be seen.
	changed func() bool
	clock   int32
	since   tracefs.Time // of the last change that was seen
	// own are devices whose file systems stay mounted as long as we run.
	own []procmap.Dev
	fd  int // of the table of mounts, if changed is not nil
}

// watchMounts begins to watch our mounts.
func watchMounts(clock int32) mounts {
	ms := mounts{clock: clock}
	for _, path := range []string{"/", "/proc/self/exe"} {
		var st unix.Stat_t
		if unix.Stat(path, &st) == nil {
			ms.own = append(ms.own, deviceOf(&st))
		}
	}
	fd, err := unix.Open("/proc/self/mountinfo", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return ms
	}
	ms.fd, ms.since = fd, perf.Now(clock)
	ms.changed = func() bool { return mountsChanged(fd) }
	return ms
}

// mountsChanged reports whether the table of mounts has changed since it was opened or this
// was called last (mounts_poll in fs/proc_namespace.c).
func mountsChanged(fd int) bool {
	polled := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLPRI}}
	n, err := unix.Poll(polled, 0)
	return n != 0 || err != nil
}

// stand reports whether the file system that a device has by a mount of ours was there at a
// time, too.
func (ms *mounts) stand(dev procmap.Dev, t tracefs.Time) bool {
	if ms.stays(dev) {
		return true
	}
	ms.look()
	return ms.changed != nil && ms.since <= t
}

// look sees the changes until now. The sooner one is seen, the fewer mappings may have been made
// before it.
func (ms *mounts) look() {
	if ms.changed != nil && ms.changed() {
		ms.since = perf.Now(ms.clock)
	}
}

// stays reports whether a device has one file system as long as we run.
func (ms *mounts) stays(dev procmap.Dev) bool { return slices.Contains(ms.own, dev) }

func (ms *mounts) close() {
	if ms.changed != nil {
		_ = unix.Close(ms.fd) // it was only read
	}
	ms.changed = nil
}

// deviceOf is the device of a file.
func deviceOf(st *unix.Stat_t) procmap.Dev {
	return procmap.Dev{Major: unix.Major(uint64(st.Dev)), Minor: unix.Minor(uint64(st.Dev))}
}

// settleAsked takes the build IDs of files that processes were asked for, if their mappings may
// not have been there all the time until then. All changes of mappings until a time are known: it
// reports whether that is enough for all files. The others are left.
func (w *watchedFiles) settleAsked(known tracefs.Time) bool {
	c := w.completer
	c.asked = slices.DeleteFunc(c.asked, func(f suspect) bool {
		if f.looked > known {
			return false
		}
		if w.history.Gaps.Open() || !w.had(&f) {
			w.history.written([]mappedFile{f.mappedFile}, f.at)
		}
		return true
	})
	return len(c.asked) == 0
}
