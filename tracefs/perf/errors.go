package perf

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Reasons why an event cannot be opened.
var (
	// ErrDenied: we may not watch all processes of a CPU.
	ErrDenied = errors.New("needs CAP_PERFMON (or CAP_SYS_ADMIN, or the sysctl kernel.perf_event_paranoid at 0 or less, and no seccomp filter on perf_event_open)")
	// ErrUnsupported: the kernel has no perf events, or none of this kind.
	ErrUnsupported = errors.New("this kernel has no perf events of the kind (Linux 4.1 and later, CONFIG_PERF_EVENTS)")
	// ErrClock: perf has no clock equal to the trace's.
	ErrClock = errors.New("perf has no such clock")
	// ErrMemory: the kernel gives us no memory for the rings.
	ErrMemory = errors.New("the rings need locked memory: raise the sysctl kernel.perf_event_mlock_kb, or RLIMIT_MEMLOCK (ulimit -l), or have CAP_IPC_LOCK, or ask for smaller rings")
	// ErrFilter: the kernel does not take a filter.
	ErrFilter = errors.New("the kernel refuses the filter")
)

// Refusal explains an error of perf_event_open(2): the error wraps ErrDenied or
// ErrUnsupported where one of them is the reason.
func Refusal(err error) error {
	switch {
	case errors.Is(err, ErrFilter):
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		return fmt.Errorf("%w: %w", ErrDenied, err)
	case errors.Is(err, unix.ENOSYS), errors.Is(err, unix.ENOENT), errors.Is(err, unix.EINVAL),
		errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.E2BIG):
		return fmt.Errorf("%w: %w", ErrUnsupported, err)
	}
	return err
}
