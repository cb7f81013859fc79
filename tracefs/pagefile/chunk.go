package pagefile

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
)

// Magic begins a file: a byte that no text has, line ends that a transfer as text would
// change, and the version.
const Magic = "\x89USP\r\n\x1a\x01"

// Is reports whether a file begins so.
func Is(head []byte) bool { return string(head[:min(len(head), 4)]) == Magic[:4] }

// kind says what is in a chunk.
type kind uint32

const (
	kindMeta kind = 1 + iota
	kindHead
	kindLog
	kindComms
	kindPages
	kindNote
	kindEnd
)

const (
	headSize = 24
	// chunkSize is how much a chunk has at most, a sub-buffer more or less.
	chunkSize = 256 << 10
	// maxChunk bounds what is in a chunk: the largest sub-buffer fits.
	maxChunk = 2 << 20
)

// head is the head of a chunk.
type head struct {
	kind         kind
	cpu          uint32
	packed, size uint32
	sum          uint32
}

var errHead = errors.New("no head of a chunk: the file is damaged")

func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }

// append appends the head, and returns the sum that the next one goes on from.
func (h *head) append(b []byte, chain uint32) ([]byte, uint32) {
	from := len(b)
	for _, v := range [...]uint32{uint32(h.kind), h.cpu, h.packed, h.size, h.sum} {
		b = binary.LittleEndian.AppendUint32(b, v)
	}
	chain = crc32.Update(chain, castagnoli(), b[from:])
	return binary.LittleEndian.AppendUint32(b, chain), chain
}

// parse reads a head of headSize bytes.
func (h *head) parse(b []byte, chain uint32) (next uint32, err error) {
	next = crc32.Update(chain, castagnoli(), b[:headSize-4])
	if next != binary.LittleEndian.Uint32(b[headSize-4:]) {
		return 0, errHead
	}
	h.fields(b)
	if h.size > maxChunk {
		return 0, errHead
	}
	return next, nil
}

// fields reads the head without a check.
func (h *head) fields(b []byte) {
	at := func(i int) uint32 { return binary.LittleEndian.Uint32(b[4*i:]) }
	*h = head{kind(at(0)), at(1), at(2), at(3), at(4)}
}
