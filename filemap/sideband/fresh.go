package sideband

import (
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"ustack/filemap/procmap"
	"ustack/tracefs"
	"ustack/tracefs/perf"
)

// A file that was changed right before it was mapped may have been changed right after, as
// the times of files advance in ticks. If others than root can write it, they can have undone
// that by now: it has no build ID. Nor has one whose build ID the kernel did not report, and which
// was read later: they can have written that meanwhile, through a page of a shared mapping, which
// no time of the file shows if they had written to it before. Root's files have theirs, unless
// both is so, or a read one was changed since. Programs that run as soon as they are built keep
// theirs: the kernel lets no one write to what a process executes, from before it maps it until
// the process ends or executes another program (deny_write_access in include/linux/fs.h). A
// mapping is of that program
//   - if the process executes it when the file is looked at (/proc/PID/exe), or
//   - if it is the first one that the kernel made for the process as it executed a program,
//     and one of another file followed, of the dynamic linker. A linker alone can be first: a
//     program need not have code.

// freshFile is a file that had just been changed when a process mapped it, or whose build ID was
// read later.
type freshFile struct {
	watchedFile
	in    int    // the process that has the mapping
	start uint64 // of the mapping
	at    tracefs.Time
	// looked is when the process was seen to execute it.
	looked tracefs.Time
}

// freshFiles are those that are not known yet to be programs.
type freshFiles struct {
	// first are the first files of processes that load a program.
	first map[int]freshFile
	// executed are those that processes were seen to execute.
	executed []freshFile
	// moved reports whether a process may have changed what counts as its program
	// (prctl(2), PR_SET_MM_MAP).
	moved func(pid int) bool
}

// fresh notes such a file. executes is set if its process was seen to
// execute it.
func (w *watchedFiles) fresh(f freshFile, executes bool) {
	x := &w.freshFiles
	switch {
	case len(x.first)+len(x.executed) >= maxStamped:
		w.loseFresh(&f)
	case executes:
		f.looked = perf.Now(w.clock)
		x.executed = append(x.executed, f)
	case w.isFirst(&f):
		if x.first == nil {
			x.first = make(map[int]freshFile)
		}
		x.first[f.in] = f
	default:
		w.loseFresh(&f)
	}
}

// isFirst reports whether a file is the only one of which a process has code mapped, and
// was while it loads a program.
func (w *watchedFiles) isFirst(f *freshFile) bool {
	sp := w.history.Spaces.Space(f.in)
	return sp.Loading(f.at, f.at+1) && !w.hasOther(f, f.at)
}

// hasOther reports whether the process of a file has code of another file mapped at a time.
func (w *watchedFiles) hasOther(f *freshFile, t tracefs.Time) bool {
	v := w.history.Spaces.Space(f.in).At(t)
	if v == nil {
		return false
	}
	for m := range v.Mappings.All() {
		if m.File.Kind.HasFile() && (mappedFile{m.File.Name, m.File.BuildID}) != f.mappedFile {
			return true
		}
	}
	return false
}

// loaded notes at t that a process has loaded its program.
func (w *watchedFiles) loaded(pid int, t tracefs.Time) {
	f, ok := w.freshFiles.first[pid]
	if delete(w.freshFiles.first, pid); ok && !w.hasOther(&f, t) {
		w.loseFresh(&f)
	}
}

// unloaded notes that a process will not end to load its program, or that this is unknown.
func (w *watchedFiles) unloaded(pid int) {
	if f, ok := w.freshFiles.first[pid]; ok {
		delete(w.freshFiles.first, pid)
		w.loseFresh(&f)
	}
}

// missed notes that records are missing: those that are needed may be among them.
func (w *watchedFiles) missed() {
	for pid := range w.freshFiles.first {
		w.unloaded(pid)
	}
	for i := range w.freshFiles.executed {
		w.loseFresh(&w.freshFiles.executed[i])
	}
	w.freshFiles.executed = nil
}

// settleFresh takes the build IDs of files whose process, when it was seen to execute them,
// had not had the mapping all the time. All changes until a time are known: it reports whether
// that is enough for all files.
func (w *watchedFiles) settleFresh(known tracefs.Time) bool {
	list := w.freshFiles.executed
	left := list[:0]
	for i := range list {
		switch f := &list[i]; {
		case f.looked > known:
			left = append(left, *f)
		case !w.stays(f) || w.freshFiles.moved(f.in):
			w.loseFresh(f)
		}
	}
	clear(list[len(left):])
	w.freshFiles.executed = left
	return len(left) == 0
}

// stays reports whether a mapping was still there when its process was looked at.
func (w *watchedFiles) stays(f *freshFile) bool {
	v := w.history.Spaces.Space(f.in).At(f.looked)
	if v == nil {
		return false
	}
	m := v.Find(f.start)
	return m != nil && m.Since <= f.at && m.File.Name == f.name && m.File.BuildID == f.id
}

func (w *watchedFiles) loseFresh(f *freshFile) {
	w.stamps.lose(&f.watchedFile)
	w.checked = min(w.checked, f.at)
}

// isFresh reports whether a file may have been changed after a time though its time of
// change is before.
func (f pathFile) isFresh(t time.Time) bool {
	behind := 2 * tick() // the tick itself can be late
	if f.changed.Nanosecond() == 0 {
		behind = 2 * time.Second // a file system that stores no more, FAT even ones only
	}
	return !f.changed.Before(t.Add(-behind))
}

// tick is how often the clock of file systems advances, CONFIG_HZ.
func tick() time.Duration {
	const longest = coarse / 2
	var res unix.Timespec
	if unix.ClockGetres(unix.CLOCK_REALTIME_COARSE, &res) != nil || res.Sec > 0 || res.Nsec <= 0 {
		return longest
	}
	return min(time.Duration(res.Nsec), longest)
}

// executes reports whether a process executes a file, which none can write then.
func executes(pid int, f pathFile) bool {
	exe, ok := statAt(unix.AT_FDCWD, "/proc/"+strconv.Itoa(pid)+"/exe", unix.AT_STATX_DONT_SYNC)
	return ok && exe.same(f) && deniesWrites()
}

// deniesWrites reports whether the kernel lets no one write to what a process executes. Where
// its release does not show that, our own program does.
func deniesWrites() bool {
	var u unix.Utsname
	if unix.Uname(&u) == nil && denying(unix.ByteSliceToString(u.Release[:])) {
		return true
	}
	fd, err := unix.Open("/proc/self/exe", unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err == nil {
		_ = unix.Close(fd) // nothing was written
	}
	return err == unix.ETXTBSY
}

// denying reports whether all kernels of a release do. Linux 6.11 and 6.12 did not at first.
func denying(release string) bool {
	major, minor, _, _ := parseRelease(release)
	return major != 0 && (major != 6 || minor != 11 && minor != 12)
}

// stampFresh notes a file that was looked at and had just been changed.
func (w *watchedFiles) stampFresh(pid int, f *watchedFile, m *procmap.Mapping, t tracefs.Time, held *heldFile) {
	fresh := freshFile{watchedFile: *f, in: pid, start: m.Start, at: t}
	if layered(held.fd) || !deniesWrites() { // the file below an overlay can be written
		w.loseFresh(&fresh)
		return
	}
	w.fresh(fresh, held.executed)
}
