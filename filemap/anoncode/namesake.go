package anoncode

import (
	"errors"
	"io/fs"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"ustack/tracefs"
	"ustack/tracefs/privilege"
)

// Processes of two PID namespaces can have the same number, and the same /tmp: then one file
// is the map of both, and which of them has written a line is unknown.

// namesakes are the processes that know themselves by another number than we do, by the number
// that they know.
type namesakes struct {
	of   map[int][]int
	read tracefs.Time // when they were listed, 0 for never
	// unknown: there is a process whose numbers we cannot find out.
	unknown bool
}

// Bounds: how often all processes are listed, and how many with one number are looked at.
const (
	listAgain     = tracefs.Time(1e9)
	mostNamesakes = 4096
)

// ambiguous reports whether another process can have written the map of a process, too, or it
// cannot be known that none has.
func (ps *Processes) ambiguous(pid int, h *home, info fs.FileInfo, now tracefs.Time) (bool, error) {
	if ps.others.of == nil || now-ps.others.read >= listAgain {
		if err := ps.listNamesakes(now); err != nil {
			return false, err
		}
	}
	list := ps.others.of[h.inside]
	if h.inside != pid {
		list = append([]int{h.inside}, list...)
	}
	if ps.others.unknown || len(list) > mostNamesakes {
		return true, nil
	}
	for _, other := range list {
		if other == pid {
			continue
		}
		if same, err := ps.seesMap(other, h.inside, info); same || err != nil {
			return same, err
		}
	}
	return false, nil
}

// listNamesakes lists the processes of other PID namespaces.
func (ps *Processes) listNamesakes(now tracefs.Time) error {
	dir, err := os.Open(ps.proc)
	if err != nil {
		return err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return err
	}
	ps.others = namesakes{of: make(map[int][]int), read: now}
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		switch _, inside, err := ps.status(pid); {
		case err != nil:
			ps.others.unknown = ps.others.unknown || !ended(err)
		case inside != pid:
			ps.others.of[inside] = append(ps.others.of[inside], pid)
		}
	}
	return nil
}

// ended reports whether a file of a process cannot be read because the process has ended, or is
// not there.
func ended(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) }

// seesMap reports whether a process has a number in its own namespace, and has a file as its map,
// or may have. One that has ended has not.
func (ps *Processes) seesMap(pid, inside int, info fs.FileInfo) (same bool, err error) {
	if _, number, err := ps.status(pid); err != nil || number != inside {
		return err != nil && !ended(err), nil
	}
	path, got := ps.path(pid, "root"), make(chan bool, 1)
	err = ps.calls.Do(func() {
		defer privilege.RaiseIn(ps.proc).Lower()
		root, err := os.OpenRoot(path)
		if err != nil {
			got <- !ended(err)
			return
		}
		defer root.Close()
		its, err := root.Lstat("tmp/" + mapName(inside))
		got <- err == nil && os.SameFile(its, info) || err != nil && !ended(err)
	})
	if err != nil {
		return false, err
	}
	return <-got, nil
}
