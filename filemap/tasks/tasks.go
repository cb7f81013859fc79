// Package tasks keeps address spaces up where perf may not be used: from the
// scheduler's tracepoints, and by asking the processes.
//
// Tracepoints report programs that begin and end, and that a process is about to
// map code; what it has mapped is found by reading it, a moment later. So the
// result is late: mostly right, never sure.
package tasks

import (
	"bytes"
	"strconv"
	"sync"

	"ustack/filemap/procmap"
	"ustack/filemap/space"
	"ustack/tracefs"
	"ustack/tracefs/instance"
)

// Name is what this way to follow mappings is called.
const Name = "queries and scheduler events"

// Limit is what it cannot do: a process that has gone, or has unmapped a library,
// cannot be asked any more.
const Limit = "most frames of short-lived processes and libraries get no file"

// Events returns the events to feed Record with (include/trace/events/sched.h,
// and the system calls that map code or execute a program), as the kernel has
// them.
func Events(root *instance.Root) ([]instance.Event, error) {
	sel, err := root.Select([]instance.Spec{
		{System: "sched", Event: "sched_process_fork"},
		{System: "sched", Event: "sched_process_exec"},
		{System: "sched", Event: "sched_process_exit"},
		{System: "syscalls", Event: "sys_enter_mmap", Filter: "prot & 4"},
		{System: "syscalls", Event: "sys_enter_mprotect", Filter: "prot & 4"},
		{System: "syscalls", Event: "sys_enter_mremap", Filter: "flags & 2"}, // MREMAP_FIXED
		{System: "syscalls", Event: "sys_enter_execve"},
		{System: "syscalls", Event: "sys_exit_execve"},
		{System: "syscalls", Event: "sys_enter_execveat"},
		{System: "syscalls", Event: "sys_exit_execveat"},
	})
	return sel.Events, err
}

// Tasks feeds Spaces. Its methods may be called from any goroutine.
type Tasks struct {
	spaces *space.Spaces

	mu     sync.Mutex
	reader *procmap.Reader // of executable mappings
	clock  func() tracefs.Time
	p      procmap.Process
	// owner is the process of each thread that was asked for.
	owner map[int]int
	// changing are the processes that have to be read.
	changing map[int]*change
	// executing are the processes that have called execve. They have the mappings of
	// the new program before sched_process_exec reports it. They are no more than
	// there are PIDs: an exit and a fork forget what was lost.
	executing map[int]bool
	expired   tracefs.Time // what ended before is forgotten
}

// New returns Tasks that read processes with r and feed spaces.
func New(spaces *space.Spaces, r *procmap.Reader, clock func() tracefs.Time) *Tasks {
	return &Tasks{spaces: spaces, reader: r, clock: clock, owner: make(map[int]int), changing: make(map[int]*change), executing: make(map[int]bool)}
}

// Refresh reads all processes.
func (t *Tasks) Refresh() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, err := t.spaces.Refresh(t.reader, t.clock)
	return err
}

// Reread reads all code that a process has mapped. It is known from then on;
// before, no more than what was there already. drain is for Settle.
func (t *Tasks) Reread(pid int, drain func() error) error {
	known, err := t.again(pid)
	if err != nil || !known {
		return err
	}
	return t.Settle(drain)
}

// again notes that a process has to be read, or reads it if it is unknown.
func (t *Tasks) again(pid int) (known bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.clock()
	v := t.spaces.Space(pid).At(now)
	switch {
	case t.executing[pid]:
		return false, nil
	case v == nil:
		return false, t.spaces.RefreshProcess(t.reader, pid, &t.p, now)
	}
	t.change(pid, now, nil)
	if c := t.changing[pid]; c != nil {
		c.first = min(c.first, v.From)
	}
	return true, nil
}

// keep is how long what ended can still be looked up, counted from the time that
// the trace has reached: far more than its records are out of order.
const keep = tracefs.Time(10e9)

// Reached sets the time up to which the spaces have been looked up. It drops what
// ended long before.
func (t *Tasks) Reached(at tracefs.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if before := at - keep; before-t.expired > keep/4 {
		t.spaces.Expire(before)
		t.expired = before
	}
}

// Found notes what a process has at an address, memory that is no code.
func (t *Tasks) Found(pid int, m *procmap.Mapping, at, after tracefs.Time) {
	t.spaces.MapAfter(pid, m, at, after)
}

// maxOwners bounds the threads that are remembered.
const maxOwners = 1 << 16

