package hotspot

import (
	"testing"

	"ustack/filemap"
	"ustack/filemap/symbol"
	"ustack/tracefs"
)

// TestNames: functions are those of one thread at one time, once; of too many stacks the oldest
// have none.
func TestNames(t *testing.T) {
	n := NewNames()
	list := []Named{{Frame: 3, Addr: 7, Code: n.interpreted("a.b", 5)}}
	n.Put(1, 10, list)
	if got := n.Take(2, 10); got != nil {
		t.Errorf("another thread: %v", got)
	}
	if got := n.Take(1, 11); got != nil {
		t.Errorf("another time: %v", got)
	}
	if got := n.Take(1, 10); len(got) != 1 || got[0] != list[0] {
		t.Errorf("%v, want %v", got, list)
	}
	if got := n.Take(1, 10); got != nil {
		t.Errorf("a second time: %v", got)
	}
	for i := range maxStacks + 1 {
		n.Put(1, tracefs.Time(i), list)
	}
	if len(n.stacks) > maxStacks || len(n.order) > maxStacks || n.Take(1, 0) != nil || n.Take(1, maxStacks) == nil {
		t.Errorf("%d stacks, %d in order", len(n.stacks), len(n.order))
	}
	var none *Names
	none.Put(1, 1, list)
	if none.Take(1, 1) != nil {
		t.Error("no names are some")
	}
}

// TestCodes: equal functions are one, and others are not.
func TestCodes(t *testing.T) {
	n := NewNames()
	one := n.compiled([]frameMethod{{"in.ner", 4}, {"out.er", 9}})
	if n.compiled([]frameMethod{{"in.ner", 7}, {"out.er", 9}}) != one {
		t.Error("equal functions are two")
	}
	for _, other := range []*filemap.Code{n.compiled([]frameMethod{{"in.ner", 4}, {"out.er", 8}}), n.compiled([]frameMethod{{"out.er", 9}}), n.interpreted("in.ner", 4)} {
		if other == one {
			t.Errorf("%+v is %+v", other, one)
		}
	}
	name := symbol.OfMemory(&filemap.Memory{Name: "[anon]", Exec: true, Code: one}, filemap.Anonymous, 0x1234)
	if name.Function != "out.er" || name.Offset != 9 || name.Source != symbol.HotSpot || len(name.Inlined) != 1 || name.Inlined[0].Function != "in.ner" {
		t.Errorf("%+v", name)
	}
	if n.compiled(nil) != nil {
		t.Error("no method is a function")
	}
}
