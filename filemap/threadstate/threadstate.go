// Package threadstate reads what the threads of a process do at this moment: run, or
// wait in which system call.
//
// It reads stat, syscall and auxv of proc (man 5 proc). A process that is kept in the middle
// of an exec does not keep it.
package threadstate

import (
	"cmp"
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"ustack/filemap/auxv"
	"ustack/filemap/callsite"
	"ustack/filemap/procmap"
	"ustack/tracefs/sorting"
)

// Words for what a thread does when it is in no system call.
const (
	Running = "running"
	Stopped = "stopped"
	// Unknown: the kernel does not say.
	Unknown = "unknown"
	// Exception: it waits in the kernel without a system call, for a page of a file.
	Exception = "no system call"
)

// MaxThreads is the number of threads of a process that are read at most.
const MaxThreads = 1000

// Process is what the threads of a process do.
type Process struct {
	PID     int
	Name    string // of its first thread (TASK_COMM_LEN); can hold control characters
	Threads int    // that were read, at most MaxThreads
	Do      []Count
}

// Count is how many threads do something.
type Count struct {
	What    string // a system call without "sys_", or one of the words above
	Threads int
}

// ErrEnded is the error for a process that has ended.
var ErrEnded = errors.New("it has ended")

// Reader reads processes. It is for one goroutine.
type Reader struct {
	Processes *procmap.Reader
	// Call returns the name of a system call of a 64-bit program, "" if it is unknown.
	Call func(nr int32) string
	// Code reads the memory of a process. On x86 the instruction before a thread shows whether its
	// call is one of 32 bits, whose numbers are other ones: it has no name then. It may be nil.
	Code func(pid int, addr uint64, b []byte) error
}

// Read reads a process. The threads are counted by what they do, the most frequent
// first. errors.Is(err, ErrEnded) if the process has ended.
func (r *Reader) Read(pid int) (*Process, error) {
	stat, err := r.Processes.Stat(pid)
	if err != nil {
		return nil, ended(err)
	}
	p := &Process{PID: pid, Name: stat.Comm}
	tids, err := r.Processes.Threads(pid)
	if err != nil {
		return p, ended(err)
	}
	call := r.Call
	if vector, err := procmap.FilesOf(r.Processes).Process(pid, "auxv"); err == nil && auxv.Width(vector) == 4 {
		call = func(int32) string { return "" } // a 32-bit program's calls have other numbers
	}
	counts := map[string]int{}
	for _, tid := range tids[:min(len(tids), MaxThreads)] {
		if what := r.thread(pid, tid, call); what != "" {
			counts[what]++
			p.Threads++
		}
	}
	for what, n := range counts {
		p.Do = append(p.Do, Count{what, n})
	}
	sorting.Func(p.Do, func(a, b Count) int {
		return cmp.Or(-cmp.Compare(a.Threads, b.Threads), cmp.Compare(a.What, b.What))
	})
	if p.Threads == 0 {
		return p, ErrEnded
	}
	return p, nil
}

// thread returns what a thread does, "" if it has ended.
func (r *Reader) thread(pid, tid int, call func(int32) string) string {
	stat, err := procmap.FilesOf(r.Processes).ThreadStat(pid, tid)
	switch {
	case errors.Is(err, procmap.ErrGone), err == nil && (stat.State == 'Z' || stat.State == 'X'):
		return ""
	case err != nil:
		return Unknown
	case stat.State == 'R':
		return Running
	case stat.State == 'T' || stat.State == 't':
		return Stopped
	}
	text, err := procmap.FilesOf(r.Processes).Thread(pid, tid, "syscall")
	if err != nil {
		return Unknown // the rights, or a kernel without this file
	}
	return doing(text, func(nr int32) string {
		if r.narrow(pid, text) {
			return ""
		}
		return call(nr)
	})
}

// narrow reports whether a thread has made a call by another instruction than syscall, or one that
// cannot be read. The last number of its file "syscall" is where it goes on.
func (r *Reader) narrow(pid int, text []byte) bool {
	if r.Code == nil {
		return false
	}
	all := strings.Fields(string(text))
	pc, err := strconv.ParseUint(all[len(all)-1], 0, 64)
	var code [2]byte
	size := uint64(len(code))
	return err != nil || pc < size || r.Code(pid, pc-size, code[:]) != nil || callsite.EntryOf(elf.EM_X86_64, code[:]) != callsite.Own
}

// doing returns what a thread does by its file "syscall": "running", or the number of a
// system call, "-1" for none, and more (fs/proc/base.c: proc_pid_syscall).
func doing(text []byte, call func(int32) string) string {
	first, _, _ := strings.Cut(strings.TrimSpace(string(text)), " ")
	if first == "running" {
		return Running
	}
	nr, err := strconv.ParseInt(first, 10, 32)
	switch {
	case err != nil:
		return Unknown
	case nr == -1:
		return Exception
	}
	if name := call(int32(nr)); name != "" {
		return name
	}
	return fmt.Sprintf("system call %d", nr)
}

// ended says of a process that is no more that it has ended.
func ended(err error) error {
	if errors.Is(err, procmap.ErrGone) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		return ErrEnded
	}
	return err
}