// PID returns the process of a thread. late is always true: the thread may have
// been another one's then.
func (t *Tasks) PID(tid int, _ tracefs.Time) (pid int, late, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.pid(tid), true, true
}

func (t *Tasks) pid(tid int) int {
	if pid, known := t.owner[tid]; known {
		return pid
	}
	pid, err := t.reader.ThreadGroup(tid)
	if err != nil {
		return tid // it has ended; what its parent had was noted for it
	}
	if len(t.owner) >= maxOwners {
		clear(t.owner)
	}
	t.owner[tid] = pid
	return pid
}

// Record notes the events of a batch. The caller calls Settle next.
func (t *Tasks) Record(b *tracefs.Batch) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range b.Records {
		r := &b.Records[i]
		if r.Kind == tracefs.KindEvent && r.Body > r.Off && r.TID > 0 {
			t.event(int(r.TID), b.Time(r), bytes.TrimRight(b.Text[r.Body:r.End], "\n"))
		}
		if r.Kind == tracefs.KindLost || r.Kind == tracefs.KindGap {
			for pid := range t.changing {
				t.giveUp(pid)
			}
			_, _ = t.spaces.Refresh(t.reader, t.clock) // what can be read is read again
			for pid := range t.executing {
				t.unknown(pid, t.clock())
			}
		}
	}
}

// events are the handlers of events, by the name that the text has.
var events = [...]struct {
	name string
	do   func(t *Tasks, tid int, at tracefs.Time, body []byte)
}{
	{"sched_process_fork: ", (*Tasks).fork},
	{"sched_process_exec: ", (*Tasks).exec},
	{"sched_process_exit: ", (*Tasks).exit},
	{"sys_mmap(", (*Tasks).mapped},
	{"sys_mprotect(", (*Tasks).mapped},
	{"sys_mremap(", (*Tasks).mapped},
	{"sys_execve(", (*Tasks).execute},
	{"sys_execveat(", (*Tasks).execute},
	{"sys_execve -> ", (*Tasks).executed},
	{"sys_execveat -> ", (*Tasks).executed},
}

func (t *Tasks) event(tid int, at tracefs.Time, body []byte) {
	for _, e := range events {
		if bytes.HasPrefix(body, []byte(e.name)) {
			e.do(t, tid, at, body)
			return
		}
	}
}

// fork is "comm=… pid=… child_comm=… child_pid=…". The event does not say whether
// the child is a thread or a process; it has what its parent has.
func (t *Tasks) fork(tid int, at tracefs.Time, body []byte) {
	const key = " child_pid="
	i := bytes.LastIndex(body, []byte(key))
	if i < 0 {
		return
	}
	child, err := strconv.Atoi(string(body[i+len(key):]))
	if err != nil || child <= 0 || child > tracefs.MaxTID {
		return
	}
	parent := t.pid(tid)
	delete(t.owner, child)
	delete(t.changing, child)
	delete(t.executing, child)
	t.spaces.Fork(parent, child, at)
	if t.changing[parent] != nil { // then it is unknown what the child has
		t.change(child, at, nil)
	}
}

// exec is "filename=… pid=… old_pid=…": the thread is the process from now on.
func (t *Tasks) exec(tid int, at tracefs.Time, _ []byte) {
	t.owner[tid] = tid
	delete(t.executing, tid)
	t.giveUp(tid)
	t.spaces.Exec(tid, "", at)
	t.change(tid, at, nil)
}

func (t *Tasks) exit(tid int, at tracefs.Time, _ []byte) {
	if pid, known := t.owner[tid]; !known || pid == tid {
		delete(t.executing, tid)
		t.giveUp(tid)
		t.spaces.Exit(tid, at)
	}
}

// mapped is a process that is about to map code.
func (t *Tasks) mapped(tid int, at tracefs.Time, body []byte) { t.change(t.pid(tid), at, body) }

// execute notes that a process is about to execute a program. Mappings read from
// now on may be the new program's, and until sched_process_exec the old one runs.
func (t *Tasks) execute(tid int, _ tracefs.Time, _ []byte) {
	pid := t.pid(tid)
	t.executing[pid] = true
	if c := t.changing[pid]; c != nil {
		c.stale = true
	}
}

// executed is a process that has executed a program, or could not.
func (t *Tasks) executed(tid int, at tracefs.Time, _ []byte) {
	if pid := t.pid(tid); t.executing[pid] {
		delete(t.executing, pid)
		t.change(pid, at, nil)
	}
}
