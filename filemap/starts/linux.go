package starts

import (
	"encoding/binary"
	"fmt"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"ustack/filemap/procmap"
	"ustack/filemap/procmem"
	"ustack/tracefs"
	"ustack/tracefs/privilege"
)

// linux asks the kernel.
type linux struct {
	stat   *procmap.Reader
	reader *procmem.Reader
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
	return &Reader{machine: &linux{stat: stat, reader: procmem.New(0), boot: boot}, lives: lives}, nil
}

func (l *linux) now() tracefs.Time { return clock(unix.CLOCK_MONOTONIC) }

func clock(id int32) tracefs.Time {
	var ts unix.Timespec
	if err := unix.ClockGettime(id, &ts); err != nil {
		return 0 // cannot be: every kernel has these clocks
	}
	return tracefs.Time(ts.Nano())
}

// list is by get_robust_list(2).
func (l *linux) list(tid int) (head uint64, err error) {
	var size uint64
	if tid <= 0 { // 0 would be this thread
		return 0, unix.ESRCH
	}
	defer privilege.Raise(privilege.Processes).Lower()
	if _, _, errno := unix.Syscall(unix.SYS_GET_ROBUST_LIST, uintptr(tid), uintptr(unsafe.Pointer(&head)), uintptr(unsafe.Pointer(&size))); errno != 0 {
		return 0, fmt.Errorf("asking where the robust list of thread %d is: %w", tid, errno)
	}
	return head, nil
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
