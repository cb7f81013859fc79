package render

import (
	"bytes"

	"ustack/filemap"
	"ustack/filemap/resolve"
	"ustack/filemap/symbol"
	"ustack/tracefs"
	"ustack/tracefs/text"
)

// frames writes a stack. stock means that the kernel took the stack at the event.
func (j *JSON) frames(b []byte, s *stack, cut, stock bool) []byte {
	frames := s.frames
	b = append(b, `,"stack":[`...)
	for k := range frames {
		if k > 0 {
			b = append(b, ',')
		}
		fn := functionOf(s.functions, k)
		b = j.appendFrame(b, s.text, &frames[k], &s.out[k], fn)
		if how, _ := frames[k].Unwound(); how != tracefs.ByKernel {
			b = append(append(append(b[:len(b)-1], `,"how":"`...), how.String()...), `"}`...)
		}
		if fn != nil && fn.Skipped != nil {
			b = j.appendSkipped(append(b, ','), fn.Skipped, s.out[k].Trust.Skipped())
		}
	}
	b = append(b, ']')
	if cut {
		b = append(b, `,"stack_truncated":true`...)
	}
	if resolve.AtLimit(frames, stock) {
		return append(b, `,"stack_end":"`+resolve.KernelLimit+`"`...)
	}
	if n := len(frames); n > 0 {
		if _, stop := frames[n-1].Unwound(); stop != tracefs.NoStop {
			b = append(append(append(b, `,"stack_end":"`...), stop.String()...), '"')
		}
	}
	return b
}

// appendFrame writes one frame: a number, and a file with its trust or the
// reason why there is none. fn is nil without names.
func (j *JSON) appendFrame(b, txt []byte, f *tracefs.Frame, o *resolve.Attribution, fn *symbol.Function) []byte {
	addrText := txt[f.Off:f.AddrEnd]
	if o.File != nil {
		if o.HasOffset {
			b = appendHex(append(b, `{"offset":`...), o.Offset)
			if f.Form == tracefs.FormPlain {
				b = appendNumber(append(b, `,"address":`...), addrText, f)
			}
		} else {
			b = appendNumber(append(b, `{"offset":`...), addrText, f)
		}
		b = append(b, j.fileJSON(o.File)...)
		b = append(append(append(b, `,"trust":"`...), o.Trust.String()...), '"')
		if f.Inferred() {
			return append(b, inferredJSON...)
		}
		if fn != nil {
			b = j.appendFunction(b, fn.Name)
		}
		return append(b, '}')
	}
	b = append(append(append(b, `{"reason":"`...), o.Reason.String()...), '"')
	switch {
	case o.Reason == filemap.VMAOffset && o.Memory != nil:
		b = appendHex(append(b, `,"vma_offset":`...), o.Offset)
		var room [256]byte
		b = appendText(b, "text", text.AppendObject(room[:0], []byte(o.Memory.Name), o.Offset))
		return append(appendNumber(append(b, `,"address":`...), addrText, f), '}')
	case o.HasOffset:
		b = appendHex(append(b, `,"offset":`...), o.Offset)
		if f.Form == tracefs.FormPlain {
			b = appendNumber(append(b, `,"address":`...), addrText, f)
		}
	default:
		b = j.appendPlace(b, txt, f, o)
	}
	if o.Memory != nil {
		b = appendText(b, "memory", []byte(o.Memory.Name))
	}
	if fn != nil && fn.Name != nil {
		b = nameJSON(b, fn.Name)
	}
	if f.Form == tracefs.FormIdentifier && !f.ID.NoFile() && !f.ID.NoVMA() {
		b = appendIdentifier(append(b, `,"identifier":`...), f.ID)
	}
	return append(b, '}')
}

// inferredJSON ends a frame that the kernel did not give.
const inferredJSON = `,"inferred":true}`

