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
	c.Clear()
	if _, ok := c.Get(last); ok {
		t.Error("there is something after Clear")
	}
}

// TestTexts: the texts that are kept are copies, no more bytes than the limit, and
// those that were handed out stay.
func TestTexts(t *testing.T) {
	const bits, limit, size = 10, 1000, 100
	c := NewTexts(bits, limit)
	buf := make([]byte, size)
	var out [][]byte
	for id := uint64(1); id <= 50; id++ {
		copy(buf, fmt.Sprintf("%0*d", size, id))
		c.Put(id, buf)
		got := c.Get(id)
		if !bytes.Equal(got, buf) {
			t.Fatalf("Get(%d) = %q", id, got)
		}
		out = append(out, got)
		bytes := 0
		for k := uint64(1); k <= id; k++ {
			bytes += len(c.Get(k))
		}
		if bytes > limit || id > 1 && id%(limit/size) != 1 && bytes < 2*size {
			t.Fatalf("%d bytes are kept after %d texts", bytes, id)
		}
	}
	for i, text := range out {
		if want := fmt.Sprintf("%0*d", size, i+1); string(text) != want {
			t.Errorf("text %d became %q", i+1, text)
		}
	}
	c.Put(0, buf)
	c.Put(60, make([]byte, limit+1))
	if c.Get(0) != nil || c.Get(60) != nil {
		t.Error("a value without a number, or one that is too long, is kept")
	}
}
