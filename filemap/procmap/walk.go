package procmap

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"golang.org/x/sys/unix"

	"ustack/tracefs/privilege"
	"ustack/tracefs/sorting"
)

// Counts is what became of the processes of a walk.
type Counts struct {
	// Processes were read; they have so many Mappings.
	Processes, Mappings int
	// NoMemory are kernel threads and zombies.
	NoMemory int
	// Gone ended before they were read.
	Gone int
	// Denied may not be read by us (see CanTrace).
	Denied int
	// Failed could not be read for another reason, the first of which is Err.
	Failed int
	Err    error
}

// Add counts the attribution of reading a process.
func (c *Counts) Add(p *Process, err error) {
	switch {
	case err == nil:
		c.Processes++
		c.Mappings += len(p.Mappings)
	case errors.Is(err, ErrNoMemory):
		c.NoMemory++
	case errors.Is(err, ErrGone):
		c.Gone++
	case errors.Is(err, fs.ErrPermission):
		c.Denied++
	default:
		c.Failed++
		if c.Err == nil {
			c.Err = err
		}
	}
}

// Walk reads the mappings of processes, all of them, in order of their PIDs, if
// pids is nil. fn is called with each, or with why it could not be read; p is
// valid during the call. The walk goes on whatever happens to a process, and
// ends early only if fn returns an error.
func (r *Reader) Walk(pids []int, fn func(p *Process, err error) error) (Counts, error) {
	var c Counts
	list, err := r.list(pids)
	if err != nil {
		return c, err
	}
	r.nextRound()
	defer r.opt.IDs.endRound()
	var p Process
	for _, e := range list {
		err := r.listed(e, &p)
		if err != nil {
			err = &processError{e.number, err}
		}
		c.Add(&p, err)
		if err := fn(&p, err); err != nil {
			return c, err
		}
	}
	return c, nil
}

// list lists the processes to walk. The result is the walk's own.
func (r *Reader) list(pids []int) ([]entry, error) {
	if pids == nil {
		all, err := r.listProcesses()
		return slices.Clone(all), err
	}
	list := make([]entry, len(pids))
	for i, pid := range pids {
		list[i].number = pid
	}
	return list, nil
}

// listed reads a process of a list. Kernel threads are many, stay, and have no
// memory: one that was seen is known by the inode number of its directory, which a
// process that gets its PID does not have.
func (r *Reader) listed(e entry, p *Process) error {
	if e.inode != 0 && r.kernel[e.number] == e.inode {
		p.PID, p.Mappings, p.Stat = e.number, p.Mappings[:0], Stat{}
		return ErrNoMemory
	}
	err := r.process(e.number, p)
	switch {
	case err != ErrNoMemory && !isDenied(err):
		return err
	case !r.isKernelThread(e.number):
		return err
	}
	const maxKernel = 1 << 16
	if r.kernel == nil || len(r.kernel) >= maxKernel {
		r.kernel = make(map[int]uint64)
	}
	r.kernel[e.number] = e.inode
	return ErrNoMemory
}

// isDenied is errors.Is(err, fs.ErrPermission) for an error that is not wrapped.
func isDenied(err error) bool { return err == unix.EACCES || err == unix.EPERM }

// isKernelThread reports whether a process that we may not read has nothing to read
// anyway. It needs no rights.
func (r *Reader) isKernelThread(pid int) bool {
	s, err := r.stat(pid)
	return err == nil && s.KernelThread
}

// PIDs lists the processes, in order.
func (r *Reader) PIDs() ([]int, error) {
	list, err := r.listProcesses()
	return numbersOf(list), err
}

func (r *Reader) listProcesses() ([]entry, error) {
	list, err := r.listNumbers(r.opt.Proc)
	if err != nil {
		return nil, fmt.Errorf("listing the processes: %w", err)
	}
	return list, nil
}

// CanTrace reports whether we have CAP_SYS_PTRACE, which reading the mappings of
// others' processes needs. With it the kernel refuses only what a security
// module or another user namespace protects.
func CanTrace() bool { return privilege.Held().Has(unix.CAP_SYS_PTRACE) }

// Threads lists the threads of a process, in order.
func (r *Reader) Threads(pid int) ([]int, error) {
	r.setPath(pid, "task")
	list, err := r.listNumbers(string(r.path))
	if err != nil {
		return nil, fmt.Errorf("listing the threads of process %d: %w", pid, err)
	}
	return numbersOf(list), nil
}

// entry is an entry of a directory of proc that is a number.
type entry struct {
	number int
	inode  uint64
}

func numbersOf(list []entry) []int {
	numbers := make([]int, len(list))
	for i, e := range list {
		numbers[i] = e.number
	}
	return numbers
}

// listNumbers lists the entries of a directory that are numbers, in order. The
// result is valid until the next call.
func (r *Reader) listNumbers(dir string) ([]entry, error) {
	defer r.raise().Lower()
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	if r.entries == nil {
		r.entries = make([]byte, 16<<10)
	}
	list := r.numbers[:0]
	for {
		n, err := unix.Getdents(fd, r.entries)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return nil, err
		}
		if n == 0 {
			break
		}
		list = appendNumbers(list, r.entries[:n])
	}
	r.numbers = list
	sorting.Func(list, func(a, b entry) int { return cmp.Compare(a.number, b.number) })
	return list, nil
}

// appendNumbers appends the entries of struct linux_dirent64 (man getdents64)
// that are numbers.
func appendNumbers(list []entry, entries []byte) []entry {
	const inodeAt, lengthAt, nameAt = 0, 16, 19
	for len(entries) > nameAt {
		size := int(binary.NativeEndian.Uint16(entries[lengthAt:]))
		if size <= nameAt || size > len(entries) {
			break
		}
		name, _, _ := bytes.Cut(entries[nameAt:size], []byte{0})
		if v, ok := number(name); ok {
			list = append(list, entry{v, binary.NativeEndian.Uint64(entries[inodeAt:])})
		}
		entries = entries[size:]
	}
	return list
}

// number reads a PID.
func number(s []byte) (int, bool) {
	v := 0
	if len(s) == 0 || len(s) > 9 {
		return 0, false
	}
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
		v = v*10 + int(s[i]-'0')
	}
	return v, true
}

// Exe returns the path of the program that a process runs, "" if it has none or
// may not be asked.
func (r *Reader) Exe(pid int) string {
	path, err := r.waits.look(pid, "exe", true)
	if err != nil {
		return ""
	}
	return string(path)
}
