package futex

import (
	"iter"
	"math/bits"
	"math/rand/v2"
)

// threadTable are threads by their number. In a Go map that threads pass through,
// new ones wait for memory: it keeps the places of forgotten threads, and is walked
// in no order. This table leaves those out, has numbers next to each other in one
// line of the processor's cache, and is walked in the order in which threads came,
// as they lie in memory.
type threadTable struct {
	list  []numbered // in the order in which they came
	slots []numbered // a power of two, twice the threads at least; empty ones have none
	seed  uint64
}

// numbered is a thread with its number.
type numbered struct {
	tid int32
	th  *thread
}

const (
	// fewSlots is how many slots there are at first.
	fewSlots = 256
	// lineBits is how many numbers lie together: 16 bytes each in a line of 64.
	lineBits = 2
)

// slot returns where a number is, if its place is not taken: numbers of a line have
// one slot, mixed with a seed that no trace can know.
func (t *threadTable) slot(tid int32) uint32 {
	n := uint32(tid)
	hi, lo := bits.Mul64(uint64(n>>lineBits)^t.seed, 0x9e3779b97f4a7c15)
	return (uint32(hi^lo)<<lineBits | n&(1<<lineBits-1)) & uint32(len(t.slots)-1)
}

// get returns the thread of a number, nil if there is none.
func (t *threadTable) get(tid int32) *thread {
	if len(t.slots) == 0 {
		return nil
	}
	for i := t.slot(tid); ; i = (i + 1) & uint32(len(t.slots)-1) {
		if s := &t.slots[i]; s.th == nil || s.tid == tid {
			return s.th
		}
	}
}

// count returns how many threads there are.
func (t *threadTable) count() int { return len(t.list) }

// all returns the threads, in the order in which they came.
func (t *threadTable) all() iter.Seq[*thread] {
	return func(yield func(*thread) bool) {
		for _, n := range t.list {
			if !yield(n.th) {
				return
			}
		}
	}
}

// put adds a thread whose number is not in the table.
func (t *threadTable) put(th *thread) {
	n := numbered{th.tid, th}
	t.list = append(t.list, n)
	if 2*len(t.list) <= len(t.slots) {
		t.place(n)
		return
	}
	t.slots = make([]numbered, max(2*len(t.slots), fewSlots))
	t.seed = rand.Uint64()
	for _, n := range t.list {
		t.place(n)
	}
}

func (t *threadTable) place(n numbered) {
	i := t.slot(n.tid)
	for t.slots[i].th != nil {
		i = (i + 1) & uint32(len(t.slots)-1)
	}
	t.slots[i] = n
}

// forget removes the threads at places of the list.
func (t *threadTable) forget(gone []candidate) {
	for i := range gone {
		t.list[gone[i].at].th = nil
	}
	left := t.list[:0]
	clear(t.slots)
	for _, n := range t.list {
		if n.th != nil {
			left = append(left, n)
			t.place(n)
		}
	}
	clear(t.list[len(left):])
	t.list = left
}
