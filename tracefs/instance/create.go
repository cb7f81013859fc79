package instance

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Instance is a tracing instance that this process has made. Its methods may
// be called by several goroutines; once Remove has begun they return
// ErrRemoved.
type Instance struct {
	root *Root
	name string
	dir  dir

	mu      sync.RWMutex // held for reading while a file is at work
	removed bool

	run     sync.Mutex // guards what follows, and the order of Start and Stop
	state   runState
	readers map[*reading]struct{}

	ownWrites ownWrites

	removing sync.Mutex // guards what follows; taken before the others
	owned    *os.File   // locked: we live; nil when the instance is gone
}

// runState is the last requested state.
type runState uint8

const (
	fresh runState = iota
	started
	stopped
)

// ErrRemoved: the instance is removed, or being removed.
var ErrRemoved = errors.New("the tracing instance is removed")

// maxInstances is how many instances of one process, or of processes with its
// PID in other namespaces, there can be.
const maxInstances = 100

// Create makes an instance, ustack-PID or ustack-PID.N. One by such a name
// whose process is dead is removed first, so the new one is a fresh one.
func (r *Root) Create() (*Instance, error) {
	all, err := r.lockAll()
	if err != nil {
		return nil, err
	}
	defer all.Close()
	base := Prefix + strconv.Itoa(os.Getpid())
	name := base
	for n := 1; n <= maxInstances; n++ {
		in, err := r.create(name)
		if err == nil || !errors.Is(err, fs.ErrExist) {
			return in, err
		}
		name = base + "." + strconv.Itoa(n)
	}
	return nil, fmt.Errorf("making an instance: %s and %d more exist and cannot be removed (ustack clean says why)", base, maxInstances-1)
}

// Beside makes a second instance for the same process, ustack-PID-raw beside
// ustack-PID. It has its own settings.
func (i *Instance) Beside() (*Instance, error) {
	all, err := i.root.lockAll()
	if err != nil {
		return nil, err
	}
	defer all.Close()
	return i.root.create(i.name + besideSuffix)
}

// create makes an instance by this name, or fails with fs.ErrExist if there is
// one that cannot be removed.
func (r *Root) create(name string) (*Instance, error) {
	path := r.path(instances + "/" + name)
	err := r.mkdir(path)
	if errors.Is(err, fs.ErrExist) && r.removeDead(name) == nil {
		err = r.mkdir(path)
	}
	switch {
	case errors.Is(err, fs.ErrExist):
		return nil, err
	case errors.Is(err, fs.ErrPermission):
		return nil, r.denied("making an instance in", err)
	case errors.Is(err, unix.EROFS):
		return nil, &HelpError{fmt.Errorf("making an instance: %w", err), "mount -o remount,rw " + r.Path()}
	case err != nil:
		return nil, fmt.Errorf("making an instance: %w", err)
	}
	own, err := lock(path)
	if errors.Is(err, errLocked) { // by who looks whether it is left over
		return nil, fs.ErrExist
	}
	if err != nil {
		return nil, fmt.Errorf("locking the instance %s: %w", name, err) // Clean can remove it
	}
	return &Instance{root: r, name: name, dir: dir(path), owned: own, readers: make(map[*reading]struct{})}, nil
}

func mkdir(path string) error {
	defer dir(path).raise(".").Lower()
	const private = 0o750
	return os.Mkdir(path, private)
}

// Name returns the instance's name.
func (i *Instance) Name() string { return i.name }

// Path returns the instance's directory.
func (i *Instance) Path() string { return string(i.dir) }

// FS returns the instance's control files.
func (i *Instance) FS() fs.FS { return i.dir.FS() }

// Root returns the top directory it was made in.
func (i *Instance) Root() *Root { return i.root }

// write sets a control file of the instance.
func (i *Instance) write(name, value string) error {
	i.mu.RLock()
	defer i.mu.RUnlock()
	if i.removed {
		return ErrRemoved
	}
	i.ownWrites.under.RLock()
	defer i.ownWrites.under.RUnlock()
	i.ownWrites.note(name, value)
	defer i.ownWrites.note(name, value) // it may take long
	return i.dir.write(name, value)
}

// read reads a control file of the instance.
func (i *Instance) read(name string) (string, error) {
	i.mu.RLock()
	defer i.mu.RUnlock()
	if i.removed {
		return "", ErrRemoved
	}
	return i.dir.read(name)
}

// How long Remove waits for other processes that have a file of the instance
// open.
const (
	removePatience = time.Second
	removePause    = 2 * time.Millisecond
)

// Remove stops tracing, closes the pipes, and removes the instance with all its
// settings. It may be called at any time, by any goroutine, and again: the
// second call waits for the first and does nothing, or tries again if that one
// failed.
func (i *Instance) Remove() error {
	i.removing.Lock()
	defer i.removing.Unlock()
	if i.owned == nil {
		return nil
	}
	i.mu.Lock()
	i.removed = true
	i.mu.Unlock()
	// rmdir does most of this too, but may be refused. The errors do not matter:
	// only the removal counts.
	_ = i.dir.write("tracing_on", "0")
	_ = i.dir.write("events/enable", "0")
	i.dir.dropDeferred()
	i.closeReaders()
	err := i.root.removeDir(string(i.dir))
	for end := time.Now().Add(removePatience); errors.Is(err, unix.EBUSY) && time.Now().Before(end); {
		time.Sleep(removePause)
		err = i.root.removeDir(string(i.dir))
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = nil // another process was faster
	}
	if err != nil {
		return err
	}
	err = i.owned.Close()
	i.owned = nil
	return err
}
