package tasks

import (
	"time"

	"golang.org/x/sys/unix"

	"ustack/filemap/bounded"
	"ustack/filemap/procmap"
	"ustack/filemap/threadcall"
	"ustack/tracefs"
)

// Kernel is the Asker of this machine.
type Kernel struct {
	reader *procmap.Reader
	calls  *bounded.Calls // of kcmp
	places *threadcall.Places
}

// NewKernel returns a Kernel. The Reader must be for executable mappings.
func NewKernel(r *procmap.Reader) *Kernel {
	return &Kernel{reader: r, calls: bounded.New(compareWait), places: threadcall.New(r)}
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

// Outside implements Asker.
func (k *Kernel) Outside(pid, tid int, since tracefs.Time) Place {
	return k.places.Find(pid, tid, since)
}
