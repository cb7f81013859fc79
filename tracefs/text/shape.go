package text

import (
	"encoding/binary"

	"ustack/tracefs"
)

// shapes recognises stacks whose frames have been seen before. It is a cache:
// what it does not know is parsed.
type shapes struct {
	slots [1 << shapeBits]shapeSlot
	scans int64
}

const (
	shapeBits = 12
	// maxShape bounds the text of a shape, so that the cache stays small.
	maxShape = 2 << 10
	// shapeCredit is how often another stack must come by before a shape
	// leaves its slot.
	shapeCredit = 8
)

type shapeSlot struct {
	key    uint64
	shape  *tracefs.Shape // nil: key has been seen once
	credit uint8
	scan   int64 // the scan in which index is valid
	index  uint32
}

// shapeKey mixes what tells stacks apart: the addresses and hashes of the
// first three frames, if their hashes have eight digits as nearly all have.
func shapeKey(text []byte) uint64 {
	const addr, hash, line = 14, 28, 37
	const prime = 0x9e3779b97f4a7c15
	start := le64([]byte(" =>  <\x00\x00"))
	key := (le64(text[addr:])*prime ^ le64(text[hash:])) * prime
	for range 2 {
		text = text[line:]
		if le64(text)&mask(6) != start {
			break
		}
		key = ((key^le64(text[addr:]))*prime ^ le64(text[hash:])) * prime
	}
	return key
}

// find looks whether the frames that begin at i are known, and puts the shape
// in the batch. build tells that the stack should be given to add once its
// frames are parsed.
func (s *shapes) find(b *tracefs.Batch, i int) (sh *tracefs.Shape, index uint32, build bool) {
	text := b.Text
	if len(text)-i < 4*fastMargin {
		return nil, 0, false
	}
	key := shapeKey(text[i:])
	slot := &s.slots[key>>(64-shapeBits)]
	if slot.key != key {
		if slot.shape != nil && slot.credit > 0 {
			slot.credit--
			return nil, 0, false
		}
		*slot = shapeSlot{key: key}
		return nil, 0, false
	}
	sh = slot.shape
	if sh == nil {
		return nil, 0, true
	}
	end := i + len(sh.Text)
	if end+fastMargin > len(text) || string(text[i:end]) != string(sh.Text) ||
		binary.LittleEndian.Uint32(text[end:]) == ' '|'='<<8|'>'<<16|' '<<24 {
		return nil, 0, false
	}
	slot.credit = shapeCredit
	if slot.scan != s.scans {
		slot.scan, slot.index = s.scans, uint32(len(b.Shapes))
		b.Shapes = append(b.Shapes, sh)
	}
	return sh, slot.index, false
}

// add makes a shape of frames that lie in text[from:to] without a gap.
func (s *shapes) add(text []byte, from, to int, frames []tracefs.Frame) {
	if to-from > maxShape || len(frames) == 0 {
		return
	}
	key := shapeKey(text[from:])
	slot := &s.slots[key>>(64-shapeBits)]
	if slot.key != key || slot.shape != nil {
		return
	}
	sh := &tracefs.Shape{Text: append([]byte(nil), text[from:to]...), Frames: append([]tracefs.Frame(nil), frames...)}
	for i := range sh.Frames {
		f := &sh.Frames[i]
		f.Off, f.Stem, f.End = f.Off-uint32(from), f.Stem-uint32(from), f.End-uint32(from)
	}
	slot.shape = sh
}
