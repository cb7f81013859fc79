// Package binary makes records of the kernel's ring buffer pages: the same
// ones, and the same text, as the kernel would have printed for trace_pipe.
//
// Where to look: kernel.go has the facts about the traced kernel, meta.go reads it
// from a directory laid out like tracefs; context.go prints the columns before a
// record's body, event.go selects the printer of an event, syscall.go, stack.go and
// internal.go (the records of ftrace itself) print events that have no print fmt;
// cpu.go walks the sub-buffers of one CPU, source.go merges CPUs by time into
// batches, dir.go reads a directory of rawN.bin.
package binary
