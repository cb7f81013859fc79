// Package privilege keeps the capabilities that the program's file gives (man 7
// capabilities, "File capabilities") away from what its user names.
//
// With them any user of the program traces, and reads what processes have
// mapped. The same capabilities open every file of the machine: so they are not
// in effect, but where the kernel's tracing interface, perf or a process is
// opened, and there for as long as that takes, in the one thread that does it.
// Files that the user names, and files that a trace names, are opened with the
// rights of the user.
//
// For root, and for users who have been given capabilities themselves (by their
// service manager, say), all this does nothing.
package privilege

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Set is a set of capabilities, a bit each.
type Set uint64

// Sets that the kernel asks for.
const (
	// Tracing is for tracefs, which is root's alone. The kernel asks for nothing
	// but the rights to its files.
	Tracing Set = 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_DAC_READ_SEARCH
	// Perf is for perf_event_open(2) and its memory.
	Perf Set = 1<<unix.CAP_PERFMON | 1<<unix.CAP_SYS_ADMIN | 1<<unix.CAP_IPC_LOCK
	// Processes is for the files of processes in /proc, and for their memory.
	Processes Set = 1<<unix.CAP_SYS_PTRACE | 1<<unix.CAP_CHECKPOINT_RESTORE | 1<<unix.CAP_SYS_ADMIN | Tracing
)

// Has reports whether the set has a capability, by its number (unix.CAP_*).
func (s Set) Has(capability int) bool { return s>>capability&1 != 0 }

// sets are the capability sets of a thread.
type sets struct{ effective, permitted, inheritable Set }

const header = unix.LINUX_CAPABILITY_VERSION_3

// current returns the sets of this thread.
func current() (s sets, err error) {
	head := unix.CapUserHeader{Version: header}
	var data [2]unix.CapUserData // capabilities 0 to 31, and 32 to 63
	if err := unix.Capget(&head, &data[0]); err != nil {
		return s, fmt.Errorf("reading our capabilities: %w", err)
	}
	join := func(low, high uint32) Set { return Set(low) | Set(high)<<32 }
	return sets{join(data[0].Effective, data[1].Effective), join(data[0].Permitted, data[1].Permitted),
		join(data[0].Inheritable, data[1].Inheritable)}, nil
}

// kernel returns how capset(2) takes sets.
func (s sets) kernel() (unix.CapUserHeader, [2]unix.CapUserData) {
	low := unix.CapUserData{Effective: uint32(s.effective), Permitted: uint32(s.permitted), Inheritable: uint32(s.inheritable)}
	high := unix.CapUserData{Effective: uint32(s.effective >> 32), Permitted: uint32(s.permitted >> 32), Inheritable: uint32(s.inheritable >> 32)}
	return unix.CapUserHeader{Version: header}, [2]unix.CapUserData{low, high}
}

// apply sets the capabilities of this thread.
func (s sets) apply() error {
	head, data := s.kernel()
	if err := unix.Capset(&head, &data[0]); err != nil {
		return fmt.Errorf("setting our capabilities: %w", err)
	}
	return nil
}

// applyAll sets the capabilities of all threads. Programs with C code in them
// cannot.
func (s sets) applyAll() error {
	head, data := s.kernel()
	if _, _, errno := syscall.AllThreadsSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&head)), uintptr(unsafe.Pointer(&data[0])), 0); errno != 0 {
		return fmt.Errorf("setting our capabilities: %w", errno)
	}
	return nil
}

// ErrSetID: the file of the program has the set-user-ID or set-group-ID bit.
var ErrSetID = errors.New("the program must not be set-user-ID or set-group-ID: run it as root, or see ustack doctor")

// Start has to be called before all else. If the program's file has given us
// capabilities, none is in effect from then on but where Raise says so; without
// keep they are gone for good. An error means that they may be in effect.
func Start(keep bool) error {
	if os.Getuid() != os.Geteuid() || os.Getgid() != os.Getegid() {
		return ErrSetID
	}
	if os.Getuid() == 0 || !byFile() {
		return nil
	}
	has, err := current()
	if err != nil {
		return err
	}
	var want sets
	if keep {
		want.permitted = has.permitted & (Tracing | Perf | Processes)
	}
	if has == want {
		return nil
	}
	err = want.applyAll()
	switch {
	case errors.Is(err, unix.ENOTSUP) && has.effective == 0:
		return nil // a build with C code; none is in effect but where it is raised
	case err == nil && !keep:
		// There is nothing left that our user must not see: our files in /proc are
		// the user's again (man 2 PR_SET_DUMPABLE).
		err = unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0)
	}
	return err
}

// byFile reports whether the program's file has given us rights that its user
// does not have. The kernel says so (AT_SECURE in man 3 getauxval).
func byFile() bool {
	const secure = 23 // AT_SECURE, include/uapi/linux/auxvec.h
	vector, err := unix.Auxv()
	if err != nil {
		return true
	}
	for _, v := range vector {
		if v[0] == secure {
			return v[1] != 0
		}
	}
	return true
}

// Held returns the capabilities that we have, in effect or for Raise.
func Held() Set {
	s, err := current()
	if err != nil {
		return 0
	}
	return s.permitted
}

// raisable are the capabilities that we have, and that are not in effect.
var raisable = sync.OnceValue(func() Set {
	s, err := current()
	if err != nil {
		return 0
	}
	return s.permitted &^ s.effective
})

// Proc is where the files of processes are opened with our rights. In a directory
// that the user has named, they are not.
const Proc = "/proc"

// RaiseIn puts the rights to processes into effect, as Raise does, for a file of a
// proc file system, if that is at Proc.
func RaiseIn(proc string) Raised {
	if proc != Proc {
		return Raised{}
	}
	return Raise(Processes)
}

// Raised are capabilities that are in effect in the current thread.
type Raised struct{ before sets }

// Raise puts capabilities into effect in the current thread, if we have them and
// they are not in effect, until Lower:
//
//	defer privilege.Raise(privilege.Tracing).Lower()
//
// Code in between must open nothing whose path a user can choose. If they cannot
// be had, nothing changes, and the kernel will refuse what needs them.
func Raise(want Set) Raised {
	if want &= raisable(); want == 0 {
		return Raised{}
	}
	runtime.LockOSThread() // new threads are not made from this one meanwhile
	before, err := current()
	if err == nil {
		raised := before
		raised.effective |= want & before.permitted
		err = raised.apply()
	}
	if err != nil || before.permitted == 0 {
		runtime.UnlockOSThread()
		return Raised{}
	}
	return Raised{before}
}

// Lower takes them out of effect.
func (r Raised) Lower() {
	if r.before.permitted == 0 {
		return
	}
	if r.before.apply() != nil {
		// The kernel has no reason to refuse it. To go on would give the rights away.
		_ = unix.Kill(unix.Getpid(), unix.SIGKILL)
	}
	runtime.UnlockOSThread()
}
