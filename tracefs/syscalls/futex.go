package syscalls

import (
	"bytes"
	"strconv"
	"strings"
)

// Cmd is what a futex call does, as in include/uapi/linux/futex.h. The calls
// of futex2 are given the commands that do the same.
type Cmd uint8

// The commands of futex(2).
const (
	Wait          Cmd = 0
	Wake          Cmd = 1
	FD            Cmd = 2
	Requeue       Cmd = 3
	CmpRequeue    Cmd = 4
	WakeOp        Cmd = 5
	LockPI        Cmd = 6
	UnlockPI      Cmd = 7
	TryLockPI     Cmd = 8
	WaitBitset    Cmd = 9
	WakeBitset    Cmd = 10
	WaitRequeuePI Cmd = 11
	CmpRequeuePI  Cmd = 12
	LockPI2       Cmd = 13
	// Waitv waits for one of several futexes; where they are is not in the
	// trace. RequeueV is futex_requeue, of which the same is true.
	Waitv    Cmd = 14
	RequeueV Cmd = 15
	// Unknown is a command that did not exist, or that the text lacks.
	Unknown Cmd = 16
)

// cmds are the names of the commands.
var cmds = [...]string{
	Wait: "WAIT", Wake: "WAKE", FD: "FD", Requeue: "REQUEUE", CmpRequeue: "CMP_REQUEUE", WakeOp: "WAKE_OP",
	LockPI: "LOCK_PI", UnlockPI: "UNLOCK_PI", TryLockPI: "TRYLOCK_PI", WaitBitset: "WAIT_BITSET",
	WakeBitset: "WAKE_BITSET", WaitRequeuePI: "WAIT_REQUEUE_PI", CmpRequeuePI: "CMP_REQUEUE_PI",
	LockPI2: "LOCK_PI2", Waitv: "waitv", RequeueV: "requeue", Unknown: "unknown",
}

// String returns the command's name without FUTEX_.
func (c Cmd) String() string { return cmds[min(c, Unknown)] }

// Waits reports whether the command waits for a wakeup or a lock.
func (c Cmd) Waits() bool {
	switch c {
	case Wait, WaitBitset, LockPI, LockPI2, WaitRequeuePI, Waitv:
		return true
	}
	return false
}

// Wakes reports whether the command lets others go on.
func (c Cmd) Wakes() bool {
	switch c {
	case Wake, WakeBitset, WakeOp, UnlockPI, Requeue, CmpRequeue, CmpRequeuePI:
		return true
	}
	return false
}

// WaitFilter returns a filter of the kernel's (Documentation/trace/events.rst) for
// the event sys_enter_futex: the operations that can wait, and no others.
func WaitFilter() string {
	var terms []string
	for c := Wait; c < Waitv; c++ {
		if !c.Waits() {
			continue
		}
		for _, flags := range [...]uint32{0, opPrivate, opRealtime, opPrivate | opRealtime} {
			terms = append(terms, "op == "+strconv.FormatUint(uint64(uint32(c)|flags), 10))
		}
	}
	return strings.Join(terms, " || ")
}

// CanWait reports whether a call of the futex family can wait; op is an argument that only
// FutexOp has.
func CanWait(call Call, op uint32) bool {
	switch call {
	case Other, RestartSyscall:
		return false
	}
	if call == FutexOp {
		return command(op).Waits()
	}
	var f Futex
	f.fill(call, &raw{})
	return f.Cmd.Waits()
}

// EntersWait reports whether the body of an event is the entry into a call of the futex
// family that can wait. Of a usual line it reads no argument after the command.
func EntersWait(body []byte) bool {
	const short, long = "sys_futex", "sys_enter_futex"
	switch {
	case len(body) < len(long):
		return false
	case string(body[:len(short)]) == short:
		switch body[len(short)] {
		case ' ': // a return
			return false
		case '(':
			if op, ok := usualOp(body[len(short)+1:]); ok {
				return command(op).Waits()
			}
		}
	case string(body[:len(long)]) != long:
		return false
	}
	var e Event
	return Parse(body, &e) && !e.Exit && e.Call != Other && e.Call != RestartSyscall && e.Futex.Cmd.Waits()
}

