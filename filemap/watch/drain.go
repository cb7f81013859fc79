package watch

import (
	"bytes"
	"encoding/binary"

	"golang.org/x/sys/unix"

	"ustack/filemap/procmap"
)

// Drain handles all events that the kernel has queued until now: it calls
// Forget for the files that are not what they were.
func (w *Watcher) Drain() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.fd < 0 {
		return
	}
	// FIONREAD: not more than what is there now, so that nobody can keep us
	// here.
	queued, err := unix.IoctlGetInt(w.fd, unix.TIOCINQ)
	if err != nil || queued == 0 {
		return
	}
	changed := make(map[procmap.FileID]bool)
	for queued > 0 {
		n, err := unix.Read(w.fd, w.buf)
		if err == unix.EINTR {
			continue
		}
		if err != nil || n <= 0 {
			break
		}
		queued -= n
		w.handle(w.buf[:n], changed)
	}
	for id := range changed {
		w.stats.Changed++
		w.opt.Forget(id)
	}
}

// handle notes which files the events of a read are about.
func (w *Watcher) handle(b []byte, changed map[procmap.FileID]bool) {
	for len(b) >= unix.SizeofInotifyEvent {
		wd := int32(binary.NativeEndian.Uint32(b))
		mask := binary.NativeEndian.Uint32(b[4:])
		end := unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(b[12:]))
		if end > len(b) {
			return
		}
		name, _, _ := bytes.Cut(b[unix.SizeofInotifyEvent:end], []byte{0})
		b = b[end:]
		w.event(wd, mask, string(name), changed)
	}
}

func (w *Watcher) event(wd int32, mask uint32, name string, changed map[procmap.FileID]bool) {
	if mask&unix.IN_Q_OVERFLOW != 0 {
		w.stats.Overflows++
		for wd := range w.dirs {
			w.forgetDir(wd, changed)
		}
		return
	}
	d := w.dirs[wd]
	switch {
	case d == nil:
	case mask&(unix.IN_IGNORED|unix.IN_DELETE_SELF|unix.IN_UNMOUNT) != 0:
		w.forgetDir(wd, changed)
	default:
		w.forgetFile(d, name, changed)
		w.release(wd)
	}
}

// forgetDir ends the watch of a directory and forgets all files in it.
func (w *Watcher) forgetDir(wd int32, changed map[procmap.FileID]bool) {
	d := w.dirs[wd]
	for name := range d.files {
		w.forgetFile(d, name, changed)
	}
	w.release(wd)
}

// forgetFile forgets the files that had a name in a directory.
func (w *Watcher) forgetFile(d *dir, name string, changed map[procmap.FileID]bool) {
	for _, id := range d.files[name] {
		changed[id] = true
		w.files--
	}
	delete(d.files, name)
}
