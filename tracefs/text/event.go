package text

import (
	"bytes"
)

// EventName is the name of an event: Prefix and Name, put together, are what
// perf and trace-cmd call it.
type EventName struct {
	Prefix string
	Name   []byte
}

// SplitEvent takes the body of an event apart. The kernel prints system calls
// without the event's name, as "sys_futex(uaddr: …)" and "sys_futex -> 0x0"
// (kernel/trace/trace_syscalls.c); their names are made sys_enter_futex and
// sys_exit_futex, and args is the text in the brackets or after the arrow.
// Other events are "name: args"; text in no such form has no name.
func SplitEvent(body []byte) (name EventName, args []byte) {
	body = bytes.TrimSuffix(body, []byte("\n"))
	if rest, ok := bytes.CutPrefix(body, []byte("sys_")); ok {
		n := wordEnd(rest)
		switch after := rest[n:]; {
		case n == 0:
		case len(after) > 1 && after[0] == '(' && after[len(after)-1] == ')':
			return EventName{"sys_enter_", rest[:n]}, after[1 : len(after)-1]
		case hasPrefix(after, " -> "):
			return EventName{"sys_exit_", rest[:n]}, after[len(" -> "):]
		}
	}
	n := wordEnd(body)
	if n == 0 || n >= len(body) || body[n] != ':' {
		return EventName{}, body
	}
	return EventName{"", body[:n]}, bytes.TrimLeft(body[n+1:], " ")
}

// wordEnd returns where the letters, digits and underscores at the beginning
// end.
func wordEnd(b []byte) int {
	for i, c := range b {
		if c != '_' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') {
			return i
		}
	}
	return len(b)
}
