package printfmt

import (
	"bytes"
	"fmt"
)

// CompileBinary makes a program of a format string whose arguments lie in the
// record one after the other, as vbin_printf leaves them (lib/vsprintf.c):
// trace_printk writes such records.
func CompileBinary(format string, longSize int) (*Program, error) {
	c := compiler{rest: format, longBits: uint8(8 * longSize), args: func(s *spec) (value, error) {
		return binaryArg(s, longSize)
	}}
	if err := c.run(); err != nil {
		return nil, fmt.Errorf("%w: %w", errUnknown, err)
	}
	return &c.out, nil
}

// AppendBinary is Append for a program of CompileBinary.
func (p *Program) AppendBinary(b []byte, env *Env, args []byte) []byte {
	env.args, env.arg = args, 0
	return p.Append(b, env)
}

// binaryArg returns the next argument for a conversion, or for a "*" if s is
// nil.
func binaryArg(s *spec, longSize int) (value, error) {
	t := intType
	switch {
	case s == nil:
	case s.verb == 's':
		return value{str: (*Env).nextString}, nil
	case s.verb == 'c':
		t = ctype{bits: 8}
	case s.verb == 'p':
		switch {
		case s.sub == "" || s.sub == "x" || s.sub == "K" || s.sub[0] == 'S' || s.sub[0] == 's':
			t = ctype{bits: uint8(8 * longSize)}
		default: // made text when it was written
			s.verb = 's'
			return value{str: (*Env).nextString}, nil
		}
	default:
		t = ctype{bits: s.bits, signed: s.verb == 'd' || s.verb == 'i'}
	}
	size := int(t.bits / 8)
	return value{typ: t, num: func(e *Env) uint64 { return e.nextNumber(size, t.signed) }}, nil
}

// nextNumber reads an argument, aligned to its size, at most to four bytes.
func (e *Env) nextNumber(size int, signed bool) uint64 {
	align := min(size, 4)
	e.arg = (e.arg + align - 1) &^ (align - 1)
	at := min(e.arg, len(e.args))
	e.arg = at + size
	return e.number(e.args[at:], size, signed)
}

// nextString reads a string, which a NUL ends.
func (e *Env) nextString(b []byte) []byte {
	rest := e.args[min(e.arg, len(e.args)):]
	n := bytes.IndexByte(rest, 0)
	if n < 0 {
		n = len(rest)
	}
	e.arg += n + 1
	return append(b, rest[:n]...)
}
