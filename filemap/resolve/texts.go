package resolve

import (
	"bytes"
	"encoding/hex"

	"ustack/filemap"
	"ustack/tracefs"
	"ustack/tracefs/escape"
	"ustack/tracefs/text"
)

// texts gives frames that have no identifier to look up the attribution in their own
// text. It remembers only what the plain frames before them looked like.
//
// Invariants: plain frames are read in the requested dialect, if it is one of theirs,
// whatever they look like.
type texts struct {
	dialect  Dialect // Auto to find out
	escaped  bool    // the text of the newest batch is
	votes    votes
	bindings *bindings
	find     func(filemap.BuildID) (path string, trust filemap.Trust) // Options.FindID
	memory   codeMemory
}

// specialMappings bounds the offsets of the vDSO and its like: they are a few
// pages, while mmap_min_addr keeps all other memory above.
const specialMappings = 1 << 16

// attribution returns the attribution of a frame that has no identifier to look up.
func (t *texts) attribution(txt []byte, f *tracefs.Frame) Attribution {
	switch f.Form {
	case tracefs.FormIdentifier:
		switch {
		case f.ID.NoVMA():
			return unnamed(filemap.NoVMA)
		case f.Address(txt) < specialMappings:
			return unnamed(filemap.VDSO)
		}
		return unnamed(filemap.Anonymous)
	case tracefs.FormResolved:
		o := t.alreadyNamed(txt[f.AddrEnd:f.End])
		if o.File != nil {
			o.Trust = writtenTrust(f)
		}
		return o
	case tracefs.FormBuildID:
		return t.byID(text.MapBuildID(txt, f), f.Addr)
	case tracefs.FormUnresolved:
		reason := givenReason(txt[f.AddrEnd:f.End])
		return Attribution{Reason: reason, Memory: t.code(txt, f, reason)}
	case tracefs.FormObject:
		if text.ObjectOffset(txt[f.Off:f.AddrEnd]) >= 1<<63 {
			return unnamed(filemap.NoVMA)
		}
		return unnamed(filemap.VMAOffset)
	case tracefs.FormCut:
		return unnamed(filemap.Truncated)
	}
	return unnamed(filemap.Unreadable)
}

// byID returns the attribution of an offset in the file with a build ID. The kernel has seen
// the file, but where it is was found afterwards.
func (t *texts) byID(id filemap.BuildID, offset uint64) Attribution {
	if offset >= filemap.NoFileOffset {
		return unnamed(filemap.NoVMA)
	}
	if t.find == nil || id.IsZero() {
		return unnamed(filemap.NoPath)
	}
	path, trust := t.find(id)
	if trust == filemap.NoTrust {
		return unnamed(filemap.NoPath)
	}
	t.bindings.bound()
	o := Named(t.bindings.files.InternID([]byte(path), id), trust)
	if o.File == nil {
		return unnamed(filemap.NoPath) // its path cannot be written
	}
	o.Offset, o.HasOffset = offset, true
	return o
}

// writtenTrust returns the trust of a frame that has its file in the text: never
// more than an earlier run of ustack had. A frame without a mark has the trust
// of the kernel, which writes the file of a frame that it looks at.
func writtenTrust(f *tracefs.Frame) filemap.Trust {
	if f.Inferred() && f.Mark() == tracefs.NoMark {
		return filemap.Inferred
	}
	return filemap.Marked(f.Mark())
}

// alreadyNamed takes " : path=PATH build_id={…}" of a frame as it is.
func (t *texts) alreadyNamed(suffix []byte) Attribution {
	_, file, _ := bytes.Cut(suffix, []byte("path="))
	t.bindings.bound()
	if text.Appended(file) {
		return unnamed(filemap.Unreadable)
	}
	if path, id, ok := hexID(file); ok {
		return Named(t.bindings.files.InternID(t.plain(path), id), filemap.Announced)
	}
	path, words := text.SplitFile(file)
	path = t.plain(path)
	if usable := text.UsablePath(path); !usable && !(t.escaped && text.UsableOwn(path)) {
		return unnamed(filemap.Unreadable)
	}
	return Named(t.bindings.files.Intern(path, words), filemap.Announced)
}

