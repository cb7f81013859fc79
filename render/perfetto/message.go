package perfetto

import (
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
)

// message is an encoded message to which fields are added.
type message []byte

func (m *message) uint(f field, v uint64) {
	*m = protowire.AppendVarint(protowire.AppendTag(*m, f, protowire.VarintType), v)
}

func (m *message) fixed(f field, v uint64) {
	*m = protowire.AppendFixed64(protowire.AppendTag(*m, f, protowire.Fixed64Type), v)
}

func (m *message) bytes(f field, v []byte) {
	*m = protowire.AppendBytes(protowire.AppendTag(*m, f, protowire.BytesType), v)
}

// text adds a string, with U+FFFD for each byte that is no UTF-8: readers may
// refuse a message that has others.
func (m *message) text(f field, v string) {
	*m = protowire.AppendString(protowire.AppendTag(*m, f, protowire.BytesType), valid(v))
}

func valid(v string) string {
	if utf8.ValidString(v) {
		return v
	}
	return string([]rune(v))
}

// entry adds an entry to a table of InternedData.
func (m *message) entry(table field, iid uint64, text string) {
	size := protowire.SizeTag(entryIID) + protowire.SizeVarint(iid) + protowire.SizeTag(entryText) + protowire.SizeBytes(len(text))
	*m = protowire.AppendVarint(protowire.AppendTag(*m, table, protowire.BytesType), uint64(size))
	m.uint(entryIID, iid)
	*m = protowire.AppendString(protowire.AppendTag(*m, entryText, protowire.BytesType), text)
}

// shorten bounds a text: hostile ones can be of any size.
func shorten(v string) string {
	const most = 4096
	if len(v) <= most {
		return v
	}
	n := most
	for n > most-utf8.UTFMax && !utf8.RuneStart(v[n]) {
		n--
	}
	return v[:n] + "…"
}
