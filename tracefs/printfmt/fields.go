package printfmt

import (
	"strconv"
	"strings"

	"ustack/tracefs/format"
)

// AppendFields appends " NAME=VALUE" for every field of an event, as the
// kernel's option fields prints them (print_fields in
// kernel/trace/trace_output.c, as of 6.18).
func AppendFields(b []byte, event *format.Event, env *Env) []byte {
	for i := range event.Fields {
		f := &event.Fields[i]
		b = append(b, ' ')
		b = append(b, f.Name...)
		b = append(b, '=')
		b = env.appendField(b, f)
	}
	return b
}

func (e *Env) appendField(b []byte, f *format.Field) []byte {
	if f.Offset+f.Size > len(e.Record) {
		return append(b, "<OVERFLOW>"...)
	}
	data := e.Record[f.Offset : f.Offset+f.Size]
	if f.Loc != format.Inline {
		data, n := e.dynamic(f.Offset, f.Loc == format.RelLoc)
		if n > len(data) {
			return append(b, "<OVERFLOW>"...)
		}
		if isChar(f.Type) {
			return append(b, cString(data[:n])...)
		}
		return appendHexBytes(b, data[:n], ",")
	}
	if f.Array && isChar(f.Type) {
		return append(b, cString(data)...)
	}
	v := e.number(data, f.Size, false)
	switch f.Size {
	case 1:
		if v >= ' ' && v <= '~' {
			b = append(b, '\'', byte(v), '\'')
		}
		b = append(b, '(')
		b = strconv.AppendUint(b, v, 10)
		return append(b, ')')
	case 2, 4, 8:
		if f.Size == e.LongSize && e.IsText != nil && e.IsText(v) {
			b = e.appendSymbol(b, v, true)
		} else {
			b = appendHex(append(b, "0x"...), v)
		}
		b = append(b, " ("...)
		b = strconv.AppendInt(b, int64(ctype{bits: uint8(8 * f.Size), signed: f.Size > 2}.fit(v)), 10)
		return append(b, ')')
	}
	return append(b, "<INVALID-SIZE>"...)
}

// isChar reports whether arrays of a type are strings.
func isChar(typ string) bool {
	return strings.TrimPrefix(typ, "const ") == "char"
}
