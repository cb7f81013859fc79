package cache

import (
	"bytes"
	"fmt"
	"testing"
)

// TestNumbered: a value is found until a newer one takes its slot, and never for
// another number.
func TestNumbered(t *testing.T) {
	const bits, last = 3, 100
	c := New[int](bits)
	if _, ok := c.Get(1); ok {
		t.Fatal("an empty one has something")
	}
	for id := range uint64(last + 1) {
		c.Put(id, int(id)*2)
		if got, ok := c.Get(id); ok != (id > 0) || ok && got != int(id)*2 {
			t.Fatalf("Get(%d) = %d, %v", id, got, ok)
		}
	}
	for id := range uint64(last + 1) {
		got, ok := c.Get(id)
		if kept := id > last-1<<bits; ok != kept || ok && got != int(id)*2 {
			t.Errorf("after %d: Get(%d) = %d, %v", last, id, got, ok)
		}
	}
}

// TestTexts: the texts that are kept are copies, no more bytes than the limit, and
// those that were handed out stay. Values that come when there is no room are not kept,
// until newer ones have taken the slots.
func TestTexts(t *testing.T) {
	const (
		bits, size = 4, 100
		room       = 10
		limit      = room*size + size/2
	)
	c := NewTexts(bits, limit)
	buf := make([]byte, size)
	out := make(map[uint64][]byte)
	const values = 100
	for id := uint64(1); id <= values; id++ {
		copy(buf, fmt.Sprintf("%0*d", size, id))
		c.Put(id, buf)
		got := c.Get(id)
		if got != nil {
			out[id] = got
		}
		if got == nil && id <= room || got != nil && !bytes.Equal(got, buf) {
			t.Fatalf("Get(%d) = %q", id, got)
		}
		kept := 0
		for k := uint64(1); k <= id; k++ {
			kept += len(c.Get(k))
		}
		if kept > limit || kept != c.bytes {
			t.Fatalf("%d bytes are kept after %d texts, %d are counted", kept, id, c.bytes)
		}
	}
	if len(out) == room || len(out) == values {
		t.Errorf("%d of %d texts were kept at some time, %d fit", len(out), values, room)
	}
	for id, text := range out {
		if want := fmt.Sprintf("%0*d", size, id); string(text) != want {
			t.Errorf("text %d became %q", id, text)
		}
	}
	c.Put(0, buf)
	if c.Get(0) != nil {
		t.Error("a value without a number is kept")
	}
}
