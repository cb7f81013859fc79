package main

import (
	"encoding/binary"

	"ustack/filemap"
)

// stack is a stack of the report.
type stack struct {
	row    stackRow
	frames []frameRow
	trust  filemap.Trust
	sum    []byte
	site   *frameRow
}

// trustOf returns the trust of a word.
func trustOf(word string) filemap.Trust {
	for _, t := range []filemap.Trust{filemap.Verified, filemap.Announced, filemap.Inferred, filemap.Late, filemap.Claimed} {
		if word == t.String() {
			return t
		}
	}
	return 0
}

// weight orders trust: a stack is trusted as its least trusted frame.
func weight(t filemap.Trust) int {
	for i, one := range []filemap.Trust{0, filemap.Verified, filemap.Announced, filemap.Inferred, filemap.Late, filemap.Claimed} {
		if t == one {
			return i
		}
	}
	return 0
}

// add adds a frame.
func (s *stack) add(f frameRow, t filemap.Trust) {
	s.frames = append(s.frames, f)
	if weight(t) > weight(s.trust) {
		s.trust = t
	}
	switch {
	case f.Path == nil:
		s.sum = appendText(append(s.sum, 'r'), f.Reason)
	case f.BuildID != nil:
		s.sum = appendText(append(s.sum, 'b'), f.BuildID)
	default:
		s.sum = appendText(append(s.sum, 'p'), f.Path)
	}
	if f.Offset != nil {
		s.sum = binary.LittleEndian.AppendUint64(s.sum, uint64(*f.Offset))
	}
	if f.Ran && f.Depth > 0 {
		s.sum = append(s.sum, 'i')
	}
	if s.site == nil && f.Path != nil && (&filemap.File{Path: *f.Path}).Application() {
		site := f
		s.site = &site
	}
}

// appendText appends a text with its length.
func appendText(b []byte, text *string) []byte {
	if text == nil {
		return binary.LittleEndian.AppendUint32(b, 0)
	}
	return append(binary.LittleEndian.AppendUint32(b, uint32(len(*text))+1), *text...)
}

// endStack gives the open stack its key.
func (c *collector) endStack() {
	s := c.open
	if s == nil {
		return
	}
	c.open = nil
	if s.row.Cut {
		s.sum = append(s.sum, 'c')
	}
	s.row.Stack, s.row.Frames = hash(s.sum), int32(len(s.frames))
	for i := range s.frames {
		s.frames[i].Stack = s.row.Stack
	}
	s.sum = nil
}
