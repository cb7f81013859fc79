package watch

import (
	"errors"
	"fmt"
	"os"
	"path"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"ustack/filemap/procmap"
)

// Options tell a Watcher what to do.
type Options struct {
	// Forget is called for each file that was replaced, deleted, renamed or
	// written, once for a Drain. procmap.IDs.Forget fits.
	Forget func(procmap.FileID)
	// Log gets a message when files can no longer be watched, once each time
	// that begins. It may be nil.
	Log func(message string)
	// Proc is where proc is mounted, /proc if empty.
	Proc string
	// MaxDirs and MaxFiles bound what is watched, 0 is a default.
	MaxDirs, MaxFiles int
}

const (
	defaultDirs  = 4096
	defaultFiles = 1 << 16
)

// events are those of a directory after which a name in it is another file, or
// its file has other contents. Writing is seen when the file is closed: IN_MODIFY
// would come with each write to each log file that lies beside a library.
const events = unix.IN_DELETE | unix.IN_MOVED_FROM | unix.IN_MOVED_TO | unix.IN_CLOSE_WRITE |
	unix.IN_DELETE_SELF | unix.IN_ONLYDIR

// Watcher is a procmap.Guard. Its methods may be called from any goroutine.
type Watcher struct {
	opt Options

	mu    sync.Mutex
	fd    int // -1 if there is no inotify for us
	dirs  map[int32]*dir
	files int
	full  bool // said so
	buf   []byte
	stats Stats
}

// dir is a watched directory and the files in it that somebody maps.
type dir struct {
	files map[string][]procmap.FileID
}

// Stats is what a Watcher does and did.
type Stats struct {
	// Dirs and Files are watched now.
	Dirs, Files int
	// Changed files were forgotten, Overflows made all be forgotten.
	Changed, Overflows int64
	// Refused files could not be watched.
	Refused int64
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
	w := &Watcher{opt: opt, dirs: make(map[int32]*dir), buf: make([]byte, 64<<10)}
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		w.fd = -1
		w.degrade(fmt.Errorf("starting inotify: %w", err))
		return w
	}
	w.fd = fd
	return w
}

// Close ends all watching.
func (w *Watcher) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.fd < 0 {
		return nil
	}
	err := unix.Close(w.fd)
	w.fd, w.dirs, w.files = -1, make(map[int32]*dir), 0
	if err != nil {
		return fmt.Errorf("closing inotify: %w", err)
	}
	return nil
}

// Stats tells what the Watcher does and did.
func (w *Watcher) Stats() Stats {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.stats
	s.Dirs, s.Files = len(w.dirs), w.files
	return s
}

// Watch begins to watch a mapped file, in the directory where the process sees
// it, and reports whether it does. It does not if the file is not there under
// its name: deleted, made by memfd_create(2), hidden by a mount, or not to be
// told by device and inode (btrfs).
func (w *Watcher) Watch(pid int, m *procmap.Mapping) bool {
	if m.Kind != procmap.File || !strings.HasPrefix(m.Name, "/") {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	ok := w.watch(pid, m)
	if !ok {
		w.stats.Refused++
	}
	return ok
}

func (w *Watcher) watch(pid int, m *procmap.Mapping) bool {
	if w.fd < 0 || w.files >= w.opt.MaxFiles {
		if w.fd >= 0 {
			w.degrade(fmt.Errorf("%d files are watched already", w.files))
		}
		return false
	}
	folder, name := path.Split(m.Name)
	root := w.opt.Proc + "/" + strconv.Itoa(pid) + "/root"
	wd, err := w.add(root + folder)
	if err != nil {
		if errors.Is(err, unix.ENOSPC) || errors.Is(err, errFull) {
			w.degrade(fmt.Errorf("watching %s: %w", folder, err))
		}
		return false
	}
	id := procmap.FileID{Dev: m.Dev, Inode: m.Inode}
	// Look only now: what happens to the file from here on is seen.
	if !isFile(root+m.Name, id) {
		w.release(wd)
		return false
	}
	d := w.dirs[wd]
	for _, known := range d.files[name] {
		if known == id {
			return true
		}
	}
	d.files[name] = append(d.files[name], id)
	w.files++
	return true
}

var errFull = errors.New("so many directories are watched already")

// add watches a directory, which may be watched already.
func (w *Watcher) add(folder string) (int32, error) {
	n, err := unix.InotifyAddWatch(w.fd, folder, events)
	if err != nil {
		return 0, err
	}
	wd := int32(n)
	if w.dirs[wd] == nil {
		if len(w.dirs) >= w.opt.MaxDirs {
			w.remove(wd)
			return 0, fmt.Errorf("%d: %w", len(w.dirs), errFull)
		}
		w.dirs[wd] = &dir{files: make(map[string][]procmap.FileID)}
	}
	return wd, nil
}

// release ends the watch of a directory in which no file is watched.
func (w *Watcher) release(wd int32) {
	if d := w.dirs[wd]; d != nil && len(d.files) == 0 {
		delete(w.dirs, wd)
		w.remove(wd)
		w.full = false // there is room again
	}
}

func (w *Watcher) remove(wd int32) {
	// An error means that the kernel has removed it before us.
	_, _ = unix.InotifyRmWatch(w.fd, uint32(wd))
}

// isFile reports whether a path is this file.
func isFile(path string, id procmap.FileID) bool {
	var st unix.Stat_t
	if unix.Lstat(path, &st) != nil {
		return false
	}
	return id == procmap.FileID{Dev: procmap.Dev{Major: unix.Major(st.Dev), Minor: unix.Minor(st.Dev)}, Inode: st.Ino}
}

// degrade tells that files can no longer be watched, and what that means.
func (w *Watcher) degrade(err error) {
	if w.full {
		return
	}
	w.full = true
	if w.opt.Log == nil {
		return
	}
	hint := ""
	switch {
	case errors.Is(err, unix.ENOSPC):
		hint = limit("max_user_watches")
	case errors.Is(err, unix.EMFILE):
		hint = limit("max_user_instances")
	}
	w.opt.Log(fmt.Sprintf("%v%s: build IDs of more files are asked for each time", err, hint))
}

// limit names a limit of the kernel with its value.
func limit(name string) string {
	value, err := os.ReadFile("/proc/sys/fs/inotify/" + name)
	if err != nil {
		return " (fs.inotify." + name + ")"
	}
	return " (fs.inotify." + name + "=" + strings.TrimSpace(string(value)) + ")"
}
