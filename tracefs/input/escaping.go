package input

import (
	"ustack/tracefs"
	"ustack/tracefs/text"
)

// escaping makes the batches of a source escaped. It implements Reader.
type escaping struct {
	src       *Source
	pos, line int64
}

// Next implements Reader. Places are those in the text that is made.
func (e *escaping) Next(b *tracefs.Batch) error {
	err := e.src.Next(b)
	if b.Escaped { // a file of ours
		return err
	}
	text.Escape(b)
	if e.line == 0 {
		e.pos, e.line = int64(len(text.Head)), 1
	}
	b.Pos, b.Line = e.pos, e.line
	e.pos, e.line = e.pos+int64(len(b.Text)), e.line+b.Lines
	return err
}

// isEscaped reports whether a plain file is known to be one of ours.
func (in *File) isEscaped() bool { return len(in.head()) > 0 }

// head returns the head of a plain file of ours, nil for others.
func (in *File) head() []byte {
	if in.plain == nil || in.foreign {
		return nil
	}
	head := make([]byte, text.MaxHead)
	n, _ := in.plain.ReadAt(head, in.start)
	length, _, _ := text.CutHead(head[:n], false)
	return head[:length]
}
