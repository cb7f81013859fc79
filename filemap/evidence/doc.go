// Package evidence checks the kernel's announcements against the mappings of
// processes.
//
// An announcement is a claim: pointer hashes go stale when the memory of a
// struct file is used again. The mappings of the process are the evidence: a
// frame's file and offset must lie in one of them. Within one program's life an
// identifier is one open file, so all frames that carry it must lie in one and
// the same mapped file; two identifiers are, as a rule, two files; and where
// the ELF files are at hand, a return address follows a call, and frame 0 of a
// system call its instruction.
//
// dump.go reads mappings that were saved, collect.go and solve.go gather the
// frames of a trace and decide which file each identifier was in each program,
// judge.go gives the frames of a second reading their outcome. saved.go is the
// little that a trace.dat itself has.
package evidence
