// Package blocked reads the user stacks of threads that do not run: while a thread
// waits in the kernel, its stack does not change, and reading it costs the thread
// nothing.
//
// /proc/TID/syscall has the stack pointer, the program counter and the arguments of the
// system call of a thread that waits; the stack is read from its memory. Other
// registers cannot be read this way.
//
// That the thread did not run in between is proven: it was off its CPU before the
// reading and after it, and it was not switched out meanwhile (the counters of
// /proc/TID/status), which it would have been had it run. That it is the same thread
// before and after is proven by the directory of /proc being held open: its files are
// empty for a thread that gets the same number later.
//
// Reading memory can take as long as another party likes, if it is in a file of a file
// system in user space, or is served by userfaultfd(2). The reader waits only so long.
package blocked
