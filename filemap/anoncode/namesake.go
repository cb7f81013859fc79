package anoncode

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"ustack/filemap/bounded"
	"ustack/tracefs"
	"ustack/tracefs/privilege"
)

// Processes of two PID namespaces can have the same number, and the same /tmp: then one file
// is the map of both, and which of them has written a line is unknown.

// namesakes are the processes that know themselves by another number than we do, by the number
// that they know. Ended ones may be among them.
//
// They are asked for after each reading that has found lines: a process that came later has not
// written these. So not all processes are looked at each time, but those with new numbers: the
// kernel gives numbers in order, until it begins again.
type namesakes struct {
	of    map[int][]int // nil if no processes were listed yet
	count int           // of all of them
	// unknown: there is a process whose numbers we cannot find out.
	unknown bool
	asked   tracefs.Time // when they were last listed

	// A process has its number before it can be seen. So those after from are looked at again,
	// but those seen. last had been given at a time, which is soon long enough ago.
	from, last int
	at         tracefs.Time
	seen       map[int]bool
}

// Bounds.
const (
	mostNamesakes = 4096 // of one number
	mostNew       = 4096 // numbers to look at, else all processes are listed again
	mostListed    = 1 << 16
	// listAgain: for so long no number is given again. 32,768 is the fewest by default.
	listAgain = tracefs.Time(5e9)
	// visible is the time after which a process with a number is seen, and inMaking the numbers
	// before the newest that may not be seen at first.
	visible  = tracefs.Time(1e9)
	inMaking = 128
)

// ambiguous reports whether another process can have written the map of a process, too, or it
// cannot be known that none has.
func (ps *Processes) ambiguous(pid int, h *home, info fs.FileInfo, now tracefs.Time) (bool, error) {
	n, inside, got := ps.others, h.inside, make(chan bool, 1)
	ps.others = new(namesakes) // a slow call goes on with the others
	err := ps.calls.Do(func() {
		err := n.list(ps, now)
		got <- err != nil || n.seeMap(ps, pid, inside, info)
	})
	if !errors.Is(err, bounded.ErrSlow) {
		ps.others = n
	}
	if err != nil {
		return false, err
	}
	return <-got, nil
}

// list lists what is new, or all if that is not known.
func (n *namesakes) list(ps *Processes, now tracefs.Time) error {
	newest, ok := ps.newest(ps.proc)
	if !ok || n.of == nil || n.unknown || n.count > mostListed ||
		newest < n.from || newest-n.from > mostNew || now-n.asked >= listAgain {
		*n = namesakes{of: make(map[int][]int), seen: make(map[int]bool), from: newest - inMaking, last: newest, at: now}
		if err := n.all(ps); err != nil {
			n.of = nil
			return err
		}
	}
	for pid := max(n.from, 0) + 1; pid <= newest; pid++ {
		n.look(ps, pid)
	}
	if n.asked = now; now-n.at >= visible {
		n.from, n.last, n.at = n.last, newest, now
	}
	for pid := range n.seen {
		if pid <= n.from {
			delete(n.seen, pid)
		}
	}
	return nil
}

// all looks at all processes.
func (n *namesakes) all(ps *Processes) error {
	dir, err := os.Open(ps.proc)
	if err != nil {
		return err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return err
	}
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			n.look(ps, pid)
		}
	}
	return nil
}

// look looks what has a number: a process, another thread, or nothing.
func (n *namesakes) look(ps *Processes, pid int) {
	if n.seen[pid] {
		return
	}
	st, err := ps.status(strconv.Itoa(pid))
	if err != nil {
		n.unknown = n.unknown || !ended(err)
		return
	}
	n.seen[pid] = true
	if st.outside == pid && st.inside != pid {
		n.of[st.inside] = append(n.of[st.inside], pid)
		n.count++
	}
}

// seeMap reports whether a file is the map of another process than one, or may be, of those with
// a number.
func (n *namesakes) seeMap(ps *Processes, pid, inside int, info fs.FileInfo) bool {
	list := slices.DeleteFunc(n.of[inside], func(other int) bool {
		_, err := os.Lstat(ps.proc + "/" + strconv.Itoa(other))
		return ended(err)
	})
	n.count -= len(n.of[inside]) - len(list)
	n.of[inside] = list
	if n.unknown || len(list) > mostNamesakes {
		return true
	}
	return inside != pid && ps.seesMap(inside, inside, info) ||
		slices.ContainsFunc(list, func(other int) bool { return other != pid && ps.seesMap(other, inside, info) })
}

// ended reports whether a file of a process cannot be read because the process has ended, or is
// not there.
func ended(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) }

// seesMap reports whether a process has a number in its own namespace, and has a file as its map,
// or may have. One that has ended has not.
func (ps *Processes) seesMap(pid, inside int, info fs.FileInfo) bool {
	process := strconv.Itoa(pid)
	if st, err := ps.status(process); err != nil || st.inside != inside {
		return err != nil && !ended(err)
	}
	defer privilege.RaiseIn(ps.proc).Lower()
	root, err := os.OpenRoot(ps.path(process, "root"))
	if err != nil {
		return !ended(err)
	}
	defer root.Close()
	its, err := root.Lstat("tmp/" + mapName(inside))
	return err == nil && os.SameFile(its, info) || err != nil && !ended(err)
}

// newestPID returns the number that was last given to a process or thread of our PID namespace,
// if that is the one that proc shows, and what proc says is the kernel's: in containers of LXC
// it can be another program's.
func newestPID(proc string) (pid int, ok bool) {
	var system unix.Statfs_t
	path := proc + "/loadavg"
	if err := unix.Statfs(path, &system); err != nil || system.Type != unix.PROC_SUPER_MAGIC {
		return 0, false
	}
	self, err := (&Processes{proc: proc}).status("self")
	if err != nil || self.levels != 1 {
		return 0, false
	}
	text, err := os.ReadFile(path)
	fields := bytes.Fields(text) // three loads, tasks, and the newest one (man 5 proc_loadavg)
	if err != nil || len(fields) != 5 {
		return 0, false
	}
	pid = number(fields[4])
	return pid, pid > 0
}
