package procmap

import (
	"fmt"
	"strconv"
)

// Files reads small files in the directories of processes (man 5 proc), of which the kernel may
// keep readers waiting: a process that is kept in the middle of an exec does not keep the
// caller, that is an error. It is for the goroutine of its Reader.
type Files struct{ r *Reader }

// FilesOf returns Files that wait as long as a Reader does.
func FilesOf(r *Reader) Files { return Files{r} }

// Process reads a file of a process, up to 4,096 bytes, which are valid until the next call.
func (f Files) Process(pid int, name string) ([]byte, error) { return f.r.waits.look(pid, name, false) }

// Thread does the same for a thread of a process.
func (f Files) Thread(pid, tid int, name string) ([]byte, error) {
	return f.Process(pid, threadFile(tid, name))
}

// ThreadStat reads what a thread of a process is.
func (f Files) ThreadStat(pid, tid int) (Stat, error) {
	s, err := f.stat(pid, threadFile(tid, "stat"))
	if err != nil {
		return s, fmt.Errorf("reading the state of thread %d: %w", tid, err)
	}
	return s, nil
}

func threadFile(tid int, name string) string { return "task/" + strconv.Itoa(tid) + "/" + name }
