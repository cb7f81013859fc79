package anoncode

import (
	"io/fs"
	"os"
	"strconv"

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
}

// Bounds: how often all processes are listed, and how many with one number are looked at.
const (
	listAgain     = tracefs.Time(1e9)
	mostNamesakes = 64
)

// ambiguous reports whether another process can have written the map of a process, too.
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
	if len(list) > mostNamesakes {
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
		if _, inside, err := ps.status(pid); err == nil && inside != pid {
			ps.others.of[inside] = append(ps.others.of[inside], pid)
		}
	}
	return nil
}

// seesMap reports whether a process has a number in its own namespace, and has a file as its map.
// One that has ended has not.
func (ps *Processes) seesMap(pid, inside int, info fs.FileInfo) (same bool, err error) {
	if _, number, err := ps.status(pid); err != nil || number != inside {
		return false, nil
	}
	path, got := ps.path(pid, "root"), make(chan bool, 1)
	err = ps.calls.Do(func() {
		defer privilege.RaiseIn(ps.proc).Lower()
		root, err := os.OpenRoot(path)
		if err != nil {
			got <- false
			return
		}
		defer root.Close()
		its, err := root.Lstat("tmp/" + mapName(inside))
		got <- err == nil && os.SameFile(its, info)
	})
	if err != nil {
		return false, err
	}
	return <-got, nil
}
