package stackset

import (
	"ustack/filemap"
	"ustack/filemap/callsite"
	"ustack/tracefs/syscalls"
)

// Entries knows the instructions before places in files, as symbolize.Entries does.
type Entries interface {
	// Here reports whether the trace is made now, on this machine: a frame without a file is in
	// none then.
	Here() bool
	// Entry returns by which instruction a thread has entered a system call that is at an
	// offset of a file.
	Entry(f *filemap.File, offset uint64) callsite.Entry
}

// Numbering returns how the call is numbered that a thread is in whose stack this is, nil if there
// is none. machine is how calls of 64 bits are. On x86 any program can make calls of 32 bits
// (int $0x80), whose numbers are other ones: the instruction before the first frame shows it. It is
// NoTable if the frame is in memory that is no file, or a 32-bit program's, and machine if there is
// nothing to see it by: no stack, or a file that cannot be read. entries may be nil.
func (s *Stack) Numbering(machine syscalls.Table, entries Entries) syscalls.Table {
	if machine != syscalls.AMD64 || s == nil {
		return machine
	}
	f := &s.Frames[0]
	switch {
	case f.File == nil && (entries != nil && entries.Here() || isMemory(f)):
		return syscalls.NoTable
	case f.File == nil || entries == nil:
		return machine
	}
	switch entries.Entry(f.File, f.Offset) {
	case callsite.Compat:
		return syscalls.I386
	case callsite.NoEntry:
		return syscalls.NoTable
	}
	return machine
}

// isMemory reports whether a frame is known to be in no file.
func isMemory(f *Frame) bool {
	switch f.Reason {
	case filemap.Anonymous, filemap.NotCode, filemap.NoVMA, filemap.VDSO, filemap.Unreadable:
		return true
	}
	return f.Memory != nil
}
