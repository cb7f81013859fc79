// Package threadcall finds out whether a thread can be in a system call that changes what its
// process has mapped. Tracing shows such a call by its entry: a call whose entry was not
// traced, because it was under way before, must be known to be over.
package threadcall

import (
	"bytes"
	"errors"
	"io/fs"
	"strconv"

	"golang.org/x/sys/unix"

	"ustack/filemap/procmap"
	"ustack/filemap/space"
	"ustack/tracefs"
)

// Place is where a thread is.
type Place uint8

// Where a thread can be found to be.
const (
	Elsewhere Place = iota // outside of calls that can change the memory
	Inside                 // in such a call, perhaps
	NoThread               // there is no such thread
)

// Places finds threads. It is for one goroutine, that of its Reader. A process that is kept in
// the middle of an exec does not keep it: its threads may be in any call.
type Places struct {
	files procmap.Files
	ran   map[int]running
}

// running is for how long a thread had run, in nanoseconds, when it was found running first.
type running struct {
	at  tracefs.Time
	ran uint64
}

// New returns Places for the proc file system of a Reader.
func New(r *procmap.Reader) *Places {
	return &Places{files: procmap.FilesOf(r), ran: make(map[int]running)}
}

// Hidden reports whether the kernel does not show us in which call a thread is
// (kernel.yama.ptrace_scope, say).
func (k *Places) Hidden(pid, tid int) bool {
	_, err := k.files.Thread(pid, tid, "syscall")
	return errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist) && k.there(pid, tid)
}

// changing are the calls that change what code a process has, by number.
var changing = map[int64]bool{
	unix.SYS_MMAP: true, unix.SYS_MUNMAP: true, unix.SYS_MPROTECT: true, unix.SYS_PKEY_MPROTECT: true, unix.SYS_MREMAP: true,
	unix.SYS_REMAP_FILE_PAGES: true, unix.SYS_SHMAT: true, unix.SYS_SHMDT: true, unix.SYS_EXECVE: true, unix.SYS_EXECVEAT: true,
	unix.SYS_BRK: true, unix.SYS_IO_DESTROY: true,
}

// enough is for how long a thread has run, in nanoseconds, that is in none of these calls: none
// takes so much before it changes something. The memory that munmap frees it frees later.
const enough = 20e6

// Find finds out where a thread is: one that waits shows in which call (/proc/PID/syscall,
// man 5 proc), one that runs for how long it has. It is compared with an earlier time at
// which it was found, if that was after since.
func (k *Places) Find(pid, tid int, since tracefs.Time) Place {
	at := space.Monotonic()
	text, err := k.files.Thread(pid, tid, "syscall")
	word, _, _ := bytes.Cut(bytes.TrimSpace(text), []byte(" "))
	nr, nerr := strconv.ParseInt(string(word), 10, 64)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !k.there(pid, tid), errors.Is(err, unix.ESRCH):
		return NoThread
	case err == nil && nerr == nil && changing[nr]:
		return Inside
	case err == nil && nerr == nil:
		delete(k.ran, tid)
		return Elsewhere
	}
	text, err = k.files.Thread(pid, tid, "schedstat")
	word, _, _ = bytes.Cut(text, []byte(" "))
	ran, nerr := strconv.ParseUint(string(word), 10, 64)
	if err != nil || nerr != nil {
		return Inside // which cannot be known
	}
	first, known := k.ran[tid]
	if !known || first.at < since || ran < first.ran {
		if len(k.ran) >= maxRan {
			clear(k.ran)
		}
		k.ran[tid] = running{at, ran}
		return Inside
	}
	if ran-first.ran < enough {
		return Inside
	}
	delete(k.ran, tid)
	return Elsewhere
}

// maxRan bounds the threads that are remembered.
const maxRan = 1 << 16

func (k *Places) there(pid, tid int) bool {
	_, err := k.files.Thread(pid, tid, "comm")
	return err == nil
}
