// Package cause decides which waits have the same cause: threads wait for the same kind of lock
// at the same place, and the same place lets them go on.
//
// A place is the innermost frames of a stack that are not of the C library, by file and offset:
// the same on all devices. One frame of a cause may differ: replaced, added or left out.
package cause

import (
	"encoding/binary"
	"strconv"

	"github.com/cespare/xxhash/v2"

	"ustack/filemap"
)

const (
	// Frames is how many frames are compared of each stack.
	Frames = 5
	// MostFrames is how many are read: one more, for one that was added.
	MostFrames = Frames + 1
	// leastFrames is how many frames must be the same beside one that differs: the outermost
	// one of all threads of a program is often the same.
	leastFrames = 2
)

// Frame is the xxhash of a frame as it is on all devices.
type Frame uint64

// FrameOf returns a frame of a file, which has a build ID in hex, or else its path. offset is -1
// if it is unknown; ran is set if the thread was there, not if it would return there.
func FrameOf(file string, offset int64, ran bool) Frame {
	b := binary.LittleEndian.AppendUint64(appendText(make([]byte, 0, 64), file), uint64(offset))
	if ran {
		b = append(b, 'r')
	}
	return Frame(xxhash.Sum64(b))
}

// FileOf returns what FrameOf calls a file.
func FileOf(f *filemap.File) string {
	if id := f.BuildID; !id.IsZero() {
		return id.Hex()
	}
	return f.Path
}

// Cause is what waits have in common. Frames are innermost first, at most MostFrames, none if
// they are unknown.
type Cause struct {
	Kind          string // of the lock
	Waiter, Owner []Frame
}

// Known reports whether there is anything but the kind: waits of which nothing is known have no
// cause in common.
func (c *Cause) Known() bool { return len(c.Waiter)+len(c.Owner) > 0 }

// Certain reports whether the place where the thread waits has frames enough that waits of it
// are of one cause: the innermost one alone can be a function that takes any lock.
func (c *Cause) Certain() bool { return len(c.Waiter) >= leastFrames }

// Sum returns the xxhash of a cause.
func (c *Cause) Sum() uint64 { return c.sum("", c.Waiter, c.Owner) }

// sum returns the xxhash of what is compared.
func (c *Cause) sum(what string, waiter, owner []Frame) uint64 {
	b := appendText(appendText(make([]byte, 0, 256), what), c.Kind)
	for _, frames := range [][]Frame{waiter, owner} {
		b = binary.LittleEndian.AppendUint32(b, uint32(len(frames)))
		for _, f := range frames {
			b = binary.LittleEndian.AppendUint64(b, uint64(f))
		}
	}
	return xxhash.Sum64(b)
}

func appendText(b []byte, text string) []byte {
	return append(binary.LittleEndian.AppendUint32(b, uint32(len(text))), text...)
}

// key is one that a cause in an Index has, and one for which another one is looked up: a cause
// whose key is the same differs by one frame at most.
type key struct{ is, ask uint64 }

// keys returns the keys of a cause.
func (c *Cause) keys() (keys []key) {
	whole := func(frames []Frame) []Frame { return frames[:min(len(frames), Frames)] }
	w, o := whole(c.Waiter), whole(c.Owner)
	same := c.sum("same", w, o)
	keys = append(keys, key{same, same})
	for _, side := range []struct {
		name   string
		frames []Frame
		sum    func(what string, left []Frame) uint64
	}{
		{"waiter", c.Waiter, func(what string, left []Frame) uint64 { return c.sum(what, left, o) }},
		{"owner", c.Owner, func(what string, left []Frame) uint64 { return c.sum(what, w, left) }},
	} {
		frames := side.frames[:min(len(side.frames), MostFrames)]
		for i := range frames {
			left := append(append(make([]Frame, 0, Frames), frames[:i]...), frames[i+1:]...)
			// If only one place is known, what is innermost there is the place.
			if len(left) < leastFrames || i == 0 && len(c.Owner) == 0 {
				continue
			}
			replaced := side.sum("replaced"+side.name+strconv.Itoa(i), left)
			// Without the frame it is what another one is as a whole, and the reverse.
			without, less := side.sum("same", left), side.sum("less"+side.name, left)
			keys = append(keys, key{replaced, replaced}, key{less, without})
		}
		if len(frames) >= leastFrames {
			keys = append(keys, key{same, side.sum("less"+side.name, whole(frames))})
		}
	}
	return keys
}

// Index finds causes that are the same. Each has a number.
type Index struct{ known map[uint64]int }

// NewIndex returns one without causes.
func NewIndex() *Index { return &Index{make(map[uint64]int)} }

// Find returns the number of the first cause that is the same as c. ok is false if there is
// none, and c was added with number n then.
func (x *Index) Find(c *Cause, n int) (at int, ok bool) {
	keys := c.keys()
	if at, ok = x.look(keys); ok {
		return at, true
	}
	for _, k := range keys {
		if _, ok := x.known[k.is]; !ok {
			x.known[k.is] = n
		}
	}
	return n, false
}

// Has reports whether a cause is the same as one of those that were added, and as which.
func (x *Index) Has(c *Cause) (at int, ok bool) { return x.look(c.keys()) }

func (x *Index) look(keys []key) (at int, ok bool) {
	for _, k := range keys {
		if n, is := x.known[k.ask]; is && (!ok || n < at) {
			at, ok = n, true
		}
	}
	return at, ok
}
