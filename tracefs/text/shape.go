package text

import (
	"encoding/binary"

	"ustack/tracefs"
)

// shapes recognises stacks whose frames have been seen before. It is a cache:
// what it does not know is parsed.
//
// A trace has some thousand shapes, more than the processor keeps near, so what
// find looks at is as little as possible and has its place: a stack can be in
// any of the ways of one set, and what it is compared with stands in the slot.
type shapes struct {
	sets   [1 << setBits]shapeSet
	slots  [ways << setBits]shapeSlot
	shapes [ways << setBits]*tracefs.Shape // by slot; nil: seen once
	scans  int64
	bytes  int // of the texts of all shapes
}

const (
	setBits = 11
	ways    = 4
	// maxShape bounds the text of a shape, maxShapes that of all.
	maxShape  = 2 << 10
	maxShapes = 2 << 20
	// shapeCredit is how often other stacks must come by before a shape
	// leaves its place.
	shapeCredit = 8
)

// shapeSet tells the ways of a set apart, by their keys.
type shapeSet struct {
	tags   [ways]uint32
	credit [ways]uint8
}

// shapeSlot holds the text of a shape that is no longer than most.
type shapeSlot struct {
	// scan is the last one that met the shape, index where it then was in the
	// batch.
	scan  int64
	index uint32
	size  uint32 // of the text, 0 if there is no shape
	text  [256 - 16]byte
}

// shapeKey mixes what tells stacks apart: the addresses and hashes of the
// first frames, if their hashes have eight digits as nearly all have. text must
// have four times fastMargin.
func shapeKey(text []byte) uint64 {
	const addr, hash, line = 14, 28, 37
	const prime = 0x9e3779b97f4a7c15
	text = text[:4*fastMargin]
	key := (le64(text[addr:])*prime ^ le64(text[hash:])) * prime
	for at := line; at < 8*line && le64(text[at:])&mask(6) == frameStart; at += line {
		key = ((key^le64(text[at+addr:]))*prime ^ le64(text[at+hash:])) * prime
	}
	return key
}

// find looks whether the frames that begin at i are known, and puts the shape
// in the batch: index is where, size how long it is. build tells that the stack
// should be given to add once its frames are parsed.
func (s *shapes) find(b *tracefs.Batch, i int) (index uint32, size int, build bool) {
	text := b.Text[i:]
	if len(text) < 4*fastMargin {
		return 0, 0, false
	}
	key := shapeKey(text)
	n, tag := key>>(64-setBits), uint32(key>>16)|1
	set := &s.sets[n]
	for way, other := range set.tags {
		if other != tag {
			continue
		}
		at := int(n)*ways + way
		slot := &s.slots[at]
		size := int(slot.size)
		switch {
		case size == 0:
			return 0, 0, true
		case size+fastMargin > len(text):
			continue
		case size <= len(slot.text):
			if string(text[:size]) != string(slot.text[:size]) {
				continue
			}
		case string(text[:size]) != string(s.shapes[at].Text):
			continue
		}
		if binary.LittleEndian.Uint32(text[size:]) == frameStart&(1<<32-1) {
			continue // it goes on
		}
		set.credit[way] = shapeCredit
		if slot.scan != s.scans {
			slot.scan, slot.index = s.scans, uint32(len(b.Shapes))
			b.Shapes = append(b.Shapes, s.shapes[at])
		}
		return slot.index, size, false
	}
	s.meet(int(n), tag)
	return 0, 0, false
}

// meet notes that a stack has been seen once, if there is place or a shape
// that has not come for long.
func (s *shapes) meet(n int, tag uint32) {
	set, least := &s.sets[n], 0
	for way := range ways {
		if set.credit[way] < set.credit[least] {
			least = way
		}
	}
	if set.credit[least] > 0 {
		for way := range ways {
			set.credit[way]--
		}
		return
	}
	at := n*ways + least
	s.bytes -= int(s.slots[at].size)
	set.tags[least], s.shapes[at], s.slots[at].size = tag, nil, 0
}

// add makes a shape of frames that lie in text[from:to] without a gap.
func (s *shapes) add(text []byte, from, to int, frames []tracefs.Frame) {
	if to-from > maxShape || s.bytes+to-from > maxShapes || len(frames) == 0 {
		return
	}
	key := shapeKey(text[from:])
	n, tag := int(key>>(64-setBits)), uint32(key>>16)|1
	for way, other := range s.sets[n].tags {
		slot := &s.slots[n*ways+way]
		if other != tag || slot.size != 0 {
			continue
		}
		sh := &tracefs.Shape{Text: append([]byte(nil), text[from:to]...), Frames: append([]tracefs.Frame(nil), frames...)}
		for i := range sh.Frames {
			f := &sh.Frames[i]
			f.Off, f.Stem, f.End = f.Off-uint32(from), f.Stem-uint32(from), f.End-uint32(from)
		}
		s.shapes[n*ways+way] = sh
		copy(slot.text[:], sh.Text)
		slot.size, slot.scan = uint32(to-from), s.scans-1
		s.bytes += to - from
		return
	}
}
