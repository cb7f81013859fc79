package binary

import (
	"bytes"
	"encoding/binary"
	"math/bits"

	"ustack/tracefs"
)

// templates recognises stacks that have been seen before by the bytes of their
// arrays, so that neither their text nor their frames need be made again. It is
// a cache: what it does not know is printed frame by frame.
type templates struct {
	off   bool
	batch int64 // counts batches, so that slots know theirs
	slots [1 << templateBits]templateSlot
}

const (
	templateBits = 12
	// maxTemplate bounds the bytes of a stack that is kept.
	maxTemplate = 2 << 10
	// templateCredit is how often another stack must come by before a template
	// leaves its slot.
	templateCredit = 8
)

type templateSlot struct {
	key      uint64
	raw      [3][]byte
	template *tracefs.Template // nil: key has been seen once
	credit   uint8
	batch    int64 // the one in which index is valid
	index    uint32
}

// arrays returns the parts of a stack that identify it.
func (s *stack) arrays() [3][]byte {
	if s.hashed {
		return [3][]byte{s.addrs, s.hashes}
	}
	return [3][]byte{s.addrs, s.inodes, s.devs}
}

const prime, other = 0x9e3779b97f4a7c15, 0xd6e8feb86659fd93

// mix returns a hash of the bytes of the stack's arrays. Like is, it looks at the fields
// themselves: what arrays returns would be read in larger pieces than it was just written in,
// for which the processor has to wait.
func (s *stack) mix() uint64 {
	h := mix(prime, s.addrs)
	if s.hashed {
		return mix(h, s.hashes) * prime
	}
	return mix(mix(h, s.inodes), s.devs) * prime
}

// mix adds bytes to a hash.
func mix(h uint64, a []byte) uint64 {
	for ; len(a) >= 16; a = a[16:] {
		h = fold(h^binary.LittleEndian.Uint64(a), other^binary.LittleEndian.Uint64(a[8:]))
	}
	if len(a) >= 8 {
		h = fold(h^binary.LittleEndian.Uint64(a), prime)
		a = a[8:]
	}
	for _, c := range a {
		h = (h ^ uint64(c)) * prime
	}
	return bits.RotateLeft64(h, 31)
}

// is reports whether the slot's template is of a stack with the same arrays.
func (slot *templateSlot) is(s *stack) bool {
	raw := &slot.raw
	if !bytes.Equal(raw[0], s.addrs) {
		return false
	}
	if s.hashed {
		return bytes.Equal(raw[1], s.hashes) && len(raw[2]) == 0
	}
	return bytes.Equal(raw[1], s.inodes) && bytes.Equal(raw[2], s.devs)
}

// fold returns the product of two numbers, its halves as one.
func fold(a, b uint64) uint64 {
	high, low := bits.Mul64(a, b)
	return high ^ low
}

// find returns the slot of a stack: with a template, if it is known; without, if
// it should be built now; nil if neither.
func (s *templates) find(st *stack) *templateSlot {
	if s.off || st.alone || len(st.addrs) == 0 || len(st.addrs)+len(st.hashes)+len(st.inodes)+len(st.devs) > maxTemplate {
		return nil
	}
	key := st.mix()
	slot := &s.slots[key>>(64-templateBits)]
	if slot.key != key {
		if slot.template != nil && slot.credit > 0 {
			slot.credit--
			return nil
		}
		*slot = templateSlot{key: key}
		return nil
	}
	if slot.template == nil {
		return slot
	}
	if !slot.is(st) {
		return nil
	}
	slot.credit = templateCredit
	return slot
}

// use puts a slot's template in the batch and returns what Record.Template says.
func (s *templates) use(b *tracefs.Batch, slot *templateSlot) uint32 {
	if slot.batch != s.batch {
		slot.batch, slot.index = s.batch, uint32(len(b.Templates))
		b.Templates = append(b.Templates, slot.template)
	}
	return slot.index + 1
}

// build fills a slot with what has just been printed.
func (slot *templateSlot) build(st *stack, text []byte, frames []tracefs.Frame) {
	if len(frames) == 0 || slot.template != nil {
		return
	}
	for i, a := range st.arrays() {
		slot.raw[i] = append([]byte(nil), a...)
	}
	sh := &tracefs.Template{Text: append([]byte(nil), text...), Frames: append([]tracefs.Frame(nil), frames...), Settled: st.settled}
	start := frames[0].Off
	for i := range sh.Frames {
		f := &sh.Frames[i]
		f.Off, f.AddrEnd, f.End = f.Off-start, f.AddrEnd-start, f.End-start
	}
	slot.template, slot.credit = sh, templateCredit
}