// usualOp reads the argument op where raw.usual expects it: "uaddr: 0x…, op: 0x80, val: ".
func usualOp(args []byte) (op uint32, ok bool) {
	const first, second, third = "uaddr: 0x", ", op: ", ", val: "
	if len(args) < len(first) || string(args[:len(first)]) != first {
		return 0, false
	}
	at := len(first)
	for at < len(args) && (args[at] >= '0' && args[at] <= '9' || args[at] >= 'a' && args[at] <= 'f') {
		at++
	}
	args = args[at:]
	if at == len(first) || len(args) < len(second) || string(args[:len(second)]) != second {
		return 0, false
	}
	args = args[len(second):]
	v, n := number(args, 16)
	if args = args[n:]; n == 0 || len(args) < len(third) || string(args[:len(third)]) != third {
		return 0, false
	}
	return uint32(v), true
}

// command returns the command of an argument op of futex(2).
func command(op uint32) Cmd {
	if c := op &^ opAllFlags; c < uint32(Waitv) {
		return Cmd(c)
	}
	return Unknown
}

// PI reports whether the command is about a lock with priority inheritance.
func (c Cmd) PI() bool {
	switch c {
	case LockPI, UnlockPI, TryLockPI, WaitRequeuePI, CmpRequeuePI, LockPI2:
		return true
	}
	return false
}

// Moves reports whether the command moves waiters to another futex.
func (c Cmd) Moves() bool { return c == Requeue || c == CmpRequeue || c == CmpRequeuePI }

// takesTimeout reports whether utime is a pointer to a timeout; for other
// commands it is a number.
func (c Cmd) takesTimeout() bool { return c.Waits() }

// opFlags are the flags beside the command (include/uapi/linux/futex.h; the
// last two are of Linux 7.2).
var opFlags = [...]struct {
	name string
	bit  uint32
}{
	{"PRIVATE_FLAG", opPrivate}, {"CLOCK_REALTIME", opRealtime}, {"ROBUST_UNLOCK", 0x200}, {"ROBUST_LIST32", 0x400},
}

const (
	opPrivate  = 0x80
	opRealtime = 0x100
	opAllFlags = 0x780
)

// Futex is what an entry into a call of the futex family asks for.
type Futex struct {
	Cmd Cmd
	// Private is set if only threads of the caller's process can use the futex,
	// Realtime if the timeout is on CLOCK_REALTIME.
	Private, Realtime bool
	// Timeout is set if there is one.
	Timeout bool
	// Addr is the futex, Addr2 that which waiters are moved to. HasAddr is
	// false if the text lacks it, as for Waitv and RequeueV always.
	Addr, Addr2 uint64
	HasAddr     bool
	// Val is the value that the futex must have (waits), or how many to wake.
	Val uint32
	// Val2 is how many to move at most.
	Val2 uint32
}

// raw are the arguments as they stand in the text.
type raw struct {
	uaddr, uaddr2, utime uint64
	op, val, val2, flags uint32
	nr, nrWake, nrMove   uint32
	hasAddr, hasOp       bool
}

// parse reads "name: value, name: value)" or "name=value name=value". Values of
// the first form are hexadecimal with or without 0x (below 10, decimal, which
// is the same); of the second, decimal without.
func (f *Futex) parse(call Call, args []byte) {
	var r raw
	if call != FutexOp || !r.usual(args) {
		r = raw{}
		r.parse(args)
	}
	f.fill(call, &r)
}

// parse reads arguments in any order.
func (r *raw) parse(args []byte) {
	for len(args) > 0 {
		at := 0
		for at < len(args) && args[at] != ':' && args[at] != '=' {
			at++
		}
		if at == len(args) {
			break
		}
		base := uint64(10)
		if args[at] == ':' {
			base = 16
		}
		name := args[nameStart(args[:at]):at]
		args = args[at+1:]
		for len(args) > 0 && args[0] == ' ' {
			args = args[1:]
		}
		args = args[r.set(name, args, base):]
	}
}

