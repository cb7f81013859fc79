package threadentry

import (
	"encoding/binary"
	"fmt"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"ustack/filemap/bounded"
	"ustack/filemap/procmap"
	"ustack/filemap/procmem"
	"ustack/tracefs"
	"ustack/tracefs/privilege"
)

// linux asks the kernel.
type linux struct {
	stat   *procmap.Reader
	reader *procmem.Reader
	calls  *bounded.Calls
	boot   tracefs.Time // what the clock of the times that threads began at is ahead, at least
}

// NewReader returns a Reader of the threads that a proc file system shows; "" means
// /proc. It must show our own PID namespace, which must be the trace's. lives may be
// nil: then it is unknown when threads began and ended.
func NewReader(proc string, lives Lives) (*Reader, error) {
	stat, err := procmap.NewReader(procmap.Options{Proc: proc, Source: procmap.Text})
	if err != nil {
		return nil, err
	}
	// It only grows, while the machine sleeps. The time between the two readings
	// makes it too small.
	var boot tracefs.Time
	const tries = 8
	for range tries {
		boot = max(boot, clock(unix.CLOCK_BOOTTIME)-clock(unix.CLOCK_MONOTONIC))
	}
	return &Reader{machine: &linux{stat: stat, reader: procmem.New(0), calls: bounded.New(listWait), boot: boot}, lives: lives}, nil
}

func (l *linux) now() tracefs.Time { return clock(unix.CLOCK_MONOTONIC) }

func clock(id int32) tracefs.Time {
	var ts unix.Timespec
	if err := unix.ClockGettime(id, &ts); err != nil {
		return 0 // cannot be: every kernel has these clocks
	}
	return tracefs.Time(ts.Nano())
}

// listWait is how long asking for a list may take: the kernel waits for a process in the
// middle of an exec (get_robust_list in kernel/futex/syscalls.c), which a file system in
// user space can hold up.
const listWait = 200 * time.Millisecond

// list is by get_robust_list(2).
func (l *linux) list(tid int) (head uint64, err error) {
	if tid <= 0 { // 0 would be this thread
		return 0, unix.ESRCH
	}
	asked := &struct{ head, size uint64 }{} // the call may go on without us
	got := make(chan error, 1)
	if err = l.calls.Do(func() {
		defer privilege.Raise(privilege.Processes).Lower()
		_, _, errno := unix.Syscall(unix.SYS_GET_ROBUST_LIST, uintptr(tid), uintptr(unsafe.Pointer(&asked.head)), uintptr(unsafe.Pointer(&asked.size)))
		if errno != 0 {
			got <- errno
			return
		}
		got <- nil
	}); err == nil {
		err = <-got
	}
	if err != nil {
		return 0, fmt.Errorf("asking where the robust list of thread %d is: %w", tid, err)
	}
	return asked.head, nil
}

// memory is read with a time limit.
func (l *linux) memory(tid int, a uint64, toA []byte, b uint64, toB []byte) error {
	return l.reader.Read(tid, procmem.Part{Addr: a, To: toA}, procmem.Part{Addr: b, To: toB})
}

// tick is the precision of the start times of threads: USER_HZ is 100 everywhere.
const tick = tracefs.Time(time.Second / 100)

// began is by field 22 of /proc/TID/stat (proc_pid_stat(5)): by the tick in which it
// began. If the machine has slept since the Reader was made, both times are late.
func (l *linux) began(tid int) (earliest, latest tracefs.Time, err error) {
	st, err := l.stat.Stat(tid)
	if err != nil {
		return 0, 0, err
	}
	const most = 1 << 40 // centuries
	earliest = tracefs.Time(min(st.StartTime, most))*tick - l.boot
	return earliest, earliest + tick, nil
}

func word(b []byte) uint64 { return binary.NativeEndian.Uint64(b) }
