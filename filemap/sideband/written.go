package sideband

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"ustack/filemap/elfid"
	"ustack/filemap/openfile"
	"ustack/filemap/procmap"
	"ustack/filemap/space"
	"ustack/tracefs"
	"ustack/tracefs/perf"
)

// A build ID is right for a file as it was when it was mapped. A file that is
// written in place while it is mapped is another one from then on, in each process
// that has it mapped. So the files are watched, and one that is written loses its
// ID from the last time on at which it was known not to have been.
//
// Two things show it: the file's times, which are compared on each Drain (see stamps),
// and inotify(7), by which a file is watched at its path. Neither works for files of
// network file systems, nor for processes that had ended when the record of their
// mapping was read, if the file is neither at its path here nor at its path in the
// processes that they were forked from.

// FileWatcher watches files that are mapped (watch.Watcher is one). It has to
// pass files that were written to Written.Changed.
type FileWatcher interface {
	Watch(pid int, m *procmap.Mapping) bool
	Drain()
}

// Written collects what a FileWatcher finds. Its zero value is empty.
type Written struct {
	mu      sync.Mutex
	changed []procmap.FileID
}

// Changed notes that a file is not what it was. It may be called by any goroutine.
func (w *Written) Changed(id procmap.FileID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.changed) < maxFiles {
		w.changed = append(w.changed, id)
	}
}

func (w *Written) take() []procmap.FileID {
	w.mu.Lock()
	defer w.mu.Unlock()
	list := w.changed
	w.changed = nil
	return list
}

// maxFiles bounds the files that are watched.
const maxFiles = 1 << 14

// mappedFile is a file as it was mapped.
type mappedFile struct {
	name string
	id   elfid.ID
}

// watchedFile is a file that is watched, as a process sees it.
type watchedFile struct {
	mappedFile
	pid    int
	at     pathFile
	mapped tracefs.Time
	recordedFile
	// proven: the mapping is of the file at the path. other: it is of another one.
	proven, other bool
	// link is the file that the link of the mapping leads to, if isMapped. It is not always
	// looked at, see pathLook.
	link     pathFile
	isMapped bool
	// since is when the watch began, unsure whether the file was written before.
	since  time.Time
	unsure bool
}

// watchedAs identifies a watched file. Two files can have one path and one build
// ID, one after the other, or in two containers.
type watchedAs struct {
	mappedFile
	inode procmap.FileID
	born  int64
}

func (f *watchedFile) as() watchedAs { return watchedAs{f.mappedFile, f.at.id, f.at.born.UnixNano()} }

// watchedFiles are the files that are watched.
type watchedFiles struct {
	history   *History
	clock     int32
	completer *completer
	watcher   FileWatcher // nil for none
	reported  *Written
	// forget has others forget the build ID of a file; it may be nil.
	forget func(procmap.FileID)
	proof  proof

	known map[watchedAs]bool
	by    map[procmap.FileID][]watchedFile
	// checked is the time up to which all writes are known.
	checked tracefs.Time
	stamps  stamps

	freshFiles freshFiles
	inodes     inodes
}

// watchAgain watches the file of a mapping that was made at t of one that was there before.
func (w *watchedFiles) watchAgain(pid int, m *procmap.Mapping, t tracefs.Time) {
	w.watch(pid, m, recordedFile{}, t)
}

// watch watches the file of a mapping that was made at t.
func (w *watchedFiles) watch(pid int, m *procmap.Mapping, is recordedFile, t tracefs.Time) {
	if w.watcher == nil || !m.Kind.HasFile() || m.BuildID.IsZero() {
		return
	}
	if w.stamps.holds(is.inode, mappedFile{m.Name, m.BuildID}) {
		return
	}
	if m.Kind != procmap.File { // it is at no path: only its times show
		_ = w.stamp(pid, &watchedFile{mappedFile: mappedFile{m.Name, m.BuildID}, pid: pid, mapped: t, recordedFile: is}, m, t, false)
		return
	}
	l, err := w.atPath(&pathLook{pid: pid, name: m.Name, inode: is.inode, link: linkOf(pid, m), any: len(w.stamps.refused) > 0}, t)
	if err != nil { // of a server, most likely; or others have not answered
		w.lose(&watchedFile{mappedFile: mappedFile{m.Name, m.BuildID}, mapped: t})
		return
	}
	f := watchedFile{mappedFile: mappedFile{m.Name, m.BuildID}, pid: l.pid, at: l.at, mapped: t, recordedFile: is, proven: l.proven, other: l.other, link: l.mapped, isMapped: l.isMapped}
	found := l.ok && !l.other && !l.at.born.After(w.completer.wall.at(t).Add(coarse)) // after: it has taken the file's place
	sure := w.stamp(pid, &f, m, t, found)
	w.proof.looked(sure, suspect{watchedFile: f, in: pid, start: m.Start, at: t, looked: perf.Now(w.clock)})
	if !found || w.known[f.as()] {
		return
	}
	if w.known == nil || len(w.known) >= maxFiles {
		w.known, w.by = make(map[watchedAs]bool), make(map[procmap.FileID][]watchedFile)
	}
	w.watchInode(f, t)
}