// usual reads the arguments of futex(2) as most kernels print them, "uaddr: 0x…,
// op: 0x80, val: 2, utime: 0, uaddr2: 0, val3: 0)". It returns false, and nothing
// of use, if they are anything else.
func (r *raw) usual(args []byte) bool {
	var op, val uint64
	at := 0
	for _, arg := range [...]struct {
		name string
		to   *uint64
	}{{"uaddr: ", &r.uaddr}, {", op: ", &op}, {", val: ", &val}, {", utime: ", &r.utime}, {", uaddr2: ", &r.uaddr2}, {", val3: ", new(uint64)}} {
		rest := args[at:]
		if len(rest) < len(arg.name) || string(rest[:len(arg.name)]) != arg.name {
			return false
		}
		v, n := number(rest[len(arg.name):], 16)
		if n == 0 {
			return false
		}
		*arg.to = v
		at += len(arg.name) + n
	}
	r.op, r.val = uint32(op), uint32(val)
	r.hasAddr, r.hasOp = true, true
	return string(args[at:]) == ")"
}

// nameStart returns where the name that ends b begins; its C type may stand
// before it (option verbose).
func nameStart(b []byte) int {
	i := len(b)
	for i > 0 && inName(b[i-1]) {
		i--
	}
	return i
}

// set takes the value of an argument and returns how long its text is.
func (r *raw) set(name, text []byte, base uint64) int {
	v, n := number(text, base)
	switch string(name) {
	case "uaddr":
		r.uaddr, r.hasAddr = v, n > 0
	case "uaddr2":
		r.uaddr2 = v
	case "op":
		if n == 0 || n < len(text) && inName(text[n]) {
			return r.setNames(text)
		}
		r.op, r.hasOp = uint32(v), true
	case "val":
		r.val = uint32(v)
	case "val2":
		r.val2 = uint32(v)
	case "utime", "timeout":
		r.utime = v
	case "flags":
		r.flags = uint32(v)
	case "nr":
		r.nr = uint32(v)
	case "nr_wake":
		r.nrWake = uint32(v)
	case "nr_requeue":
		r.nrMove = uint32(v)
	}
	return n
}

// setNames reads "FUTEX_WAIT|FUTEX_PRIVATE_FLAG".
func (r *raw) setNames(text []byte) (n int) {
	for {
		word := text[n:]
		end := nameEnd(word)
		word = bytes.TrimPrefix(word[:end], []byte("FUTEX_"))
		for c, name := range cmds[:Waitv] {
			if string(word) == name {
				r.op |= uint32(c)
				r.hasOp = true
			}
		}
		for i := range opFlags {
			if string(word) == opFlags[i].name {
				r.op |= opFlags[i].bit
			}
		}
		n += end
		if n >= len(text) || text[n] != '|' {
			return n
		}
		n++
	}
}

// futex2Private is FUTEX2_PRIVATE.
const futex2Private = 0x80

// fill makes of arguments what they mean.
func (f *Futex) fill(call Call, r *raw) {
	f.Addr, f.HasAddr = r.uaddr, r.hasAddr
	f.Val = r.val
	f.Private = r.flags&futex2Private != 0
	switch call {
	case FutexOp:
		f.Cmd = Unknown
		if r.hasOp {
			f.Cmd = command(r.op)
		}
		f.Private, f.Realtime = r.op&opPrivate != 0, r.op&opRealtime != 0
		if f.Cmd.takesTimeout() {
			f.Timeout = r.utime != 0
		} else if f.Val2 = r.val2; f.Val2 == 0 {
			f.Val2 = uint32(r.utime)
		}
		if f.Cmd.Moves() || f.Cmd == WakeOp || f.Cmd == WaitRequeuePI {
			f.Addr2 = r.uaddr2
		}
	case FutexWait:
		f.Cmd, f.Timeout = WaitBitset, r.utime != 0
	case FutexWake:
		f.Cmd, f.Val = WakeBitset, r.nr
	case FutexWaitv:
		f.Cmd, f.HasAddr, f.Timeout = Waitv, false, r.utime != 0
	case FutexRequeue:
		f.Cmd, f.HasAddr, f.Val, f.Val2 = RequeueV, false, r.nrWake, r.nrMove
	}
}

// Errors that futex calls return, as the kernel's numbers
// (include/uapi/asm-generic/errno.h, include/linux/errno.h).
const (
	EPERM                = -1
	ESRCH                = -3
	EINTR                = -4
	EAGAIN               = -11
	EDEADLK              = -35
	ETIMEDOUT            = -110
	ERESTARTSYS          = -512
	ERESTARTNOINTR       = -513
	ERESTARTNOHAND       = -514
	ERESTARTRESTARTBLOCK = -516
)
