package sideband

import (
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"ustack/filemap/elfid"
	"ustack/filemap/procmap"
	"ustack/filemap/space"
	"ustack/tracefs"
)

// A build ID is that of a file when it was mapped. A file that is written in place
// while it is mapped is another one from then on, for who has it mapped too. So the
// files are watched, and one that is written loses its ID from the time on at which
// it was known last not to have been.
//
// This is not seen of files that cannot be watched (watch.Reason: those of network
// file systems, or with several names), of those that are written through a shared
// mapping, which inotify(7) does not report, and of those that have another file at
// their path by now: these can be written only by who has them open.

// FileWatcher watches files that are mapped (watch.Watcher is one). What it finds
// has to be passed to Written.Changed.
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
	pid int
}

// watchedFiles are the files that are watched.
type watchedFiles struct {
	known map[mappedFile]bool
	by    map[procmap.FileID][]watchedFile
	// checked is the time until which it is known what was written.
	checked tracefs.Time
}

// watchFile watches the file of a mapping that was made at t.
func (b *Band) watchFile(pid int, m *procmap.Mapping, t tracefs.Time) {
	f, w := mappedFile{m.Name, m.BuildID}, &b.files
	if b.opt.Watcher == nil || m.Kind != procmap.File || m.BuildID.IsZero() || w.known[f] || inKernel(m.Name) {
		return
	}
	if w.known == nil || len(w.known) >= maxFiles {
		w.known, w.by = make(map[mappedFile]bool), make(map[procmap.FileID][]watchedFile)
	}
	if st, ok := statIn(pid, m.Name); ok {
		b.watchInode(pid, f, &st, t)
	} else if st, ok = statIn(os.Getpid(), m.Name); ok { // it has ended
		b.watchInode(os.Getpid(), f, &st, t)
	}
}

// watchInode watches a file that is at its path.
func (b *Band) watchInode(pid int, f mappedFile, st *unix.Stat_t, t tracefs.Time) {
	dev := procmap.Dev{Major: unix.Major(uint64(st.Dev)), Minor: unix.Minor(uint64(st.Dev))}
	id := procmap.FileID{Dev: dev, Inode: st.Ino}
	if !b.opt.Watcher.Watch(pid, &procmap.Mapping{Kind: procmap.File, Name: f.name, Dev: dev, Inode: st.Ino}) {
		return
	}
	b.files.known[f] = true
	b.files.by[id] = append(b.files.by[id], watchedFile{f, pid})
	// What came before the watch is not reported.
	if now, ok := statIn(pid, f.name); !ok || now.Ino != st.Ino || time.Unix(now.Ctim.Unix()).After(wall(t, b.clock).Add(coarse)) {
		b.opt.Written.Changed(id)
		b.files.checked = min(b.files.checked, t)
	}
}

// statIn stats a regular file as a process sees it.
func statIn(pid int, name string) (st unix.Stat_t, ok bool) {
	err := unix.Stat("/proc/"+strconv.Itoa(pid)+"/root"+name, &st)
	return st, err == nil && st.Mode&unix.S_IFMT == unix.S_IFREG
}

// checkWritten takes the build IDs from the files that were written since it was
// checked last.
func (b *Band) checkWritten() {
	if b.opt.Watcher == nil || len(b.files.known) == 0 {
		return
	}
	now := b.Now()
	b.opt.Watcher.Drain()
	var list []mappedFile
	for _, id := range b.opt.Written.take() {
		for _, f := range b.files.by[id] {
			delete(b.files.known, f.mappedFile)
			if f.isAt(id) {
				list = append(list, f.mappedFile)
			}
		}
		delete(b.files.by, id)
	}
	if len(list) > 0 {
		b.History.written(list, b.files.checked)
	}
	b.files.checked = now
}

// isAt reports whether a file may be at its path still: else it was replaced, or
// deleted, and who has it mapped runs what was in it.
func (f *watchedFile) isAt(id procmap.FileID) bool {
	pid := f.pid
	if _, err := os.Stat("/proc/" + strconv.Itoa(pid) + "/root/"); err != nil {
		pid = os.Getpid()
		if _, ok := statIn(pid, f.name); !ok {
			return true // it may be where we do not see it
		}
	}
	st, ok := statIn(pid, f.name)
	return ok && st.Ino == id.Inode
}

// written notes that files were written in place after t.
func (h *History) written(files []mappedFile, t tracefs.Time) {
	for i := range files {
		h.log.written(files[i].name, files[i].id, t)
	}
	h.Spaces.Written(func(f *space.File) bool {
		return !f.BuildID.IsZero() && slices.Contains(files, mappedFile{f.Name, f.BuildID})
	}, t)
}
