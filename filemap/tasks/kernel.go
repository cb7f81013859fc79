package tasks

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"ustack/filemap/bounded"
	"ustack/filemap/procmap"
	"ustack/filemap/space"
	"ustack/tracefs"
	"ustack/tracefs/privilege"
)

// Kernel is the Asker of this machine.
type Kernel struct {
	reader *procmap.Reader
	calls  *bounded.Calls // of kcmp
	ran    map[int]running
}

// running is for how long a thread had run, in nanoseconds, when it was found running first.
type running struct {
	at  tracefs.Time
	ran uint64
}

// NewKernel returns a Kernel. The Reader must be for executable mappings.
func NewKernel(r *procmap.Reader) *Kernel {
	return &Kernel{reader: r, calls: bounded.New(compareWait), ran: make(map[int]running)}
}

// Code implements Asker.
func (k *Kernel) Code(pid int, start, end uint64, list []procmap.Mapping) ([]procmap.Mapping, error) {
	if start == whole.start && end == whole.end {
		var p procmap.Process
		err := k.reader.Process(pid, &p)
		return append(list, p.Mappings...), err
	}
	h, err := k.reader.Open(pid)
	if err != nil {
		return list, err
	}
	defer h.Close()
	for at := start; at < end; {
		m, ok, err := h.Next(at)
		if err != nil || !ok || m.Start >= end {
			return list, err
		}
		list = append(list, m)
		at = m.End
	}
	return list, nil
}

// PIDs implements Asker.
func (k *Kernel) PIDs() ([]int, error) { return k.reader.PIDs() }

// Threads implements Asker.
func (k *Kernel) Threads(pid int) ([]int, error) { return k.reader.Threads(pid) }

// ThreadGroup implements Asker.
func (k *Kernel) ThreadGroup(tid int) (int, error) { return k.reader.ThreadGroup(tid) }

// compareWait is how long a comparison may take: kcmp waits for a process that is in the
// middle of an exec (kcmp_lock in kernel/kcmp.c), which a server of a file can hold up.
const compareWait = 250 * time.Millisecond

// kcmpVM is KCMP_VM (include/uapi/linux/kcmp.h).
const kcmpVM = 1

// Compare implements Asker. Where the kernel has no kcmp, no processes share their memory.
func (k *Kernel) Compare(a, b int) (order int, ok bool) {
	type answer struct {
		order uintptr
		errno unix.Errno
	}
	got := make(chan answer, 1)
	if k.calls.Do(func() {
		order, _, errno := unix.Syscall6(unix.SYS_KCMP, uintptr(a), uintptr(b), kcmpVM, 0, 0, 0)
		got <- answer{order, errno}
	}) != nil {
		return 0, false
	}
	const equal, less, greater = 0, 1, 2
	switch v := <-got; {
	case v.errno == unix.ENOSYS, v.errno == 0 && v.order > greater:
		return a - b, true
	case v.errno != 0:
		return 0, false
	case v.order == greater:
		return 1, true
	default:
		return -int(v.order), true // equal or less
	}
}

// changing are the calls of Events that change a memory, by number.
var changing = map[int64]bool{
	unix.SYS_MMAP: true, unix.SYS_MUNMAP: true, unix.SYS_MPROTECT: true, unix.SYS_PKEY_MPROTECT: true, unix.SYS_MREMAP: true,
	unix.SYS_REMAP_FILE_PAGES: true, unix.SYS_SHMAT: true, unix.SYS_SHMDT: true, unix.SYS_EXECVE: true, unix.SYS_EXECVEAT: true,
}

// enough is for how long a thread has run, in nanoseconds, that is in none of these calls: none
// takes so much before it changes something. The memory that munmap frees it frees later.
const enough = 20e6

// Outside implements Asker: a thread that waits shows in which call (/proc/PID/syscall, man 5
// proc), one that runs how long it has.
func (k *Kernel) Outside(pid, tid int, since tracefs.Time) Place {
	at := space.Monotonic()
	text, err := k.read(pid, tid, "syscall")
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
	text, err = k.read(pid, tid, "schedstat")
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

func (k *Kernel) there(pid, tid int) bool {
	_, err := k.read(pid, tid, "comm")
	return err == nil
}

// read reads a file of a thread.
func (k *Kernel) read(pid, tid int, name string) ([]byte, error) {
	proc := k.reader.Proc()
	defer privilege.RaiseIn(proc).Lower()
	return os.ReadFile(filepath.Join(proc, strconv.Itoa(pid), "task", strconv.Itoa(tid), name))
}
