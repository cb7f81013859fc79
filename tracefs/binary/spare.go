package binary

import (
	"strings"

	"ustack/tracefs"
	"ustack/tracefs/format"
	"ustack/tracefs/syscalls"
)

// role is what an event is to a spare.
type role uint8

const (
	roleOther role = iota
	roleEntry      // into a call of the futex family
	roleReturn
	roleWakeup // of a thread by another one
	roleStack  // that the kernel took at the event before it
)

// roleOf returns the role of an event.
func roleOf(f *format.Event) role {
	called := func(prefix string) bool {
		name, ok := strings.CutPrefix(f.Name, prefix)
		return ok && syscalls.Named(name) != syscalls.Other
	}
	switch f.System {
	case "ftrace", "":
		if f.Name == "user_stack" {
			return roleStack
		}
	case "sched":
		if f.Name == "sched_waking" || f.Name == "sched_wakeup" {
			return roleWakeup
		}
	case "syscalls":
		switch {
		case called("sys_enter_"):
			return roleEntry
		case called("sys_exit_"):
			return roleReturn
		}
	}
	return roleOther
}

// spare leaves out the stacks that a consumer with Options.Spare has no use for.
//
// The kernel writes the stack of an event right after it, on the same CPU. So a stack is
// left out only if the record before it on its CPU is an event of the same thread and
// context whose stack is of no use.
//
// Invariants:
//   - entered has only threads whose last event of a call is an entry that has gone out
//     with its stack, and since then no record of any CPU was lost: the consumer still
//     has that stack when the call returns.
type spare struct {
	on      bool
	last    map[int32]spareEvent // by CPU: its last record, if that is an event
	entered map[int32]bool       // by thread
}

// spareEvent is an event that its stack may follow.
type spareEvent struct {
	role role // roleEntry; roleOther if the stack is left out
	head spareHead
}

// spareHead is what the kernel gives an event and its stack alike.
type spareHead struct {
	tid            int32
	flags, preempt uint8
}

// inInterrupt are the bits of common_flags that say in which context a record was made:
// TRACE_FLAG_HARDIRQ, SOFTIRQ and NMI (include/linux/trace_events.h).
const inInterrupt = 0x08 | 0x10 | 0x40

// maxEntered bounds the threads in entered.
const maxEntered = 1 << 16

// stack reports whether to leave out a stack. If it is of an entry, the return needs none.
func (s *spare) stack(cpu int32, head spareHead, empty bool) (leave bool) {
	x, ok := s.last[cpu]
	delete(s.last, cpu)
	switch {
	case !ok || x.head != head:
	case x.role == roleOther:
		return true
	case !empty && len(s.entered) < maxEntered:
		s.entered[head.tid] = true
	}
	return false
}

// event takes an event, and reports whether its stack will be left out.
func (s *spare) event(cpu int32, head spareHead, r role) (leave bool) {
	delete(s.last, cpu)
	switch r {
	case roleEntry:
		delete(s.entered, head.tid)
		s.last[cpu] = spareEvent{roleEntry, head}
		return false
	case roleReturn:
		leave = s.entered[head.tid]
		delete(s.entered, head.tid)
	case roleWakeup:
		leave = true
	}
	if leave {
		s.last[cpu] = spareEvent{roleOther, head}
	}
	return leave
}

// lost notes that records are missing.
func (s *spare) lost() {
	clear(s.last)
	clear(s.entered)
}

// spared reports whether to leave out a record. It marks events whose stack will be.
func (p *Printer) spared(cpu, tid int32, e *event, c common, rec []byte) (leave bool, flags tracefs.Flags) {
	if !p.spare.on || tid < 0 {
		return false, 0
	}
	head := spareHead{tid, c.flags & inInterrupt, c.preempt}
	if e.role == roleStack {
		return p.spare.stack(cpu, head, p.emptyStack(e, rec)), 0
	}
	if p.spare.event(cpu, head, e.role) {
		flags = tracefs.StackLeft
	}
	return false, flags
}

// emptyStack reports whether a stack has no frame.
func (p *Printer) emptyStack(e *event, rec []byte) bool {
	caller := e.format.Field("caller")
	if caller == nil {
		return true
	}
	data, long := from(rec, caller.Offset), p.env.LongSize
	return len(data) < long || p.number(data, long) == 0
}
