//go:build !device

package resolve

import (
	"bytes"

	"ustack/filemap"
	"ustack/tracefs"
	"ustack/tracefs/text"
)

// codeMemory has the memory that reports name as code, by its text: a frame is repeated
// often.
type codeMemory map[codeText]*filemap.Memory

// codeText is the text of a frame after its address and a colon, and the address.
type codeText struct {
	text string
	addr uint64
}

// maxCodeMemory bounds the memory that is kept.
const maxCodeMemory = 1 << 14

// code returns the memory with code that a report has a frame in, nil if it has none. Only
// escaped text is read: elsewhere a name can contain anything.
func (t *texts) code(txt []byte, f *tracefs.Frame, reason filemap.Reason) *filemap.Memory {
	if !t.escaped || reason != filemap.Anonymous {
		return nil
	}
	line := txt[f.Off:f.AddrEnd]
	if !bytes.Contains(line, []byte(text.CodeMark)) {
		return nil
	}
	_, rest, _ := bytes.Cut(line, []byte("> : "))
	addr := f.Address(txt)
	if m := t.memory[codeText{string(rest), addr}]; m != nil {
		return m
	}
	key := codeText{string(rest), addr}
	name, c, ok := text.CutCode(rest)
	if !ok || !c.Runtime && c.Offset > addr {
		return nil
	}
	m := &filemap.Memory{Name: string(t.plain(name)), Exec: true}
	if c.Function != "" {
		m.Code = &filemap.Code{Function: c.Function, Runtime: c.Runtime, Offset: c.Offset, Inlined: c.Inlined}
		if !c.Runtime {
			m.Code.Start, m.Code.Offset = addr-c.Offset, 0
		}
	}
	if len(t.memory) >= maxCodeMemory || t.memory == nil {
		t.memory = make(codeMemory)
	}
	t.memory[key] = m
	return m
}
