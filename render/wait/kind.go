package wait

import (
	"ustack/render/stackset"
	"ustack/tracefs/syscalls"
)

// callID is what a thread waits in: the number of a system call, or one of the numbers
// below.
type callID int32

// Numbers that are no system call.
const (
	// noCallSeen: the trace has no system call of the thread before the wait.
	noCallSeen callID = -1 - iota
	// callLost: records were lost since the last one that shows the call.
	callLost
	// callUnpaired: entries and returns of the thread do not fit together, as in a trace
	// of some calls only.
	callUnpaired
	// callNarrow: nothing shows that the thread's calls are of 64 bits, whose numbers are
	// other ones.
	callNarrow
	pageFault
	// outsideCalls: in no system call, and the trace has no page fault there.
	outsideCalls
	stopped
	// namedCall is the first number, downwards, of calls that the trace has names of.
	namedCall
)

// Numbers that stand for calls of other numberings than the machine's, by place: see calls.at.
const (
	narrowCall callID = 1 << 20 // and the number, of a 32-bit program of x86
	otherCall  callID = 2 << 20 // and the number: how it is numbered is unknown
	callNumber        = narrowCall - 1
)

// Kind is what a thread waits for, in general.
type Kind uint8

// The kinds.
const (
	Unknown Kind = iota
	File         // calls that only files have: fsync, pread64, openat, rename, …
	IO           // read, write and others: the trace does not have what the descriptor is
	Socket
	Poll // for one of several descriptors: poll, select, epoll_wait
	Futex
	Lock  // of a file: flock, fcntl
	IPC   // System V and POSIX message queues and semaphores
	Child // wait4, waitid
	Sleep
	Signal
	Memory // mmap, munmap, …
	Process
	PageFault
	Outside // no system call and no page fault is known: work on the way to user space, or a page fault
	Stopped // by a signal or a debugger
	Call    // any other system call

	kindCount
)

// kindNames are the names of kinds in outputs.
var kindNames = [kindCount]string{"unknown", "file", "io", "socket", "poll", "futex", "file-lock", "ipc", "child", "sleep", "signal",
	"memory", "process", "page-fault", "outside", "stopped", "call"}

// String returns the kind as outputs have it.
func (k Kind) String() string { return kindNames[k] }

// Events reports whether a wait of the kind is mostly one for something to do.
func (k Kind) Events() bool {
	switch k {
	case Poll, Child, Sleep, Signal, Stopped:
		return true
	}
	return false
}

// kindCalls are the system calls of each kind. All others are of kind Call.
var kindCalls = [kindCount][]string{
	File: {"open", "openat", "openat2", "creat", "fsync", "fdatasync", "sync", "syncfs", "sync_file_range", "msync", "pread64", "pwrite64",
		"preadv", "pwritev", "preadv2", "pwritev2", "stat", "fstat", "lstat", "newfstatat", "statx", "access", "faccessat", "faccessat2",
		"getdents", "getdents64", "truncate", "ftruncate", "fallocate", "fadvise64", "readahead", "rename", "renameat", "renameat2", "mkdir", "mkdirat",
		"rmdir", "link", "linkat", "unlink", "unlinkat", "symlink", "symlinkat", "readlink", "readlinkat", "chmod", "fchmod", "fchmodat",
		"chown", "fchown", "lchown", "fchownat", "utimensat", "statfs", "fstatfs", "lseek", "copy_file_range", "mount", "umount2", "chdir", "fchdir"},
	IO: {"read", "write", "readv", "writev", "sendfile", "splice", "tee", "vmsplice", "ioctl", "close", "close_range", "dup2", "dup3",
		"io_submit", "io_getevents", "io_pgetevents", "io_uring_enter"},
	Socket: {"connect", "accept", "accept4", "sendto", "recvfrom", "sendmsg", "recvmsg", "sendmmsg", "recvmmsg", "socket", "socketpair",
		"bind", "listen", "shutdown", "getsockopt", "setsockopt", "getsockname", "getpeername"},
	Poll:   {"poll", "ppoll", "ppoll_time64", "select", "_newselect", "pselect6", "pselect6_time64", "epoll_wait", "epoll_pwait", "epoll_pwait2"},
	Futex:  {"futex", "futex_time64", "futex_wait", "futex_waitv", "futex_wake", "futex_requeue"},
	Lock:   {"flock", "fcntl"},
	IPC:    {"semop", "semtimedop", "semget", "semctl", "msgsnd", "msgrcv", "msgget", "msgctl", "mq_timedsend", "mq_timedreceive", "mq_open"},
	Child:  {"wait4", "waitpid", "waitid"},
	Sleep:  {"nanosleep", "clock_nanosleep", "clock_nanosleep_time64"},
	Signal: {"pause", "rt_sigsuspend", "rt_sigtimedwait"},
	Memory: {"mmap", "munmap", "mremap", "mprotect", "brk", "madvise", "mlock", "mlock2", "munlock", "mlockall", "munlockall", "mincore",
		"process_madvise", "migrate_pages", "move_pages", "mbind"},
	Process: {"clone", "clone3", "fork", "vfork", "execve", "execveat", "exit", "exit_group", "ptrace"},
}

