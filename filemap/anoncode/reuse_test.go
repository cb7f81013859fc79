package anoncode

import (
	"testing"

	"ustack/tracefs"
)

// TestReuse: where a program has made code in place of other code, a frame has a name only
// if the map had it for sure by then: the map has no times.
func TestReuse(t *testing.T) {
	m := new(perfMap)
	add := func(text string, done tracefs.Time) {
		t.Helper()
		if _, ok := m.add([]byte(text)); !ok {
			t.Fatal("not taken")
		}
		m.done(done)
	}
	expect := func(at tracefs.Time, addr uint64, want string) {
		t.Helper()
		if got := m.stringAt(addr, true, at); got != want {
			t.Errorf("%#x at %d: %s, want %s", addr, at, got, want)
		}
	}
	add("1000 100 one\n2000 100 stays\n", 10)
	expect(5, 0x1010, "one+0x10")
	add("1000 100 two\n2000 100 stays\n3000 100 new\n", 20)
	expect(15, 0x1010, "-")
	expect(20, 0x1010, "two+0x10")
	expect(5, 0x2010, "stays+0x10")
	expect(5, 0x3010, "new+0x10")
	add("1000 100 two\n", 30)
	expect(25, 0x1010, "two+0x10")
	expect(15, 0x1010, "-")
	add("4000 100 first\n4080 10 inside\n", 40)
	expect(35, 0x4010, "-")
	expect(40, 0x4010, "first+0x10")
}

// TestReuseRewritten: a map that was written anew says nothing of before.
func TestReuseRewritten(t *testing.T) {
	m := &perfMap{rewritten: true}
	if _, ok := m.add([]byte("1000 100 one\n")); !ok {
		t.Fatal("not taken")
	}
	m.done(20)
	if before, after := m.stringAt(0x1010, true, 15), m.stringAt(0x1010, true, 20); before != "-" || after != "one+0x10" {
		t.Errorf("%s, %s", before, after)
	}
}
