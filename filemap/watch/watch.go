package watch

import (
	"errors"
	"fmt"
	"maps"
	"sync"

	"ustack/filemap/bounded"
	"ustack/filemap/procmap"
)

// Options configure a Watcher.
type Options struct {
	// Forget is called for each file that was replaced, deleted, renamed or
	// written, once for a Drain. procmap.IDs.Forget fits.
	Forget func(procmap.FileID)
	// Log gets a message when files can no longer be watched, once each time
	// that begins. It may be nil.
	Log func(message string)
	// Proc is where proc is mounted, /proc if empty.
	Proc string
	// MaxDirs and MaxFiles bound the watches, 0 is a default.
	MaxDirs, MaxFiles int
}

const (
	defaultDirs  = 4096
	defaultFiles = 1 << 16
)

// Watcher is a procmap.Guard. Its methods may be called from any goroutine.
type Watcher struct {
	opt   Options
	calls *bounded.Calls // that look at paths, which a server can hold up

	draining sync.Mutex // held by the one that waits at the barrier

	mu sync.Mutex
	in *instance // nil if there is no inotify for us
	// useless is set if inotify was tried and does not work: it is never tried again.
	useless bool
	dirs    map[string]*dir         // by path, as fsnotify has it
	byInode map[procmap.FileID]*dir // the same
	noisy   map[procmap.FileID]bool // directories that are not worth their events
	files   int
	full    bool // said so
	stats   Stats
}

// Stats is what a Watcher does and did.
type Stats struct {
	// Dirs and Files are watched now.
	Dirs, Files int
	// Changed files were forgotten, Overflows made all be forgotten.
	Changed, Overflows int64
	// Refused files could not be watched, by the reason why.
	Refused [Reasons]int64
}

// New returns a Watcher. Without inotify (no instances left, say) it watches
// nothing, and says so.
func New(opt Options) *Watcher {
	if opt.Proc == "" {
		opt.Proc = "/proc"
	}
	if opt.MaxDirs <= 0 {
		opt.MaxDirs = defaultDirs
	}
	if opt.MaxFiles <= 0 {
		opt.MaxFiles = defaultFiles
	}
	w := &Watcher{opt: opt, noisy: make(map[procmap.FileID]bool), calls: bounded.New(0)}
	w.forgetAll()
	_ = w.start() // it has been said, and will be tried again
	return w
}

// start starts inotify, if it is not running.
func (w *Watcher) start() error {
	if w.in != nil {
		return nil
	}
	if w.useless {
		return errUseless
	}
	in, err := newInstance(w.opt.Proc)
	if err != nil {
		w.useless = errors.Is(err, errUseless)
		w.degrade(err)
		return err
	}
	w.in = in
	return nil
}

// Close ends all watching. Remembered IDs of watched files are forgotten.
func (w *Watcher) Close() error {
	w.mu.Lock()
	in := w.in
	w.useless = true
	w.mu.Unlock()
	if in == nil {
		return nil
	}
	return w.end(in)
}

// end ends an instance of inotify, unless it has ended, and forgets all files.
func (w *Watcher) end(in *instance) error {
	w.mu.Lock()
	if w.in != in {
		w.mu.Unlock()
		return nil
	}
	w.in = nil
	changed := w.forgetAll()
	w.mu.Unlock()
	w.forget(changed)
	if err := in.close(); err != nil {
		return fmt.Errorf("closing inotify: %w", err)
	}
	return nil
}

// Stats returns what the Watcher does and did.
func (w *Watcher) Stats() Stats {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.stats
	s.Dirs, s.Files = len(w.dirs), w.files
	return s
}

// Drain handles all that has happened to watched files until now: it calls
// Forget for the files that are not what they were. It waits for fsnotify,
// some 10 µs.
func (w *Watcher) Drain() {
	w.draining.Lock()
	defer w.draining.Unlock()
	w.mu.Lock()
	in, idle := w.in, w.files == 0
	w.mu.Unlock()
	if in == nil || idle {
		return
	}
	happened, err := in.barrier()
	if err == nil {
		w.forget(w.handle(in, happened))
		return
	}
	// Events were lost, so all files are suspect.
	w.mu.Lock()
	w.stats.Overflows++
	if errors.Is(err, errUseless) {
		w.useless = true
		w.degrade(err)
	}
	w.mu.Unlock()
	_ = w.end(in) // nothing is lost by an error here
}

// handle notes which files events are about.
func (w *Watcher) handle(in *instance, happened map[string]happening) (changed map[procmap.FileID]bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.in != in {
		return nil // all is forgotten
	}
	changed = make(map[procmap.FileID]bool)
	for name, h := range happened {
		w.event(name, h, changed)
	}
	w.dropUnmounted(changed)
	w.stats.Changed += int64(len(changed))
	return changed
}

// forget reports files without holding the lock.
func (w *Watcher) forget(changed map[procmap.FileID]bool) {
	for id := range maps.Keys(changed) {
		w.opt.Forget(id)
	}
}

// forgetAll makes the Watcher one that watches nothing.
func (w *Watcher) forgetAll() (changed map[procmap.FileID]bool) {
	changed = make(map[procmap.FileID]bool)
	for _, d := range w.dirs {
		for _, ids := range d.files {
			for _, id := range ids {
				changed[id] = true
			}
		}
	}
	w.dirs, w.byInode, w.files = make(map[string]*dir), make(map[procmap.FileID]*dir), 0
	return changed
}
