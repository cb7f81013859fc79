package binary

import (
	"encoding/binary"
	"strings"

	"ustack/tracefs"
	"ustack/tracefs/format"
	"ustack/tracefs/syscalls"
)

// argument is one argument of a system call.
type argument struct {
	text  string // ", NAME: "
	value field
	// user is the field with what a pointer points to, if the kernel copied
	// it (since 6.19).
	user *format.Field
	// array is set if user is bytes, not a string; length is the argument with the
	// number of bytes.
	array  bool
	length field
}

// newSyscallEnter prints "sys_futex(uaddr: 0x…, op: 0x80, …)"
// (print_syscall_enter in kernel/trace/trace_syscalls.c).
func newSyscallEnter(p *Printer, f *format.Event) printFunc {
	name := "sys_" + strings.TrimPrefix(f.Name, "sys_enter_") + "("
	var args []argument
	for i := range f.Fields {
		x := &f.Fields[i]
		// The first one is the call's number, on old kernels as "nr"; futex_wake has
		// an argument of that name.
		if i == 0 && (x.Name == "__syscall_nr" || x.Name == "nr") || x.Loc != format.Inline {
			continue
		}
		a := argument{text: x.Name + ": ", value: fieldOf(f, x.Name)}
		if p.k.Options.Verbose {
			a.text = x.Type + " " + a.text
		}
		if len(args) > 0 {
			a.text = ", " + a.text
		}
		if a.user = f.Field("__" + x.Name + "_val"); a.user != nil {
			a.array = strings.Contains(f.PrintFmt, "__print_dynamic_array("+a.user.Name)
			if i+1 < len(f.Fields) {
				a.length = fieldOf(f, f.Fields[i+1].Name)
			}
		}
		args = append(args, a)
	}
	prefixed := p.k.atLeast(6, 18)
	plain, end := onlyWords(p, args)
	call, op := syscalls.Named(strings.TrimPrefix(f.Name, "sys_enter_")), fieldOf(f, "op")
	if call == syscalls.FutexOp && !op.ok {
		call = syscalls.Other
	}
	return func(p *Printer, b *tracefs.Batch, r *tracefs.Record, rec []byte) {
		if call != syscalls.Other && syscalls.CanWait(call, uint32(op.get(p, rec))) {
			r.Flags |= tracefs.CanWait
		}
		if plain && len(rec) >= end {
			b.Text = appendWords(append(b.Text, name...), args, rec, prefixed)
			return
		}
		out := append(b.Text, name...)
		for i := range args {
			a := &args[i]
			out = append(out, a.text...)
			v := a.value.get(p, rec)
			// 3add2d34bdfb, in 6.18: "0x" before what is not a digit.
			if v >= 10 && prefixed {
				out = append(out, "0x"...)
			}
			out = appendHex(out, v)
			if a.user != nil {
				out = p.userData(out, a, rec)
			}
		}
		b.Text = append(out, ')', '\n')
	}
}

// onlyWords reports whether all arguments are words of 8 bytes and nothing else, as those of most
// calls are, and where the last one ends.
func onlyWords(p *Printer, args []argument) (ok bool, end int) {
	for i := range args {
		a := &args[i]
		if a.user != nil || !a.value.ok || a.value.size != 8 || p.env.BigEndian {
			return false, 0
		}
		end = max(end, a.value.off+8)
	}
	return true, end
}

// appendWords prints arguments that are words, and the end of the line. The record has them all.
func appendWords(out []byte, args []argument, rec []byte, prefixed bool) []byte {
	for i := range args {
		a := &args[i]
		out = append(out, a.text...)
		v := binary.LittleEndian.Uint64(rec[a.value.off:])
		if v < 10 {
			out = append(out, '0'+byte(v))
			continue
		}
		if prefixed {
			out = append(out, '0', 'x')
		}
		out = appendHex(out, v)
	}
	return append(out, ')', '\n')
}

// userData prints the memory that an argument points to: ` "STRING"`, or
// ` (61:62:63) "abc"`, whose text is left out if nothing in it can be printed.
func (p *Printer) userData(out []byte, a *argument, rec []byte) []byte {
	data := p.dynamic(rec, a.user)
	if !a.array {
		out = append(out, ` "`...)
		out = append(out, cString(data)...)
		return append(out, '"')
	}
	more := a.length.ok && uint64(len(data)) < a.length.get(p, rec)
	printable := false
	out = append(out, " ("...)
	for i, c := range data {
		if i > 0 {
			out = append(out, ':')
		}
		out = append(out, hexDigits[c>>4], hexDigits[c&15])
		printable = printable || isPrint(c)
	}
	if more {
		out = append(out, ", ..."...)
	}
	out = append(out, ')')
	if !printable {
		return out
	}
	out = append(out, ` "`...)
	for _, c := range data {
		if !isPrint(c) {
			c = '.'
		}
		out = append(out, c)
	}
	out = append(out, '"')
	if more {
		out = append(out, "..."...)
	}
	return out
}

func isPrint(c byte) bool { return c >= ' ' && c <= '~' }

// dynamic returns the data of a __data_loc field, nil if it lies outside of the
// record.
func (p *Printer) dynamic(rec []byte, f *format.Field) []byte {
	if f.Offset+4 > len(rec) {
		return nil
	}
	v := int(p.number(rec[f.Offset:], 4))
	at, n := v&0xffff, v>>16
	if f.Loc == format.RelLoc {
		at += f.Offset + 4
	}
	if at > len(rec) || n > len(rec)-at {
		return nil
	}
	return rec[at : at+n]
}

// newSyscallExit prints "sys_futex -> 0x0" (print_syscall_exit).
func newSyscallExit(_ *Printer, f *format.Event) printFunc {
	name := "sys_" + strings.TrimPrefix(f.Name, "sys_exit_") + " -> 0x"
	ret := fieldOf(f, "ret")
	return func(p *Printer, b *tracefs.Batch, _ *tracefs.Record, rec []byte) {
		b.Text = append(b.Text, name...)
		b.Text = append(appendHex(b.Text, ret.get(p, rec)), '\n')
	}
}
