package syscalls

// Arg is an argument of a call of the futex family.
type Arg uint8

// The arguments, by the kernel's names of them.
const (
	Uaddr Arg = iota
	Uaddr2
	Utime // and timeout
	Op
	ArgVal
	ArgVal2
	ArgFlags
	Nr
	NrWake
	NrRequeue
)

// argNames are the names that arguments have in the kernel's events.
var argNames = [...]struct {
	name string
	arg  Arg
}{
	{"uaddr", Uaddr}, {"uaddr2", Uaddr2}, {"utime", Utime}, {"timeout", Utime}, {"op", Op}, {"val", ArgVal},
	{"val2", ArgVal2}, {"flags", ArgFlags}, {"nr", Nr}, {"nr_wake", NrWake}, {"nr_requeue", NrRequeue},
}

// Named returns the call with a name, without "sys_".
func Named(name string) Call { return callOf([]byte(name)) }

// ArgNamed returns the argument with a name in the kernel's format of an event.
func ArgNamed(name string) (Arg, bool) {
	for _, n := range argNames {
		if n.name == name {
			return n.arg, true
		}
	}
	return 0, false
}

// Args are the arguments of a call as numbers.
type Args struct{ raw raw }

// Set sets one.
func (a *Args) Set(arg Arg, v uint64) {
	r := &a.raw
	switch arg {
	case Uaddr:
		r.uaddr, r.hasAddr = v, true
	case Uaddr2:
		r.uaddr2 = v
	case Utime:
		r.utime = v
	case Op:
		r.op, r.hasOp = uint32(v), true
	case ArgVal:
		r.val = uint32(v)
	case ArgVal2:
		r.val2 = uint32(v)
	case ArgFlags:
		r.flags = uint32(v)
	case Nr:
		r.nr = uint32(v)
	case NrWake:
		r.nrWake = uint32(v)
	case NrRequeue:
		r.nrMove = uint32(v)
	}
}

// Enter makes the event an entry into a call.
func (e *Event) Enter(call Call, a *Args) {
	*e = Event{Call: call}
	if call != Other && call != RestartSyscall {
		e.Futex.fill(call, &a.raw)
	}
}

// Return makes the event the return from a call of the futex family, or
// restart_syscall.
func (e *Event) Return(call Call, result int64) {
	*e = Event{Call: call, Exit: true, HasResult: true, Result: int64(int32(result))}
}
