package syscalls

import "bytes"

// Call is a system call that this package decodes.
type Call uint8

// The calls of the futex family. Other is any other system call.
const (
	Other Call = iota
	FutexOp
	FutexWait
	FutexWaitv
	FutexWake
	FutexRequeue
	RestartSyscall
)

// calls are the names of the decoded calls, without "sys_".
var calls = [...]struct {
	name string
	call Call
}{
	{"futex", FutexOp},                  // include/uapi/linux/futex.h
	{"futex_wait", FutexWait},           // Linux 6.7
	{"futex_waitv", FutexWaitv},         // 5.16
	{"futex_wake", FutexWake},           // 6.7
	{"futex_requeue", FutexRequeue},     // 6.7
	{"restart_syscall", RestartSyscall}, // kernel/signal.c
}

// Event is the entry to a system call or the return from it.
type Event struct {
	Call Call
	// Exit is set for a return; Result is then what the call returned,
	// a negative error number, valid if HasResult. The calls of the futex family
	// return an int; a kernel of 32 bits has no more of it.
	Exit      bool
	HasResult bool
	Result    int64
	// Futex is what the call asks for, if it is an entry of the futex family.
	Futex Futex
}

// Parse decodes the body of an event. It reports false if the event is no
// system call.
func Parse(body []byte, e *Event) bool {
	const prefix = "sys_"
	if len(body) < len(prefix)+2 || string(body[:len(prefix)]) != prefix {
		return false
	}
	if end := bytes.IndexByte(body, '\n'); end >= 0 {
		body = body[:end]
	}
	rest := body[len(prefix):]
	n := nameEnd(rest)
	name, after := rest[:n], rest[n:]
	e.Exit, e.HasResult = false, false
	e.Futex = Futex{}
	switch {
	case len(after) > 0 && after[0] == '(':
		after = after[1:]
	case len(after) >= 4 && string(after[:4]) == " -> ":
		e.Exit, after = true, after[4:]
	case len(after) > 0 && after[0] == ':':
		after = after[1:]
		if name, e.Exit = bytes.CutPrefix(name, []byte("exit_")); !e.Exit {
			var enter bool
			if name, enter = bytes.CutPrefix(name, []byte("enter_")); !enter {
				return false
			}
		}
	default:
		return false
	}
	e.Call = callOf(name)
	switch {
	case e.Exit:
		if e.Result, e.HasResult = result(after); e.Call != Other {
			e.Result = int64(int32(e.Result))
		}
	case e.Call != Other && e.Call != RestartSyscall:
		e.Futex.parse(e.Call, after)
	}
	return true
}

// Name returns the call's name without "sys_", "" for Other.
func (c Call) Name() string {
	for i := range calls {
		if calls[i].call == c {
			return calls[i].name
		}
	}
	return ""
}

func callOf(name []byte) Call {
	for i := range calls {
		if string(name) == calls[i].name {
			return calls[i].call
		}
	}
	return Other
}

// nameEnd returns where the letters, digits and underscores at the beginning
// end.
func nameEnd(b []byte) int {
	for i, c := range b {
		if !inName(c) {
			return i
		}
	}
	return len(b)
}

func inName(c byte) bool {
	return c >= 'a' && c <= 'z' || c == '_' || c >= '0' && c <= '9' || c >= 'A' && c <= 'Z'
}

// result reads what a call returned: "0x0", before Linux 6.18 "0", an error as
// 64 bits "0xfffffffffffffff5", by trace-cmd -R "__syscall_nr=202 ret=0x1".
func result(b []byte) (int64, bool) {
	if at := bytes.LastIndex(b, []byte("ret=")); at >= 0 {
		b = b[at+len("ret="):]
	}
	for len(b) > 0 && b[0] == ' ' {
		b = b[1:]
	}
	if len(b) > 1 && b[0] == '-' {
		v, n := number(b[1:], 10)
		return -int64(v), n > 0
	}
	v, n := number(b, 16)
	return int64(v), n > 0
}

// number reads a number at the beginning of b: hexadecimal if it begins with
// 0x, else of the given base. n is how many bytes it takes, 0 if there is none.
func number(b []byte, base uint64) (v uint64, n int) {
	if len(b) > 2 && b[0] == '0' && b[1] == 'x' {
		v, n = number(b[2:], 16)
		if n > 0 {
			n += 2
		}
		return v, n
	}
	for n < len(b) {
		d := uint64(b[n] - '0')
		if d > 9 {
			if d = uint64(b[n]-'a') + 10; d < 10 || d > 15 {
				break
			}
		}
		if d >= base {
			break
		}
		v = v*base + d
		n++
	}
	return v, n
}

// Name returns the name of the system call that an event is of, without "sys_". ok is
// false if it is of none.
func Name(body []byte) (name []byte, exit, ok bool) {
	var e Event
	if !Parse(body, &e) {
		return nil, false, false
	}
	name = body[len("sys_"):]
	end := nameEnd(name)
	form := name[end]
	if name = name[:end]; form == ':' {
		if cut, found := bytes.CutPrefix(name, []byte("exit_")); found {
			return cut, e.Exit, true
		}
		name = bytes.TrimPrefix(name, []byte("enter_"))
	}
	return name, e.Exit, true
}
