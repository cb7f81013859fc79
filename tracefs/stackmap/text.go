package stackmap

import (
	"encoding/binary"
	"fmt"
	"io"

	"ustack/tracefs/text"
)

// Text is the text of a stack map, as it is read. It implements io.Reader.
type Text struct {
	in     Elements
	counts Counts // nil for none
	buf    []byte
	at     int
	frames []text.MapFrame
	err    error
	// stacks were met so far, counted with a count; other counts are of stacks that the map
	// does not have, once it is read.
	stacks, counted, other int64
}

// NewText returns the text of a stack map. counts are those of the stacks, nil for none.
func NewText(in Elements, counts Counts) *Text { return &Text{in: in, counts: counts} }

// Count sets the counts of the stacks. Nothing must have been read yet.
func (t *Text) Count(counts Counts) { t.counts = counts }

// Notes are remarks about the map, for when it is read.
func (t *Text) Notes() (list []string) {
	if !Supported {
		return nil
	}
	if n := t.in.Gone(); n > 0 {
		list = append(list, fmt.Sprintf("%d stacks had gone when they were read, and are left out", n))
	}
	if n := t.stacks - t.counted; n > 0 && t.counts != nil {
		list = append(list, fmt.Sprintf("%d of %d stacks have no count", n, t.stacks))
	}
	if t.other > 0 {
		list = append(list, fmt.Sprintf("%d counts are of stacks that are not in the map", t.other))
	}
	return list
}

// Read implements io.Reader.
func (t *Text) Read(p []byte) (int, error) {
	for t.at == len(t.buf) {
		if t.err != nil {
			return 0, t.err
		}
		t.buf, t.at = t.buf[:0], 0
		if t.err = t.next(); t.err == io.EOF {
			t.other = int64(len(t.counts)) - t.counted
		}
	}
	n := copy(p, t.buf[t.at:])
	t.at += n
	return n, nil
}

// next makes the text of the next element.
func (t *Text) next() error {
	if !Supported {
		return io.EOF
	}
	e, err := t.in.Next()
	if err != nil {
		return err
	}
	id, err := stackID(e.Key, 0)
	if err != nil {
		return err
	}
	if len(e.Values) != 1 {
		return fmt.Errorf("%w: a stack with %d values", ErrFormat, len(e.Values))
	}
	t.frames, err = decode(t.frames[:0], e.Values[0])
	if err != nil {
		return err
	}
	count, counted := t.counts[id]
	t.buf = text.AppendMapStack(t.buf, uint64(id), t.frames, count, counted)
	t.stacks++
	if counted {
		t.counted++
	}
	return nil
}

// idSize is the size of a stack ID.
const idSize = 4

// stackID reads the stack ID at a byte of a key.
func stackID(key []byte, at int) (uint32, error) {
	if len(key) < idSize || at > len(key)-idSize {
		return 0, fmt.Errorf("%w: a key of %d bytes, where a stack ID has %d at byte %d", ErrFormat, len(key), idSize, at)
	}
	return binary.NativeEndian.Uint32(key[at:]), nil
}
