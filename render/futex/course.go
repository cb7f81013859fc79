package futex

import (
	"math/bits"
	"slices"

	"ustack/tracefs"
)

// Slice is what ended in one part of the time of a trace: waits of a futex, and their time.
// At is its place: it begins At times Report.SliceTime after the trace.
type Slice struct {
	At    int32
	Waits int64
	Time  tracefs.Time
}

// maxSlices is into how many parts the time of a trace is divided at most: more than half
// as many are in use.
const maxSlices = 32

// course is how waiting went over the time of a trace. It shows how much a total depends on
// when the trace began and ended.
//
// Invariants:
//   - The slices of list are in order and not empty, each is before maxSlices.
//   - A slice spans 1<<shift of the clock.
type course struct {
	list  []Slice
	shift uint8
}

// shiftOf returns how long slices are for a trace of some length, as a power of two.
func shiftOf(length tracefs.Time) uint8 {
	const slicesBits = 5 // 1<<slicesBits == maxSlices
	return uint8(max(bits.Len64(uint64(max(length, 0)))-slicesBits, 0))
}

// add counts a wait that ended at some time after the beginning of the trace.
func (c *course) add(after, d tracefs.Time) {
	c.widen(shiftOf(after))
	c.put(Slice{int32(max(after, 0) >> c.shift), 1, d})
}

// put adds to a slice. Most often that is the last one.
func (c *course) put(s Slice) {
	i := len(c.list)
	for i > 0 && c.list[i-1].At > s.At {
		i--
	}
	if i > 0 && c.list[i-1].At == s.At {
		c.list[i-1].Waits += s.Waits
		c.list[i-1].Time += s.Time
		return
	}
	c.list = slices.Insert(c.list, i, s)
}

// widen makes slices as long as a shift says, if they are shorter.
func (c *course) widen(shift uint8) {
	if shift <= c.shift {
		return
	}
	by := shift - c.shift
	old := c.list
	c.list, c.shift = c.list[:0], shift
	for _, s := range old { // each goes to a place that has been read
		s.At >>= by
		c.put(s)
	}
}

// merge adds another course, which stays as it is.
func (c *course) merge(d *course) {
	c.widen(d.shift)
	for _, s := range d.list {
		s.At >>= c.shift - d.shift
		c.put(s)
	}
}

// at returns the slices, as long as a shift says.
func (c *course) at(shift uint8) []Slice {
	var out course
	out.merge(c)
	out.widen(shift)
	return out.list
}
