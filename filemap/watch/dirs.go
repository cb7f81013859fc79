package watch

import (
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"

	"github.com/fsnotify/fsnotify"
	"golang.org/x/sys/unix"

	"ustack/filemap/procmap"
)

// dir is a watched directory and the mapped files in it.
type dir struct {
	path  string // as fsnotify has it
	inode procmap.FileID
	files map[string][]procmap.FileID
	noise int // events of no file that is mapped
}

// maxNoise is how many events of other files a directory may have. fsnotify asks
// for every write, and there may be logs beside a library.
const maxNoise = 1 << 14

// Watch begins to watch a mapped file, in the directory where the process sees it,
// and reports whether it does. It does not if changes could go unseen: the file is
// not there under its name (deleted, hidden by a mount, not identified by device
// and inode), other names lead to it, or it can change without this kernel (a
// network file system).
func (w *Watcher) Watch(pid int, m *procmap.Mapping) bool {
	if m.Kind != procmap.File || !strings.HasPrefix(m.Name, "/") {
		return false
	}
	answers := w.answers(pid, m.Name)
	w.mu.Lock()
	if !answers {
		w.stats.Refused[Remote]++
		w.mu.Unlock()
		return false
	}
	changed := make(map[procmap.FileID]bool)
	reason := w.watch(pid, m, changed)
	if reason != watched {
		w.stats.Refused[reason]++
	}
	w.mu.Unlock()
	w.forget(changed)
	return reason == watched
}

// answers reports whether looking at a file and its directory takes only so long: all
// that follows waits for the same answers, with the lock held.
func (w *Watcher) answers(pid int, name string) bool {
	at := w.opt.Proc + "/" + strconv.Itoa(pid) + "/root" + name
	return w.calls.Do(func() {
		_, _, _ = inodeOf(path.Dir(at))
		_ = check(at, procmap.FileID{})
	}) == nil
}

func (w *Watcher) watch(pid int, m *procmap.Mapping, changed map[procmap.FileID]bool) Reason {
	if w.start() != nil {
		return NoInotify
	}
	if w.files >= w.opt.MaxFiles {
		w.degrade(fmt.Errorf("%d files are watched already", w.files))
		return Full
	}
	root := w.opt.Proc + "/" + strconv.Itoa(pid) + "/root"
	parent, name := path.Split(m.Name)
	d, reason := w.dir(path.Clean(root+parent), changed)
	if reason != watched {
		return reason
	}
	id := procmap.FileID{Dev: m.Dev, Inode: m.Inode}
	// Look only now: what happens to the file from here on is seen.
	reason = check(root+m.Name, id)
	if now, _, err := inodeOf(path.Clean(root + parent)); err != nil || now != d.inode {
		reason = NotThere // it was looked for in another directory
	}
	switch {
	case reason != watched:
		w.release(d)
		return reason
	case d.knows(name, id):
		return watched
	}
	d.files[name] = append(d.files[name], id)
	w.files++
	return watched
}

func (d *dir) knows(name string, id procmap.FileID) bool {
	for _, known := range d.files[name] {
		if known == id {
			return true
		}
	}
	return false
}

// dir watches a directory, which may be watched already, by this path or
// another one. fsnotify must not get a path again that leads elsewhere by now
// (the PID is another process's): it would lose the first directory.
func (w *Watcher) dir(at string, changed map[procmap.FileID]bool) (*dir, Reason) {
	inode, local, err := inodeOf(at)
	switch {
	case err != nil:
		return nil, NotThere
	case w.noisy[inode]:
		return nil, Noisy
	case !local:
		return nil, Remote
	}
	if d := w.byInode[inode]; d != nil {
		return d, watched
	}
	if d := w.dirs[at]; d != nil {
		w.drop(d, changed)
	}
	if len(w.dirs) >= w.opt.MaxDirs {
		w.degrade(fmt.Errorf("%d directories are watched already", len(w.dirs)))
		return nil, Full
	}
	if err := w.in.fs.Add(at); err != nil {
		if errors.Is(err, unix.ENOSPC) {
			w.degrade(fmt.Errorf("watching %q: %w", at, err))
			return nil, Full
		}
		return nil, NotThere
	}
	d := &dir{path: at, inode: inode, files: make(map[string][]procmap.FileID)}
	w.dirs[at], w.byInode[inode] = d, d
	return d, watched
}

// event notes which files an event is about.
func (w *Watcher) event(name string, h happening, changed map[procmap.FileID]bool) {
	if d := w.dirs[name]; d != nil && h.op.Has(fsnotify.Remove|fsnotify.Rename) {
		w.drop(d, changed)
	}
	parent, base := path.Split(name)
	d := w.dirs[path.Clean(parent)]
	switch {
	case d == nil:
	case h.op == fsnotify.Chmod || d.files[base] == nil:
		// Other permissions make no other build ID.
		if d.noise += h.count; d.noise > maxNoise {
			if len(w.noisy) >= w.opt.MaxDirs {
				clear(w.noisy)
			}
			w.noisy[d.inode] = true
			w.drop(d, changed)
		}
	default:
		w.forgetFile(d, base, changed)
		w.release(d)
	}
}

// dropUnmounted drops the directories that fsnotify no longer watches: it does not
// report file systems that were unmounted.
func (w *Watcher) dropUnmounted(changed map[procmap.FileID]bool) {
	list := w.in.fs.WatchList()
	if len(list) == len(w.dirs)+1 { // all, and the barrier
		return
	}
	watched := make(map[string]bool, len(list))
	for _, at := range list {
		watched[at] = true
	}
	for at, d := range w.dirs {
		if !watched[at] {
			w.drop(d, changed)
		}
	}
}

// drop ends the watch of a directory and forgets all files in it.
func (w *Watcher) drop(d *dir, changed map[procmap.FileID]bool) {
	for name := range d.files {
		w.forgetFile(d, name, changed)
	}
	w.release(d)
}

// forgetFile forgets the files that had a name in a directory.
func (w *Watcher) forgetFile(d *dir, name string, changed map[procmap.FileID]bool) {
	for _, id := range d.files[name] {
		changed[id] = true
		w.files--
	}
	delete(d.files, name)
	w.full = false // there is room again
}

// release ends the watch of a directory in which no file is watched.
func (w *Watcher) release(d *dir) {
	if len(d.files) > 0 || w.dirs[d.path] != d {
		return
	}
	delete(w.dirs, d.path)
	delete(w.byInode, d.inode)
	// An error means that the kernel has ended the watch before us.
	_ = w.in.fs.Remove(d.path)
}
