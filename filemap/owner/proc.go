package owner

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"ustack/tracefs/privilege"
)

// call is the system call in which a thread sleeps, as /proc/PID/syscall has it
// (proc_pid_syscall(5)): number, arguments, stack and instruction pointer.
type call struct {
	number int64
	args   [6]uint64
	sp, pc uint64
}

// Bits of the operation of a futex call (linux/futex.h).
const (
	opMask    = 0x7f
	opWait    = 0
	opLockPI  = 6
	opLockPI2 = 13
)

func (c *call) waits(addr uint64) bool { return c.number == unix.SYS_FUTEX && c.args[0] == addr }

func (c *call) pi() bool { return c.args[1]&opMask == opLockPI || c.args[1]&opMask == opLockPI2 }

// wants reports whether the call waits while the word has a value.
func (c *call) wants(value uint32) bool {
	return c.args[1]&opMask == opWait && uint32(c.args[2]) == value
}

// call reads in which call a thread sleeps. One that runs is in none.
func (r *Reader) call(pid, tid int) (call, error) {
	text, err := r.text(pid, tid, "syscall")
	if err != nil {
		return call{}, err
	}
	return parseCall(text), nil
}

// parseCall parses the file. The number is -1 if the thread does not sleep in a
// system call.
func parseCall(text string) (c call) {
	none := call{number: -1}
	fields := strings.Fields(text)
	const all = 9
	if len(fields) != all {
		return none // "running", or "-1 SP PC" outside of system calls
	}
	var err error
	if c.number, err = strconv.ParseInt(fields[0], 10, 64); err != nil {
		return none
	}
	for i, to := range []*uint64{&c.args[0], &c.args[1], &c.args[2], &c.args[3], &c.args[4], &c.args[5], &c.sp, &c.pc} {
		if *to, err = strconv.ParseUint(fields[1+i], 0, 64); err != nil {
			return none
		}
	}
	return c
}

// thread returns the thread of a process that has a number in the process's own
// PID namespace.
func (r *Reader) thread(pid, number int) (int, error) {
	if n, err := r.ownNumber(pid, number); err == nil && n == number {
		return number, nil
	}
	tids, err := r.maps.Threads(pid)
	if err != nil {
		return 0, err
	}
	for _, tid := range tids {
		if n, err := r.ownNumber(pid, tid); err == nil && n == number {
			return tid, nil
		}
	}
	return 0, errNoThread
}

// ownNumber returns the number of a thread in its own PID namespace: the last
// one of NSpid.
func (r *Reader) ownNumber(pid, tid int) (int, error) {
	text, err := r.text(pid, tid, "status")
	if err != nil {
		return 0, err
	}
	_, text, _ = strings.Cut(text, "\nNSpid:")
	line, _, _ := strings.Cut(text, "\n")
	fields := strings.Fields(line)
	if len(fields) == 0 {
		return tid, nil // a kernel without PID namespaces
	}
	n, err := strconv.Atoi(fields[len(fields)-1])
	if err != nil {
		return 0, fmt.Errorf("the NSpid of thread %d is %q", tid, line)
	}
	return n, nil
}

// textWait is how long reading a file of a thread may take. The kernel waits for a
// process in the middle of an exec (lock_trace in fs/proc/base.c), which a file system in
// user space can hold up.
const textWait = 250 * time.Millisecond

// text reads a file of a thread.
func (r *Reader) text(pid, tid int, name string) (string, error) {
	proc := r.maps.Proc()
	type contents struct {
		b   []byte
		err error
	}
	got := make(chan contents, 1)
	err := r.calls.Do(func() {
		defer privilege.RaiseIn(proc).Lower() // the kernel asks for them when it is read
		b, err := os.ReadFile(filepath.Join(proc, strconv.Itoa(pid), "task", strconv.Itoa(tid), name))
		got <- contents{b, err}
	})
	var c contents
	if err == nil {
		c = <-got
		err = c.err
	}
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		return "", errMoved
	}
	if err != nil {
		return "", fmt.Errorf("looking at thread %d: %w", tid, err)
	}
	return string(c.b), nil
}

// Comm returns the name of a thread, "" if it has ended.
func (r *Reader) Comm(pid, tid int) string {
	text, err := r.text(pid, tid, "comm")
	if err != nil {
		return ""
	}
	return strings.TrimSuffix(text, "\n")
}
