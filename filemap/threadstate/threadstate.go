// Package threadstate reads what the threads of a process do at this moment: run, or
// wait in which system call.
//
// It reads stat, syscall and auxv of proc (man 5 proc), none of which waits for the
// process.
package threadstate

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
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

// maxRead is how many bytes of a file are read at most.
const maxRead = 4096

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

// Reader reads processes.
type Reader struct {
	Proc string // where proc is mounted
	// Call returns the name of a system call of a 64-bit program, "" if it is unknown.
	Call func(nr int32) string
}

// Read reads a process. The threads are counted by what they do, the most frequent
// first. errors.Is(err, ErrEnded) if the process has ended.
func (r *Reader) Read(pid int) (*Process, error) {
	dir := filepath.Join(r.Proc, strconv.Itoa(pid))
	name, state, err := r.stat(dir)
	if err != nil {
		return nil, err
	}
	p := &Process{PID: pid, Name: name}
	if state == 'Z' || state == 'X' {
		return p, ErrEnded
	}
	call := r.Call
	if r.is32Bit(dir) {
		call = func(int32) string { return "" }
	}
	tids, err := threads(filepath.Join(dir, "task"))
	if err != nil {
		return p, err
	}
	counts := map[string]int{}
	for _, tid := range tids {
		if what := r.thread(filepath.Join(dir, "task", tid), call); what != "" {
			counts[what]++
			p.Threads++
		}
	}
	for what, n := range counts {
		p.Do = append(p.Do, Count{what, n})
	}
	slices.SortFunc(p.Do, func(a, b Count) int {
		return cmp.Or(-cmp.Compare(a.Threads, b.Threads), cmp.Compare(a.What, b.What))
	})
	if p.Threads == 0 {
		return p, ErrEnded
	}
	return p, nil
}

// threads lists the threads in a directory.
func threads(dir string) ([]string, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, ended(err)
	}
	defer d.Close()
	names, err := d.Readdirnames(MaxThreads)
	if err != nil && err != io.EOF {
		return nil, ended(err)
	}
	return names, nil
}

// thread returns what a thread does, "" if it has ended.
func (r *Reader) thread(dir string, call func(int32) string) string {
	_, state, err := r.stat(dir)
	switch {
	case err != nil || state == 'Z' || state == 'X':
		return ""
	case state == 'R':
		return Running
	case state == 'T' || state == 't':
		return Stopped
	}
	text, err := read(filepath.Join(dir, "syscall"))
	if err != nil {
		return Unknown // the rights, or a kernel without this file
	}
	return doing(text, call)
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

// stat returns the name and the state of a process or thread.
func (r *Reader) stat(dir string) (name string, state byte, err error) {
	text, err := read(filepath.Join(dir, "stat"))
	if err != nil {
		return "", 0, ended(err)
	}
	// "PID (NAME) S …": a name can hold parentheses.
	open, end := bytes.IndexByte(text, '('), bytes.LastIndex(text, []byte(") "))
	if open < 0 || end < open || end+2 >= len(text) {
		return "", 0, fmt.Errorf("reading %s/stat: no state in it", dir)
	}
	return string(text[open+1 : end]), text[end+2], nil
}

// is32Bit reports whether a program is a 32-bit one, whose system calls have other
// numbers: its auxiliary vector has values of four bytes (man 3 getauxval).
func (r *Reader) is32Bit(dir string) bool {
	text, err := read(filepath.Join(dir, "auxv"))
	const word = 4
	return err == nil && len(text) >= 2*word && !bytes.Equal(text[word:2*word], make([]byte, word))
}

// read reads a small file.
func read(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxRead))
}

// ended says of a file that is no more that its process has ended.
func ended(err error) error {
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		return ErrEnded
	}
	return err
}
