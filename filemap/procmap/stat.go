package procmap

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Stat is the contents of /proc/PID/stat (man proc_pid_stat).
type Stat struct {
	// Comm is the name, at most 15 bytes of anything (field 2).
	Comm string
	// StartTime is when the process began, in clock ticks since boot (field
	// 22). Together with the PID it is one process and no other.
	StartTime uint64
	// Parent is the PID of the parent (field 4): 0 if that is in no PID namespace of
	// ours.
	Parent int
	// State is the letter of field 3, 'Z' for a zombie.
	State byte
	// KernelThread: it has no user memory, and never had (PF_KTHREAD of field
	// 9).
	KernelThread bool
}

// hadMemory reports whether the process was one with user memory then.
func (s *Stat) hadMemory() bool { return !s.KernelThread && !s.Ended() }

// Ended reports whether the first thread of the process had ended then. The others may
// have gone on.
func (s *Stat) Ended() bool { return s.State == 'Z' }

// TaskComm returns the name as it is in the kernel (task_struct.comm). For its
// own threads /proc adds to it: to a worker "-WORK" or "+WORK" (wq_worker_comm
// in kernel/workqueue.c), to others what had no room.
func (s *Stat) TaskComm() string {
	const room = 15 // TASK_COMM_LEN less the NUL
	comm := s.Comm
	if s.KernelThread && strings.HasPrefix(comm, "kworker/") {
		pool := strings.IndexByte(comm, ':') + 1 // a rescuer, kworker/R-NAME, has none
		if end := strings.IndexAny(comm[pool:], "+-"); pool > 0 && end >= 0 {
			comm = comm[:pool+end]
		}
	}
	return comm[:min(len(comm), room)]
}

// Fields of /proc/PID/stat after the name, counted from the state.
const (
	statState     = 0
	statParent    = 1
	statFlags     = 6
	statStartTime = 19

	pfKthread = 0x00200000 // include/linux/sched.h
)

// Stat reads what a process is.
func (r *Reader) Stat(pid int) (Stat, error) {
	s, err := r.stat(pid)
	if err != nil {
		return s, fmt.Errorf("reading the state of process %d: %w", pid, err)
	}
	return s, nil
}

// stat reads /proc/PID/stat.
func (r *Reader) stat(pid int) (Stat, error) { return Files{r}.stat(pid, "stat") }

// stat reads a file like that in the directory of a process.
func (f Files) stat(pid int, name string) (Stat, error) {
	// Some 50 numbers of at most 20 digits.
	text, err := f.Process(pid, name)
	if err == unix.ENOENT || err == unix.ESRCH || err == nil && len(text) == 0 {
		return Stat{}, ErrGone
	}
	if err != nil {
		return Stat{}, err
	}
	s, comm, ok := parseStat(text)
	if !ok {
		return Stat{}, fmt.Errorf("no line of /proc/PID/stat: %q", text[:min(len(text), 100)])
	}
	s.Comm = f.r.names.Intern(comm)
	return s, nil
}

// parseStat reads a line of /proc/PID/stat. The name, in parentheses, may
// contain parentheses and line feeds; nothing after it does.
func parseStat(line []byte) (s Stat, comm []byte, ok bool) {
	open, end := bytes.IndexByte(line, '('), bytes.LastIndexByte(line, ')')
	if open < 0 || end < open {
		return s, nil, false
	}
	comm = line[open+1 : end]
	rest := bytes.TrimLeft(line[end+1:], " ")
	for i := 0; i <= statStartTime; i++ {
		field, after, more := bytes.Cut(rest, []byte(" "))
		if !more || len(field) == 0 {
			return s, nil, false
		}
		rest = after
		var err error
		switch i {
		case statState:
			s.State = field[0]
		case statParent:
			s.Parent, err = strconv.Atoi(string(field))
		case statFlags:
			var flags uint64
			flags, err = strconv.ParseUint(string(field), 10, 64)
			s.KernelThread = flags&pfKthread != 0
		case statStartTime:
			s.StartTime, err = strconv.ParseUint(string(field), 10, 64)
		}
		if err != nil {
			return s, nil, false
		}
	}
	return s, comm, true
}

// ThreadGroup returns the process that a thread belongs to: Tgid of
// /proc/TID/status.
func (r *Reader) ThreadGroup(tid int) (int, error) {
	fd, err := r.openOf(tid, "status")
	if err == unix.ENOENT || err == unix.ESRCH {
		err = ErrGone
	}
	if err != nil {
		return 0, &processError{tid, err}
	}
	defer unix.Close(fd)
	var b [512]byte // the line is the fourth or so
	n, err := readFD(fd, b[:])
	if err != nil {
		return 0, &processError{tid, err}
	}
	const key = "\nTgid:\t"
	if i := bytes.Index(b[:n], []byte(key)); i >= 0 {
		if pid, ok := number(b[i+len(key):][:max(0, bytes.IndexByte(b[i+len(key):n], '\n'))]); ok {
			return pid, nil
		}
	}
	return 0, &processError{tid, errors.New("its status has no Tgid")}
}
