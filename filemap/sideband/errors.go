package sideband

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Why there is no side band.
var (
	// ErrDenied: we may not watch all processes of a CPU.
	ErrDenied = errors.New("needs CAP_PERFMON (or CAP_SYS_ADMIN, or the sysctl kernel.perf_event_paranoid at 0 or less, and no seccomp filter on perf_event_open)")
	// ErrUnsupported: the kernel has no perf events, or no such ones.
	ErrUnsupported = errors.New("this kernel has no perf events of the kind (Linux 4.1 and later, CONFIG_PERF_EVENTS)")
	// ErrClock: perf has no clock equal to the trace's.
	ErrClock = errors.New("perf has no such clock")
	// ErrMemory: the kernel gives us no memory for the rings.
	ErrMemory = errors.New("the rings need locked memory: raise the sysctl kernel.perf_event_mlock_kb, or RLIMIT_MEMLOCK (ulimit -l), or have CAP_IPC_LOCK, or ask for smaller rings")
)

// Unavailable reports whether an error of Open says that there is no side band
// for us here, and one has to do without. Other errors have to be told: what
// they complain of can be helped.
func Unavailable(err error) bool {
	return errors.Is(err, ErrDenied) || errors.Is(err, ErrUnsupported)
}

// openError says what perf_event_open(2) refused.
func openError(cpu int, err error) error {
	switch err {
	case unix.EACCES, unix.EPERM:
		err = fmt.Errorf("%w: %w", ErrDenied, err)
	case unix.ENOSYS, unix.ENOENT, unix.EINVAL, unix.EOPNOTSUPP, unix.E2BIG:
		err = fmt.Errorf("%w: %w", ErrUnsupported, err)
	}
	return fmt.Errorf("opening the perf side band of CPU %d: %w", cpu, err)
}
