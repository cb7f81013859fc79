package instance

import (
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// Prefix begins the names of our instances; the rest is a PID, a number if a
// process has several, and besideSuffix if it is one beside another.
const (
	Prefix       = "ustack-"
	besideSuffix = "-raw"
)

var ourName = regexp.MustCompile(`^` + Prefix + `([0-9]+)(\.[0-9]+)?(` + besideSuffix + `)?$`)

// ErrAlive: the process that an instance belongs to runs.
var ErrAlive = errors.New("its process runs")

// Left is an instance that was not removed.
type Left struct {
	Name string
	// Err is ErrAlive, or why it could not be removed.
	Err error
}

// Cleaned is the result of Clean.
type Cleaned struct {
	Removed []string
	Left    []Left
}

// Failed returns the errors of instances that should have been removed.
func (c *Cleaned) Failed() error {
	var errs []error
	for _, l := range c.Left {
		if !errors.Is(l.Err, ErrAlive) {
			errs = append(errs, l.Err)
		}
	}
	return errors.Join(errs...)
}

// Leftovers lists the instances that Clean would remove, and removes none.
func (r *Root) Leftovers() ([]string, error) {
	all, err := r.lockAll()
	if err != nil {
		return nil, err
	}
	defer all.Close()
	names, err := r.Instances()
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(names, func(name string) bool {
		if !ourName.MatchString(name) {
			return true
		}
		own, err := lock(r.path(instances + "/" + name))
		if err != nil {
			return true // its process lives, or it has gone meanwhile
		}
		_ = own.Close()
		return false
	}), nil
}

// Alive returns the processes whose instances stayed because they run. Their
// numbers are from the PID namespace that each is in.
func (c *Cleaned) Alive() []int {
	var pids []int
	for _, l := range c.Left {
		parts := ourName.FindStringSubmatch(l.Name)
		if parts == nil || !errors.Is(l.Err, ErrAlive) {
			continue
		}
		if pid, err := strconv.Atoi(parts[1]); err == nil {
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids)
	return slices.Compact(pids)
}

// Clean removes the instances of ustack processes that have ended. rmdir switches
// off all that is on in them, and is refused while a file of the instance is open.
// Nothing else is done to them, except for deferred stacks (see dropDeferred).
func (r *Root) Clean() (Cleaned, error) {
	var c Cleaned
	all, err := r.lockAll()
	if err != nil {
		return c, err
	}
	defer all.Close()
	names, err := r.Instances()
	if err != nil {
		return c, err
	}
	for _, name := range names {
		if !ourName.MatchString(name) {
			continue
		}
		switch err := r.removeDead(name); {
		case err == nil:
			c.Removed = append(c.Removed, name)
		case errors.Is(err, fs.ErrNotExist):
		default:
			c.Left = append(c.Left, Left{name, err})
		}
	}
	return c, nil
}

// Instances lists all instances, sorted.
func (r *Root) Instances() ([]string, error) {
	names, err := r.list(instances)
	if errors.Is(err, fs.ErrPermission) {
		return nil, r.denied("listing the instances of", err)
	}
	if err != nil {
		return nil, fmt.Errorf("listing the instances: %w", err)
	}
	return names, nil
}

// removeDead removes an instance unless its process lives. The lock on all
// instances is held.
func (r *Root) removeDead(name string) error {
	path := r.path(instances + "/" + name)
	own, err := lock(path)
	if errors.Is(err, errLocked) {
		return ErrAlive
	}
	if err != nil {
		return fmt.Errorf("removing the instance %s: %w", name, err)
	}
	defer own.Close()
	dir(path).dropDeferred()
	return r.removeDir(path)
}

func (r *Root) remove(path string) error {
	defer dir(path).raise(".").Lower()
	return r.rmdir(path)
}

// removeDir removes an instance's directory.
func (r *Root) removeDir(path string) error {
	err := r.remove(path)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.EBUSY):
		return fmt.Errorf("removing the instance %s: another process has one of its files open: %w", path, err)
	case errors.Is(err, fs.ErrPermission):
		return r.denied("removing "+path+" from", err)
	}
	return fmt.Errorf("removing the instance %s: %w", path, err)
}
