// Package wait finds out of a resolved trace what threads wait for, of any kind: for how
// long a thread is off its CPU and cannot go on, in which system call or page fault, by
// which user stack, and what wakes it.
//
// An Analysis takes batches of records like a renderer and gives a Report; package
// report writes that. It needs sched_switch; sched_waking has the end of each wait and
// who ends it, raw_syscalls:sys_enter and sys_exit (without a filter) the call that a
// thread waits in, and exceptions:page_fault_user the page faults.
//
// A wait begins when a thread leaves its CPU in a state other than R, so that preemption
// is none. It ends when the thread is woken, and the time from then until it runs is
// kept apart. A wait is certain if no record was lost from what shows its kind to its
// end; else it is counted as doubtful, or without its kind.
package wait