// appendSkipped writes the frame of a function that was left out.
func (j *JSON) appendSkipped(b []byte, s *symbol.Skipped, trust filemap.Trust) []byte {
	b = appendHex(append(b, `{"offset":`...), s.Offset)
	b = append(b, j.fileJSON(s.File)...)
	b = append(append(append(b, `,"trust":"`...), trust.String()...), '"')
	return append(j.appendFunction(b, s.Name), inferredJSON...)
}

// appendPlace writes the number of a frame without a file under the name of
// what it is.
func (j *JSON) appendPlace(b, txt []byte, f *tracefs.Frame, o *resolve.Attribution) []byte {
	addrText := txt[f.Off:f.AddrEnd]
	raw := f.Form == tracefs.FormPlain && o.Reason != filemap.NoIdentifier
	reason := o.Reason
	if f.Form == tracefs.FormBuildID {
		reason = filemap.NoPath // both numbers are shown, if they are of no file, too
	}
	switch reason {
	case filemap.VDSO, filemap.NoIdentifier, filemap.Unannounced, filemap.Lost, filemap.Ambiguous, filemap.Contradicted, filemap.Forgotten, filemap.OnlyClaimed, filemap.NoPath:
		key := `,"offset":`
		if raw {
			key = `,"address":`
		}
		b = appendNumber(append(b, key...), addrText, f)
		if f.Form == tracefs.FormBuildID {
			b = append(append(append(b, `,"build_id":"`...), mapBuildID(txt, f).Hex()...), '"')
		}
	case filemap.VMAOffset:
		b = appendHex(append(b, `,"vma_offset":`...), text.ObjectOffset(addrText))
		b = appendText(b, "text", j.plain(bytes.TrimPrefix(addrText, []byte(text.Arrow))))
		if addr, ok := bytes.CutPrefix(txt[f.AddrEnd:f.End], []byte(" <")); ok { // option sym-addr
			b = appendNumber(append(b, `,"address":`...), addr, f)
		}
	case filemap.Truncated, filemap.Unreadable:
		end := f.End
		if f.Form == tracefs.FormUnresolved {
			end = f.AddrEnd // without the reason
		}
		b = appendText(b, "text", j.plain(txt[f.Off:end]))
	default:
		if f.Form != tracefs.FormObject {
			b = appendNumber(append(b, `,"address":`...), addrText, f)
		}
	}
	return b
}

// mapBuildID returns the build ID of a frame that has no path.
func mapBuildID(txt []byte, f *tracefs.Frame) filemap.BuildID {
	return filemap.BuildID(text.MapBuildID(txt, f))
}

// fileJSON returns the keys of a file, made once.
func (j *JSON) fileJSON(f *filemap.File) []byte {
	place := j.kept.file(f)
	if place.text == nil {
		place.text = appendFileJSON(nil, f)
	}
	return place.text
}

func appendFileJSON(b []byte, f *filemap.File) []byte {
	b = appendText(b, "path", []byte(f.Path))
	if !f.BuildID.IsZero() {
		b = append(append(append(b, `,"build_id":"`...), f.BuildID.Hex()...), '"')
	}
	return b
}

// appendIdentifier writes an identifier as the kernel prints it.
func appendIdentifier(b []byte, id tracefs.Identifier) []byte {
	b = append(b, '"')
	b = id.Append(b)
	return append(b, '"')
}

// appendNumber writes a frame's number: what ends its address text,
// " =>  <%016x>", without its leading zeros. The digits are there already; they
// need no reading.
func appendNumber(b, addrText []byte, f *tracefs.Frame) []byte {
	if f.HasAddr {
		return appendHex(b, f.Addr)
	}
	digits := tracefs.AddrDigits(addrText)
	for _, c := range digits {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return append(b, "null"...)
		}
	}
	for len(digits) > 1 && digits[0] == '0' {
		digits = digits[1:]
	}
	b = append(append(b, `"0x`...), digits...)
	return append(b, '"')
}
