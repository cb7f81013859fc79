// Package tasks keeps address spaces up where perf may not be used: from tracepoints, and by
// asking the processes.
//
// The tracepoints are the entries and returns of all system calls that map, unmap or move
// code, and the events of tasks that begin, execute a program and end. They say when something
// may have changed, and the process is asked what it has then. One rule decides what is known:
//
// A file is at an address from the return of the last call that can have mapped it up to the
// entry of the next call that can unmap or change it. All else is unknown.
//
// It follows:
//
//   - What a call touches is unknown from its entry on, and is asked for after its return. An
//     answer counts only if no call that can have changed it was under way from before the
//     question until after the answer; otherwise it is asked for again. An answer that counts
//     holds from the return on.
//   - A record of an entry is complete before its call has any effect. So what is unknown by
//     the time the rings were read happened after that.
//   - A child has what its parent had that no call touched between the entry into clone and
//     the birth of the child. Processes that share their memory (CLONE_VM, vfork) are one.
//   - From the entry into execve until the program is loaded all is unknown. A program that
//     was not found changes nothing.
//   - Where records are missing all is unknown from the last record before on, until it has
//     been asked for; the same holds when tracing begins. A call whose entry was missed can
//     still be under way then: a process counts as known when each of its threads has been
//     seen outside of such calls (see outside).
//
// What goes unseen: system calls of 32-bit processes, which get no files therefore; brk, where a
// program has mapped a file over its heap. A 64-bit process that calls as a 32-bit one does, or by
// the x32 ABI, has no files from then on (see foreign.go).
package tasks
