package futex

import (
	"ustack/render/stackset"
	"ustack/tracefs/syscalls"
)

// causes numbers what threads wait for, from firstCause on.
type causes struct {
	blockers []blocker // by number
	numbers  map[blocker]int32
	places   places
	made     places // the first frame only
	entries  stackset.Entries
	// sleeps are, by number less firstCause, what a blocker with a place is a cause of
	// (blocker.cause), 0 for others: more of them are in the processor's cache than blockers.
	sleeps []uint8
	// asleep are the numbers of blockers with a place, by cause and place, 0 if not known yet.
	asleep [firstCause][]int32
	// recent are some of numbers, by recentSlot: threads wait for the same few over and over.
	recent [recentCauses]recentCause
}

const (
	recentCauseBits = 7
	recentCauses    = 1 << recentCauseBits
)

// recentCause is an entry of numbers; its number is 0 if it is none.
type recentCause struct {
	of     blocker
	number int32
}

// recentSlot returns where in the table of recent ones a blocker is, if it is there.
func (b *blocker) recentSlot() uint64 {
	mixed := b.key.addr ^ uint64(uint32(b.at))<<32 ^ uint64(uint32(b.call)) ^ uint64(uint32(b.made))<<16
	return mixed * 0x9e3779b97f4a7c15 >> (64 - recentCauseBits)
}

// blocker is what a thread waits for in a call: a futex of a process, or the call's own
// purpose.
type blocker struct {
	proc *process
	key  lockKey
	call int32 // by table, if there is one
	in   syscalls.Table
	// made is the first stack that begins where the call is made, and 1; 0 if that is unknown.
	made int32
	// at is the stack of the place where a thread sleeps in a call that the trace does not
	// have, and 1; 0 if it is none of these. cause is causeCall or causeDisk then.
	at, cause int32
}

// of returns the number of what a thread waits for.
func (c *causes) of(b blocker) int32 {
	slot := &c.recent[b.recentSlot()]
	if slot.number == 0 || slot.of != b {
		n := c.number(b)
		if n < firstCause {
			return n
		}
		*slot = recentCause{b, n}
	}
	return slot.number
}

// number returns the number of what a thread waits for, one below firstCause if there are too
// many.
func (c *causes) number(b blocker) int32 {
	if n, ok := c.numbers[b]; ok {
		return n
	}
	switch {
	case len(c.blockers) < maxBlockers:
	case b.at > 0:
		return b.cause
	case b.in != syscalls.NoTable:
		return causeCall
	default:
		return causeFutex
	}
	n := firstCause + int32(len(c.blockers))
	c.blockers, c.sleeps = append(c.blockers, b), append(c.sleeps, uint8(b.cause))
	c.numbers[b] = n
	return n
}

// inside returns the number of a call that a thread is in, by raw_syscalls, which went off its
// CPU with a stack.
func (c *causes) inside(r *rawCall, stack int32) int32 {
	return c.of(blocker{call: r.nr, in: r.in, made: c.made.stack(stack) + 1})
}

// numbering returns how the call is numbered that a thread was in.
func (c *causes) numbering(b *blocker) syscalls.Table {
	return c.places.stacks.Get(b.made-1).Numbering(b.in, c.entries)
}

// sleepAt returns the number of a sleep in a call that the trace does not have, by where the
// thread went off its CPU, which a stack shows; cause if no stack does.
func (c *causes) sleepAt(cause, stack int32) int32 {
	at := c.places.stack(stack)
	if at == noStack {
		return cause
	}
	known := &c.asleep[cause]
	for int(at) >= len(*known) {
		*known = append(*known, 0)
	}
	n := &(*known)[at]
	if *n == 0 {
		number := c.number(blocker{at: at + 1, cause: cause})
		if number < firstCause {
			return number
		}
		*n = number
	}
	return *n
}

// inCall reports whether a thread that is blocked so has entered a system call before: it
// is not on its way to taking a lock, or from releasing it. One that is in state D in a
// call that the trace does not have may be at a page fault.
func (c *causes) inCall(cause int32) bool {
	if cause >= firstCause {
		if as := c.sleeps[cause-firstCause]; as > 0 {
			cause = int32(as)
		}
	}
	return cause == causeCall || cause >= causeFutex
}