// atPath looks at the file that a process had at a path at t. If it has ended, the
// processes that it was forked from may still see the file, in a container for one,
// or we may: the file can be another one then. It is an error if a server gives no
// answer.
func (w *watchedFiles) atPath(l *pathLook, t tracefs.Time) (*pathLook, error) {
	const generations = 4
	in := l.pid
	for n := 0; in != 0 && n <= generations; n++ {
		if err := w.lookAt(l); err != nil || l.ok { // after an error the call goes on
			return l, err
		}
		if in = w.history.Spaces.Space(in).ForkedOf(t); in != 0 {
			l = &pathLook{pid: in, name: l.name, inode: l.inode}
		}
	}
	l = &pathLook{pid: os.Getpid(), name: l.name, inode: l.inode}
	return l, w.lookAt(l)
}

// lookAt looks at a path in a process.
func (w *watchedFiles) lookAt(l *pathLook) error { return w.completer.bounded().Do(l.look) }

// pathLook looks at a path in a process, and at the link of a mapping, if that is not "" and
// the file at the path is root's, or any one counts. The call may be given up, and goes on then.
type pathLook struct {
	pid        int
	name, link string
	any        bool
	inode      procmap.FileID // of the mapping; zero if it is not known

	at, mapped   pathFile
	ok, isMapped bool
	// proven: the inode shows that the mapping is of the file at the path. other: it shows
	// that it is not.
	proven, other bool
}

func (l *pathLook) look() {
	path := rootPath(l.pid, l.name)
	l.at, l.ok = statAt(unix.AT_FDCWD, path, 0)
	known := l.ok && l.inode != (procmap.FileID{})
	l.proven = known && l.at.id == l.inode
	l.other = known && !l.proven && reportsInode(path)
	if l.ok && !l.proven && (l.at.roots || l.any) && l.link != "" {
		l.mapped, l.isMapped = statAt(unix.AT_FDCWD, l.link, unix.AT_STATX_DONT_SYNC)
	}
}

// reportsInode reports whether a file has the device and the number in stat(2) that the kernel
// has for it elsewhere, see ownDevice. One whose file system cannot be seen does not.
func reportsInode(path string) bool {
	var s unix.Statfs_t
	return unix.Statfs(path, &s) == nil && ownDevice(int64(s.Type))
}

// ownDevice reports whether files of a type of file system have its device in stat(2). Those of
// btrfs have one for each subvolume, those of an overlay are mapped as the files below.
func ownDevice(kind int64) bool {
	return kind != unix.BTRFS_SUPER_MAGIC && kind != unix.OVERLAYFS_SUPER_MAGIC
}

// linkOf returns the link of a mapping.
func linkOf(pid int, m *procmap.Mapping) string {
	return fmt.Sprintf("/proc/%d/map_files/%x-%x", pid, m.Start, m.End)
}

// watchInode watches a file that is at its path.
func (w *watchedFiles) watchInode(f watchedFile, t tracefs.Time) {
	w.watcher.Drain() // what happened at the path before is not of this file
	if !w.watcher.Watch(f.pid, &procmap.Mapping{Kind: procmap.File, Name: f.name, Dev: f.at.id.Dev, Inode: f.at.id.Inode}) {
		return
	}
	// Writes before the watch are not reported. The process may have ended meanwhile.
	l, err := w.atPath(&pathLook{pid: f.pid, name: f.name}, t)
	f.pid = l.pid
	var now pathFile
	if err == nil {
		now = l.at // else the call goes on
	}
	if f.unsure = err != nil || !l.ok || !now.same(f.at) || now.changed.After(w.completer.wall.at(t).Add(coarse)); f.unsure {
		w.reported.Changed(f.at.id)
		w.checked = min(w.checked, t)
	}
	f.at.changed, f.since = now.changed, time.Now()
	w.known[f.as()] = true
	w.by[f.at.id] = append(w.by[f.at.id], f)
}

