package instance

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// An instance belongs to a process that holds a lock (flock(2)) on its directory.
// The kernel drops the lock when the process ends, however that happens. The lock
// is a better sign than the PID in the name: the PID may be in use again, or from
// another PID namespace, where we see another process or none by that number.
//
// A process that makes or removes instances holds a lock on the directory of all of
// them meanwhile, so that no other process sees an instance that has not been
// locked yet.

// errLocked: another process has the lock.
var errLocked = errors.New("locked by another process")

// lock opens a directory and locks it until it is closed, or fails with
// errLocked.
func lock(path string) (*os.File, error) {
	f, err := dir(path).open(".", os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW)
	if err != nil {
		return nil, err
	}
	for {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err != unix.EINTR {
			break
		}
	}
	switch err {
	case nil:
		return f, nil
	case unix.EWOULDBLOCK:
		err = errLocked
	default:
		err = &os.PathError{Op: "flock", Path: path, Err: err}
	}
	return nil, errors.Join(err, f.Close())
}

// Patience with other processes, which hold the lock for microseconds, unless
// they are stopped in the middle of it.
const (
	lockPatience = 3 * time.Second
	lockPause    = 5 * time.Millisecond
)

// lockAll takes the lock on all instances.
func (r *Root) lockAll() (*os.File, error) {
	for end := time.Now().Add(lockPatience); ; time.Sleep(lockPause) {
		f, err := lock(r.path(instances))
		switch {
		case err == nil:
			return f, nil
		case errors.Is(err, os.ErrPermission):
			return nil, r.denied("locking the instances of", err)
		case !errors.Is(err, errLocked) || time.Now().After(end):
			return nil, fmt.Errorf("locking %s: %w", r.path(instances), err)
		}
	}
}