// plain returns a piece of a batch's text as it was before it was escaped.
func (t *texts) plain(piece []byte) []byte {
	if t.escaped {
		return escape.Undo(piece)
	}
	return piece
}

// hexID takes "PATH [build_id=HEX]" apart, as render writes it on demand.
func hexID(file []byte) (path []byte, id filemap.BuildID, ok bool) {
	const open = text.HexMark
	at := bytes.LastIndex(file, []byte(open))
	if at < 0 || file[len(file)-1] != ']' {
		return nil, id, false
	}
	n, err := hex.Decode(id[:], file[at+len(open):min(len(file)-1, at+len(open)+2*len(id))])
	return file[:at], id, err == nil && at+len(open)+2*n == len(file)-1
}

// givenReason reads the reason an earlier run gave.
func givenReason(suffix []byte) filemap.Reason {
	word := bytes.TrimSuffix(bytes.TrimPrefix(suffix, []byte(text.UnresolvedMark)), []byte(")"))
	if reason, ok := filemap.ParseReason(string(word)); ok {
		return reason
	}
	return filemap.Unreadable
}

// votes count what the plain deferred stacks look like. Offsets in files are
// small, addresses of position independent programs and libraries are not;
// one stack of a program that is linked to 0x400000 proves nothing.
type votes struct {
	plain, offset int
}

const (
	largestFile = 1 << 32  // offsets are below
	lowestText  = 0x400000 // of a program that is not position independent
)

// plainStack decides what the numbers of a deferred stack without identifiers
// are. Those of frames that ustack has found are addresses.
func (t *texts) plainStack(text []byte, frames []tracefs.Frame, out []Attribution) {
	low, high, tiny := 0, 0, 0
	for k := range frames {
		if frames[k].Form != tracefs.FormPlain || frames[k].Followed() {
			continue
		}
		switch a := frames[k].Address(text); {
		case a < lowestText:
			tiny++
			low++
		case a < largestFile:
			low++
		default:
			high++
		}
	}
	switch {
	case tiny > 0 && low > high:
		t.votes.offset++
	case high > low:
		t.votes.plain++
	}
	reason := filemap.NoAddressSpace
	if t.plainDialect() == Offset {
		reason = filemap.NoIdentifier
	}
	for k := range frames {
		if frames[k].Form == tracefs.FormPlain && !frames[k].Followed() {
			out[k] = unnamed(reason)
		}
	}
}

// plainDialect is Plain or Offset, the dialect of frames with a number and
// nothing else.
func (t *texts) plainDialect() Dialect {
	if t.dialect == Plain || t.dialect == Offset {
		return t.dialect
	}
	if t.votes.offset > t.votes.plain {
		return Offset
	}
	return Plain
}

// dialectOf returns the dialect of a stack by the first frame that shows it, Auto
// if no frame does.
func (t *texts) dialectOf(b *tracefs.Batch, rec *tracefs.Record) Dialect {
	if t.dialect != Auto {
		return t.dialect
	}
	if !b.Headed(rec) {
		return Resolved // of a BPF map: build IDs, or what was made of them
	}
	if rec.Flags&tracefs.Deferred == 0 {
		return Stock
	}
	frames, _ := b.StackFrames(rec)
	for k := range frames {
		switch f := &frames[k]; {
		case f.Form == tracefs.FormIdentifier && f.ID.IsInode():
			return Inode
		case f.Form == tracefs.FormIdentifier:
			return Hash
		case f.Form == tracefs.FormResolved:
			return Resolved
		case f.Form == tracefs.FormPlain && !f.Followed():
			return t.plainDialect()
		}
	}
	return Auto
}
