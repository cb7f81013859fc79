package facts

import (
	"fmt"
	"os"
	"path/filepath"
	"unsafe"

	"golang.org/x/sys/unix"

	"ustack/tracefs/perf"
)

// Unwind is what whole stacks of waits can be made of.
type Unwind struct {
	// Copy is why perf takes no samples with registers and a copy of the stack, nil if
	// it does, or that was not tried: Tried.
	Copy  error
	Tried bool
	// Syscall: /proc/TID/syscall says where a thread waits.
	Syscall bool
	// Read is why process_vm_readv(2) reads no memory, nil if it does.
	Read error
}

func unwindFacts(opt Options) Unwind {
	_, err := os.Stat(filepath.Join(opt.Proc, "self/syscall"))
	u := Unwind{Syscall: err == nil, Read: readSelf()}
	if opt.Futex != 0 {
		u.Tried, u.Copy = true, openCopy(opt)
	}
	return u
}

// openCopy opens a sampler of the entry into futex on a CPU, and closes it. It samples
// nothing.
func openCopy(opt Options) error {
	cpus, err := perf.OnlineCPUs(opt.Sys)
	if err != nil || len(cpus) == 0 {
		return err
	}
	const least = 512
	clock, err := perf.ClockID(opt.Clock)
	if err != nil {
		return err
	}
	e := perf.Event{Tracepoint: opt.Futex, Clock: clock, Registers: true, StackBytes: least, Disabled: true}
	fd, err := e.Open(perf.OnCPU(cpus[0]))
	if err != nil {
		return fmt.Errorf("opening CPU %d: %w", cpus[0], perf.Refusal(err))
	}
	return unix.Close(fd)
}

// readSelf reads memory of our own as that of a thread that waits is read.
func readSelf() error {
	var from, to [8]byte
	local := []unix.Iovec{{Base: &to[0], Len: uint64(len(to))}}
	remote := []unix.RemoteIovec{{Base: uintptr(unsafe.Pointer(&from[0])), Len: len(from)}}
	_, err := unix.ProcessVMReadv(os.Getpid(), local, remote, 0)
	return os.NewSyscallError("process_vm_readv", err)
}
