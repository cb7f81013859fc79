// Package observed checks the kernel's mapping events against the mappings of
// processes.
//
// A mapping event is a claim: pointer hashes go stale when the memory of a
// struct file is used again. The mappings of the process prove more: a
// frame's file and offset must lie in one of them. Within one program's life an
// identifier is one open file, so all frames that carry it must lie in one and
// the same mapped file; two identifiers are, as a rule, two files; and where
// the ELF files are at hand, a return address follows a call, and frame 0 of a
// system call its instruction.
//
// dump.go reads mappings that were saved, collect.go and solve.go gather the
// frames of a trace and decide which file each identifier was in each program,
// attribute.go gives the frames of a second reading their attribution. saved.go is the
// little that a trace.dat itself has.
package observed