// calls has the names of system calls, and their kinds.
type calls struct {
	numbers *syscalls.Numbers
	kinds   map[string]Kind
	machine syscalls.Table
	entries stackset.Entries // may be nil
	named   []string         // from namedCall on
	byName  map[string]callID
}

// maxNamed bounds the names that a trace has.
const maxNamed = 1024

func newCalls(machine syscalls.Table, entries stackset.Entries) calls {
	c := calls{entries: entries, numbers: syscalls.NewNumbers(), kinds: make(map[string]Kind), machine: machine, byName: make(map[string]callID)}
	for k, names := range kindCalls {
		for _, name := range names {
			c.kinds[name] = Kind(k)
		}
	}
	return c
}

// id returns the number of a call by its name, callUnpaired if there are too many.
func (c *calls) id(name string) callID {
	if id, ok := c.byName[name]; ok {
		return id
	}
	if len(c.named) >= maxNamed {
		return callUnpaired
	}
	id := namedCall - callID(len(c.named))
	c.named = append(c.named, name)
	c.byName[name] = id
	return id
}

// learn learns how calls are numbered, from the number of futex.
func (c *calls) learn(futex int32) {
	if c.machine == syscalls.NoTable {
		c.machine = syscalls.TableOf(futex)
	}
}

// at returns what stands for a call that is made where a stack begins.
func (c *calls) at(id callID, s *stackset.Stack) callID {
	if id < 0 {
		return id
	}
	switch s.Numbering(c.machine, c.entries) {
	case c.machine:
		return id
	case syscalls.I386:
		return narrowCall + id
	}
	return otherCall + id
}

// number returns the number of a call that at has returned.
func (id callID) number() callID {
	if id < 0 {
		return id
	}
	return id & callNumber
}

// name returns the name of a call, "" if it is unknown.
func (c *calls) name(id callID) string {
	switch {
	case id >= otherCall:
		return ""
	case id >= narrowCall:
		return c.numbers.Name(syscalls.I386, int32(id-narrowCall))
	case id >= 0:
		return c.numbers.Name(c.machine, int32(id))
	case id <= namedCall:
		return c.named[namedCall-id]
	}
	return ""
}

// kind returns the kind of a wait.
func (c *calls) kind(id callID) Kind {
	switch id {
	case pageFault:
		return PageFault
	case outsideCalls:
		return Outside
	case stopped:
		return Stopped
	}
	name := c.name(id)
	if name == "" {
		return Unknown
	}
	if k, ok := c.kinds[name]; ok {
		return k
	}
	return Call
}
