package syscalls

import "bytes"

// RawCall is an event of raw_syscalls (include/trace/events/syscalls.h): the entry into
// any system call, or the return from it.
type RawCall struct {
	// NR is the number of the call. It is NoCall if the kernel says -1: the thread has
	// returned, from rt_sigreturn or a call that a tracer skipped.
	NR   int32
	Exit bool
	// Wide is set if an argument has more than 32 bits: the entry is not one of 32 bits,
	// in which the kernel's registers have no more.
	Wide bool
}

// NoCall is the number -1.
const NoCall = -1

// ParseRawCall decodes "sys_enter: NR 74 (3, 0, …)" and "sys_exit: NR 74 = 0". It reports
// false if it is another event, or not whole.
func ParseRawCall(body []byte, c *RawCall) bool {
	*c = RawCall{}
	rest, ok := bytes.CutPrefix(body, []byte("sys_enter:"))
	if !ok {
		if rest, c.Exit = bytes.CutPrefix(body, []byte("sys_exit:")); !c.Exit {
			return false
		}
	}
	for len(rest) > 0 && (rest[0] == ' ' || rest[0] == '\t') {
		rest = rest[1:]
	}
	if len(rest) < 4 || string(rest[:3]) != "NR " {
		return false
	}
	rest = rest[3:]
	if rest[0] == '-' {
		c.NR = NoCall
		return len(rest) > 2 && rest[1] == '1' && rest[2] == ' '
	}
	v, n := number(rest, 10)
	const most = 1 << 16
	if n == 0 || n >= 6 || v >= most || n >= len(rest) || rest[n] != ' ' {
		return false
	}
	c.NR = int32(v)
	if !c.Exit {
		c.Wide = wide(rest[n:])
	}
	return true
}

// wide reports whether a list of numbers in hexadecimal, " (3, 7ffc01234568, …)", has one
// of more than 32 bits.
func wide(list []byte) bool {
	const digits = 8
	n := 0
	for _, c := range list {
		switch {
		case c >= '1' && c <= '9', c >= 'a' && c <= 'f', c == '0' && n > 0:
			if n++; n > digits {
				return true
			}
		case c == '\n':
			return false
		case c != '0':
			n = 0
		}
	}
	return false
}
