package render

import (
	"strconv"

	"ustack/filemap/symbol"
	"ustack/tracefs"
	"ustack/tracefs/text"
)

// appendFunction writes a frame's name into a line of text:
//
//	work+0x1c work.c:33
//	leaf work.c:12 <- middle work.c:20 <- work+0x1c work.c:33
//	work (inferred)
//	(no symbol: stripped)
//
// The function before "<-" is inlined in the one after it. The text is made once a
// name.
func (t *Text) appendFunction(b []byte, n *symbol.Name) []byte {
	if kept := t.kept.names.Get(n.ID); kept != nil {
		return append(b, kept...)
	}
	from := len(b)
	b = nameText(b, n)
	t.kept.names.Put(n.ID, b[from:])
	return b
}

func nameText(b []byte, n *symbol.Name) []byte {
	if n.Reason != symbol.NoReason {
		b = append(append(b, " (no symbol: "...), n.Reason.String()...)
		if n.Reason == symbol.IDMismatch {
			b = append(append(b, ", build ID of the file there "...), orNone(n.Found.Hex())...)
		}
		return append(b, ')')
	}
	for i := range n.Inlined {
		in := &n.Inlined[i]
		b = text.AppendName(append(b, ' '), orUnknown(in.Function))
		b = append(appendPlaceOf(b, in.File, in.Line), " <-"...)
	}
	b = text.AppendName(append(b, ' '), n.Function)
	if n.Inferred {
		return append(b, text.InferredMark...)
	}
	b = append(b, "+0x"...)
	b = strconv.AppendUint(b, n.Offset, 16)
	return appendPlaceOf(b, n.File, n.Line)
}

func appendPlaceOf(b []byte, file string, line int) []byte {
	if file == "" {
		return b
	}
	b = text.AppendName(append(b, ' '), file)
	if line > 0 {
		b = strconv.AppendInt(append(b, ':'), int64(line), 10)
	}
	return b
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

func orUnknown(s string) string {
	if s == "" {
		return "??"
	}
	return s
}

// appendFunction writes the keys that a name has in a frame.
func (j *JSON) appendFunction(b []byte, n *symbol.Name) []byte {
	if kept := j.kept.names.Get(n.ID); kept != nil {
		return append(b, kept...)
	}
	from := len(b)
	b = nameJSON(b, n)
	j.kept.names.Put(n.ID, b[from:])
	return b
}

func nameJSON(b []byte, n *symbol.Name) []byte {
	if n.Reason != symbol.NoReason {
		b = append(append(append(b, `,"no_function":"`...), n.Reason.String()...), '"')
		if n.Reason == symbol.IDMismatch && !n.Found.IsZero() {
			b = append(append(append(b, `,"found_build_id":"`...), n.Found.Hex()...), '"')
		}
		return b
	}
	b = appendText(b, "function", []byte(n.Function))
	if n.Inferred {
		return append(append(append(b, `,"symbol_source":"`...), n.Source.String()...), '"')
	}
	b = appendHex(append(b, `,"function_offset":`...), n.Offset)
	b = appendPlaceJSON(b, n.File, n.Line)
	if len(n.Inlined) > 0 {
		b = append(b, `,"inlined":[`...)
		for i := range n.Inlined {
			in := &n.Inlined[i]
			if i > 0 {
				b = append(b, ',')
			}
			one := appendPlaceJSON(appendText(nil, "function", []byte(in.Function)), in.File, in.Line)
			b = append(append(append(b, '{'), one[1:]...), '}')
		}
		b = append(b, ']')
	}
	return append(append(append(b, `,"symbol_source":"`...), n.Source.String()...), '"')
}

func appendPlaceJSON(b []byte, file string, line int) []byte {
	if file == "" {
		return b
	}
	b = appendText(b, "file", []byte(file))
	if line > 0 {
		b = strconv.AppendInt(append(b, `,"line":`...), int64(line), 10)
	}
	return b
}

// number returns how much of a frame's line is the arrow and the address,
// without the name that an earlier run has put after it.
func number(txt []byte, f *tracefs.Frame) []byte {
	addrText := txt[f.Off:f.AddrEnd]
	for i, c := range addrText {
		if c == '>' && i > len(text.Arrow) {
			return addrText[:i+1]
		}
	}
	return addrText
}
