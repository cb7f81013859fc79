// Package syscalls decodes the text of system call events: which call, its
// arguments by name, its result. So far it knows the futex family.
//
// The kernel prints "sys_futex(uaddr: 0x55ded87d003c, op: 0x80, …)" and
// "sys_futex -> 0x0" (kernel/trace/trace_syscalls.c), trace-cmd report
// "sys_enter_futex: op=FUTEX_WAIT|FUTEX_PRIVATE_FLAG uaddr=0x… val=…".
package syscalls
