package syscalls

import "bytes"

// Returns reports whether the text is of an event of a system call that returns to
// the instruction after its own: "sys_NAME(" and "sys_NAME -> " of the kernel's text,
// "sys_enter_NAME:" and "sys_exit_NAME:" of trace-cmd and perf. execve(2), which
// begins a program, and sigreturn(2) do not. The events raw_syscalls:sys_enter and
// sys_exit are of any call.
func Returns(event []byte) bool {
	name, ok := bytes.CutPrefix(event, []byte("sys_"))
	if !ok {
		return false
	}
	end := bytes.IndexAny(name, "(: ")
	if end <= 0 {
		return false
	}
	if name[end] == ':' {
		if name, ok = enterOrExit(name[:end]); !ok {
			return false
		}
	}
	switch name[0] { // each record of a call comes here
	case 'e':
		return !bytes.HasPrefix(name, []byte("execve")) // nor execveat
	case 'r':
		return !bytes.HasPrefix(name, []byte("rt_sigreturn"))
	case 's':
		return !bytes.HasPrefix(name, []byte("sigreturn"))
	}
	return true
}

// Sigreturn reports whether the text is of an event of a call that can be sigreturn(2),
// which returns to what a signal has interrupted: what Returns takes, and the entry of
// raw_syscalls with the call's number on amd64, arm64, or of 32-bit programs there.
func Sigreturn(event []byte) bool {
	name, ok := bytes.CutPrefix(event, []byte("sys_"))
	if !ok {
		return false
	}
	if nr, ok := bytes.CutPrefix(name, []byte("enter: NR ")); ok {
		end := bytes.IndexByte(nr, ' ')
		if end < 0 {
			return false
		}
		switch string(nr[:end]) {
		case "15", "139", "119", "173":
			return true
		}
		return false
	}
	if call, ok := enterOrExit(name); ok {
		name = call
	}
	return bytes.HasPrefix(name, []byte("rt_sigreturn")) || bytes.HasPrefix(name, []byte("sigreturn"))
}

// enterOrExit returns the name of a call without "enter_" or "exit_", if it has
// that.
func enterOrExit(name []byte) (call []byte, ok bool) {
	if call, ok = bytes.CutPrefix(name, []byte("enter_")); !ok {
		call, ok = bytes.CutPrefix(name, []byte("exit_"))
	}
	return call, ok && len(call) > 0
}
