package text

import (
	"encoding/binary"

	"ustack/tracefs"
)

// shapes recognises stacks whose frames have been seen before. It is a cache:
// what it does not know is parsed. A stack can be in any of the ways of its
// set.
type shapes struct {
	sets  [1 << setBits]shapeSet
	scans int64
	bytes int // of the shapes, about
}

const (
	setBits = 12
	ways    = 4
	// maxShape bounds the text of a shape, maxShapes that of all.
	maxShape  = 2 << 10
	maxShapes = 2 << 20
	// shapeCredit is how often other stacks must come by before a shape
	// leaves its place.
	shapeCredit = 8
)

// shapeSet is one line of the processor's cache.
type shapeSet struct {
	entries [ways]*shapeEntry
	tags    [ways]uint32 // the key of an entry, or of a stack seen once
	credit  [ways]uint8
}

// shapeEntry is a shape and where it is in the batch of the last scan that met
// it.
type shapeEntry struct {
	text  []byte // of shape
	shape *tracefs.Shape
	scan  int64
	index uint32
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

// place is where in the sets a key belongs.
func (s *shapes) place(key uint64) (set *shapeSet, tag uint32) {
	return &s.sets[key>>(64-setBits)], uint32(key>>16) | 1
}

// find looks whether the frames that begin at i are known, and puts the shape
// in the batch. build tells that the stack should be given to add once its
// frames are parsed.
func (s *shapes) find(b *tracefs.Batch, i int) (sh *tracefs.Shape, index uint32, build bool) {
	text := b.Text
	if len(text)-i < 4*fastMargin {
		return nil, 0, false
	}
	set, tag := s.place(shapeKey(text[i:]))
	for way, other := range set.tags {
		if other != tag {
			continue
		}
		e := set.entries[way]
		if e == nil {
			return nil, 0, true
		}
		end := i + len(e.text)
		if end+fastMargin > len(text) || string(text[i:end]) != string(e.text) ||
			binary.LittleEndian.Uint32(text[end:]) == frameStart&(1<<32-1) {
			continue
		}
		set.credit[way] = shapeCredit
		if e.scan != s.scans {
			e.scan, e.index = s.scans, uint32(len(b.Shapes))
			b.Shapes = append(b.Shapes, e.shape)
		}
		return e.shape, e.index, false
	}
	set.meet(s, tag)
	return nil, 0, false
}

// meet notes that a stack has been seen once, if there is place or a shape
// that has not come for long.
func (set *shapeSet) meet(s *shapes, tag uint32) {
	least := 0
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
	if e := set.entries[least]; e != nil {
		s.bytes -= len(e.text)
	}
	set.tags[least], set.entries[least] = tag, nil
}

// add makes a shape of frames that lie in text[from:to] without a gap.
func (s *shapes) add(text []byte, from, to int, frames []tracefs.Frame) {
	if to-from > maxShape || s.bytes+to-from > maxShapes || len(frames) == 0 {
		return
	}
	set, tag := s.place(shapeKey(text[from:]))
	for way, other := range set.tags {
		if other != tag || set.entries[way] != nil {
			continue
		}
		sh := &tracefs.Shape{Text: append([]byte(nil), text[from:to]...), Frames: append([]tracefs.Frame(nil), frames...)}
		for i := range sh.Frames {
			f := &sh.Frames[i]
			f.Off, f.Stem, f.End = f.Off-uint32(from), f.Stem-uint32(from), f.End-uint32(from)
		}
		set.entries[way] = &shapeEntry{text: sh.Text, shape: sh, scan: -1}
		s.bytes += to - from
		return
	}
}
