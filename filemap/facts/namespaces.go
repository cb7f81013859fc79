package facts

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
)

// Namespaces reports whether we are in the initial namespaces of the kernel. The one of
// time counts as the initial one if its clocks are the same.
type Namespaces struct {
	PID, User, Time Namespace
}

// Namespace is one of them.
type Namespace uint8

// Values of Namespace. Unknown: the kernel has none of the kind, or does not
// report it.
const (
	Unknown Namespace = iota
	Initial
	Other
)

// Inode numbers of the initial namespaces (include/linux/proc_ns.h; uapi from
// Linux 6.18 on).
const (
	initialPID  = "pid:[4026531836]"
	initialUser = "user:[4026531837]"
)

var (
	// ErrForeignPIDs: what is known of a process would be taken for facts of another
	// one, and its files for the other's.
	ErrForeignPIDs = errors.New("a trace has the PIDs of the initial PID namespace, and we are in another one: " +
		"run ustack outside of the container, or the container with --pid=host")
	// ErrForeignClock: what a process has mapped would be taken for what it had at
	// another time.
	ErrForeignClock = errors.New("a trace has the clock of the initial time namespace, and ours is another one: " +
		"run ustack outside of the time namespace")
)

// AsInTraces returns nil if we have the PIDs and clocks of traces, as far as proc
// says, else ErrForeignPIDs or ErrForeignClock.
func AsInTraces(proc string) error {
	switch {
	case PIDNamespace(proc) == Other:
		return ErrForeignPIDs
	case TimeNamespace(proc) == Other:
		return ErrForeignClock
	}
	return nil
}

func (f mountPoint) namespaces() Namespaces {
	return Namespaces{PID: PIDNamespace(string(f)), User: f.namespace("self/ns/user", initialUser), Time: TimeNamespace(string(f))}
}

// PIDNamespace reports whether we are in the initial PID namespace, as proc says. A
// trace has the PIDs of the initial one, wherever it is read; perf and proc have
// the PIDs of ours.
func PIDNamespace(proc string) Namespace {
	return mountPoint(proc).namespace("self/ns/pid", initialPID)
}

// TimeNamespace reports whether we have the clocks of the initial time namespace, by
// the offsets that proc has (man 7 time_namespaces). The clocks of a trace and of perf
// are the initial ones, wherever they are read; clock_gettime(2) adds our offsets.
func TimeNamespace(proc string) Namespace {
	is := Unknown
	for line := range strings.Lines(mountPoint(proc).text("self/timens_offsets")) {
		fields := strings.Fields(line) // the clock, seconds, nanoseconds
		for _, offset := range fields[min(1, len(fields)):] {
			if offset != "0" {
				return Other
			}
			is = Initial
		}
	}
	return is
}

func (f mountPoint) namespace(link, initial string) Namespace {
	to, err := os.Readlink(filepath.Join(string(f), link))
	switch {
	case err != nil:
		return Unknown
	case to == initial:
		return Initial
	}
	return Other
}
