package doctor

import (
	"errors"

	"golang.org/x/sys/unix"

	"ustack/filemap/facts"
	"ustack/tracefs/perf"
)

// unwindChecks make the checks of whole stacks, in the group Tracing.
type unwindChecks struct{ *Findings }

// byFramePointers is how stacks are found without all that.
const byFramePointers = "all stacks go by frame pointers"

// all checks what whole stacks of waits can be made of.
func (f unwindChecks) all() []Check {
	if f.Tracing == nil {
		return nil
	}
	return inGroup(Tracing, []Check{f.copies(), f.blocked()})
}

// copies checks perf samples with a copy of the stack (--unwind=copy).
func (f unwindChecks) copies() Check {
	c := Check{Name: "whole stacks: copies", Found: "perf copies stacks of waits and releases (--unwind=copy)"}
	u := &f.Facts.Unwind
	without := "stacks of waits go by frame pointers, unless they take over 1 ms (below)"
	if f.noBlocked() != "" {
		without = byFramePointers
	}
	switch band := f.Facts.Band.Err; {
	case band != nil:
		c.State, c.Found, c.Without, c.Fix = Missing, "they need the perf side band, which is not in use", byFramePointers, mappingChecks(f).bandFix()
	case !u.Tried:
		c.State, c.Found, c.Without = Missing, "the kernel has no event of the entry into futex", without
	case u.Copy != nil:
		c.State, c.Found, c.Without = Missing, oneLine(u.Copy), without
		if errors.Is(u.Copy, perf.ErrDenied) {
			if c.Fix = f.install(); c.Fix == "" {
				c.Fix = f.lessParanoid()
			}
		}
	}
	return c
}

// blocked checks whether stacks of threads that wait can be read (--unwind=blocked).
func (f unwindChecks) blocked() Check {
	c := Check{Name: "whole stacks: blocked", Found: "by /proc/TID/syscall and process_vm_readv (--unwind=blocked)"}
	if f.Tracing.Deferred {
		c.Found = "not used: deferred stacks come after the waits"
		return c
	}
	if why := f.noBlocked(); why != "" {
		c.State, c.Found, c.Without = Missing, why, "waits have whole stacks by copies alone"
		if f.Facts.Band.Err != nil {
			c.Without, c.Fix = byFramePointers, mappingChecks(f).bandFix()
		}
		return c
	}
	if !f.Facts.Rights.Has(unix.CAP_SYS_PTRACE) {
		c.State, c.Found = Limited, "without CAP_SYS_PTRACE, of our own processes only"
		c.Without, c.Fix = "waits of others have whole stacks by copies alone", f.install()
	}
	return c
}

// noBlocked returns why no stack of a thread that waits can be read, "" if it can.
func (f unwindChecks) noBlocked() string {
	const noAttach = 3 // of Documentation/admin-guide/LSM/Yama.rst
	switch u := &f.Facts.Unwind; {
	case f.Facts.Band.Err != nil:
		return "this needs the perf side band, which is not in use"
	case f.Tracing.Deferred:
		return "deferred stacks come after the waits"
	case !u.Syscall:
		return "the kernel has no /proc/TID/syscall"
	case u.Read != nil:
		return oneLine(u.Read)
	case f.Facts.Sysctls[facts.PtraceScope] >= noAttach:
		return facts.PtraceScope + " is 3: no one may read the memory of a process until the next boot"
	}
	return ""
}