// pathFile is the regular file that is at a path.
type pathFile struct {
	id      procmap.FileID
	born    time.Time // zero where the file system does not know
	changed time.Time
	written time.Time
	// roots: root owns the file, and only root may write to it.
	roots bool
}

// same reports whether both are one file: an inode's number is used again.
func (f pathFile) same(o pathFile) bool { return f.id == o.id && f.born.Equal(o.born) }

// changedBefore reports whether the file was surely not changed after a time.
func (f pathFile) changedBefore(t time.Time) bool { return openfile.ChangedBefore(f.changed, t) }

// statIn looks at the file that a process has at a path.
func statIn(pid int, name string) (f pathFile, ok bool) {
	return statAt(unix.AT_FDCWD, rootPath(pid, name), 0)
}

// statFD looks at a file that is open. A server is not asked.
func statFD(fd int) (f pathFile, ok bool) {
	return statAt(fd, "", unix.AT_EMPTY_PATH|unix.AT_STATX_DONT_SYNC)
}

func statAt(dir int, path string, flags int) (f pathFile, ok bool) {
	var st unix.Statx_t
	const want = unix.STATX_TYPE | unix.STATX_MODE | unix.STATX_UID | unix.STATX_INO | unix.STATX_CTIME | unix.STATX_MTIME | unix.STATX_BTIME
	if unix.Statx(dir, path, flags, want, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return pathFile{}, false
	}
	f.id = procmap.FileID{Dev: procmap.Dev{Major: st.Dev_major, Minor: st.Dev_minor}, Inode: st.Ino}
	const others = 0o022 // may write
	f.roots = st.Mask&unix.STATX_UID != 0 && st.Uid == 0 && st.Mode&others == 0
	f.changed = time.Unix(st.Ctime.Sec, int64(st.Ctime.Nsec))
	f.written = time.Unix(st.Mtime.Sec, int64(st.Mtime.Nsec))
	if st.Mask&unix.STATX_BTIME != 0 {
		f.born = time.Unix(st.Btime.Sec, int64(st.Btime.Nsec))
	}
	return f, true
}

// checkWritten takes the build IDs from the files that were written since it was
// checked last. All that happened before drained is known.
func (w *watchedFiles) checkWritten(drained tracefs.Time) {
	if w.watcher == nil {
		return
	}
	now := perf.Now(w.clock)
	w.watcher.Drain()
	list := w.changedFiles(drained)
	for _, id := range w.reported.take() {
		files := w.by[id]
		delete(w.by, id)
		for _, f := range files {
			delete(w.known, f.as())
			switch state := w.stateOf(f); {
			case state == fileGone:
			case state == fileAsItWas && f.settled():
				// It was another file, which had the inode's number before.
				w.watchInode(f, f.mapped)
			default:
				list = append(list, f.mappedFile)
			}
		}
	}
	if len(list) > 0 {
		w.history.written(list, w.checked)
	}
	w.checked = now
}

// fileState is the state of a mapped file.
type fileState int

const (
	fileChanged fileState = iota // it may have been written, or is where we do not see it
	fileAsItWas                  // as far as its times say
	fileGone                     // replaced or deleted: processes that map it run the old one
)

// stateOf looks at the path of a file. It may have changed if there is no answer.
func (w *watchedFiles) stateOf(f watchedFile) fileState {
	state := make(chan fileState, 1)
	if w.completer.bounded().Do(func() { state <- f.state() }) != nil {
		return fileChanged
	}
	return <-state
}

// state looks at the path of a file, for as long as that takes.
func (f *watchedFile) state() fileState {
	pid := f.pid
	if _, err := os.Stat("/proc/" + strconv.Itoa(pid) + "/root/"); err != nil {
		pid = os.Getpid()
		if _, ok := statIn(pid, f.name); !ok {
			return fileChanged
		}
	}
	switch now, ok := statIn(pid, f.name); {
	case !ok || !now.same(f.at):
		return fileGone
	case f.unsure || !now.changed.Equal(f.at.changed):
		return fileChanged
	}
	return fileAsItWas
}

// settled reports whether the file's last change was so long before it was watched
// that another change would have another time.
func (f *watchedFile) settled() bool { return f.at.changedBefore(f.since) }

// written notes that files were written in place after t.
func (h *History) written(files []mappedFile, t tracefs.Time) {
	for i := range files {
		h.log.written(files[i].name, files[i].id, t)
	}
	h.Spaces.Written(func(f *space.File) bool {
		return !f.BuildID.IsZero() && slices.Contains(files, mappedFile{f.Name, f.BuildID})
	}, t)
}
