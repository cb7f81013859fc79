package render

import (
	"bytes"
	"encoding/binary"
	"strconv"

	"ustack/filemap/resolve"
	"ustack/tracefs"
)

// headCache keeps written headers. A trace has few tasks, and the header of
// each is always the same but for the time.
type headCache [1 << headBits]struct {
	head   [tracefs.UsualHead]byte // as in the trace
	source uint8
	keys   []byte // what follows the time stamp, with its quote
}

const headBits = 9

// append writes the time stamp, its quote, and the keys that follow.
func (c *headCache) append(b []byte, h *resolve.Pending, rec *tracefs.Record) []byte {
	if rec.Body < rec.Off+tracefs.UsualHead+2 {
		return appendHead(b, h.Head(rec), rec)
	}
	text := h.Text[rec.Off:rec.Body]
	const prime = 0x9e3779b97f4a7c15
	key := (binary.LittleEndian.Uint64(text[16:])*prime ^ binary.LittleEndian.Uint64(text[24:])) * prime
	key = (key ^ binary.LittleEndian.Uint64(text[29:])) * prime
	slot := &c[key>>(64-headBits)]
	if len(slot.keys) > 0 && slot.source == rec.Source && string(text[:tracefs.UsualHead]) == string(slot.head[:]) {
		b = append(b, bytes.TrimLeft(text[tracefs.UsualHead:len(text)-2], " ")...)
		return append(b, slot.keys...)
	}
	head := h.Head(rec)
	from := len(b) + len(head.Stamp)
	b = appendHead(b, head, rec)
	if head.Usual {
		copy(slot.head[:], text)
		slot.source, slot.keys = rec.Source, append(slot.keys[:0], b[from:]...)
	}
	return b
}

func appendHead(b []byte, head tracefs.Head, rec *tracefs.Record) []byte {
	b = append(append(b, head.Stamp...), '"')
	b = strconv.AppendInt(append(b, `,"cpu":`...), int64(rec.CPU), 10)
	b = strconv.AppendInt(append(b, `,"pid":`...), int64(rec.TID), 10)
	if head.TGID >= 0 {
		b = strconv.AppendInt(append(b, `,"tgid":`...), int64(head.TGID), 10)
	}
	b = appendText(b, "comm", head.Comm)
	if len(head.Flags) > 0 {
		b = appendText(b, "flags", head.Flags)
	}
	return b
}
