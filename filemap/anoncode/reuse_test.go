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
		m.done(0, done)
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
	m.done(0, 20)
	if before, after := m.stringAt(0x1010, true, 15), m.stringAt(0x1010, true, 20); before != "-" || after != "one+0x10" {
		t.Errorf("%s, %s", before, after)
	}
}

// TestRemoved: a line is of the memory that was there since the last reading that did not have
// it. What has come in its place since has no name, until the program writes the line again.
func TestRemoved(t *testing.T) {
	m := new(perfMap)
	read := func(text string, began, end tracefs.Time) {
		t.Helper()
		if _, ok := m.add([]byte(text)); !ok {
			t.Fatal("not taken")
		}
		m.done(began, end)
	}
	var gone tracefs.Time // when memory was removed
	removed := func(_ uint64, from, to tracefs.Time) bool { return from < gone && gone <= to }
	expect := func(what string, at tracefs.Time, want bool) {
		t.Helper()
		if c := m.code(0x1010, true, at, removed); (c != nil) != want {
			t.Errorf("%s: %+v", what, c)
		}
	}
	const us = stamp
	read("", 10*us, 11*us)
	read("1000 100 one\n", 20*us, 21*us)
	expect("nothing was removed", 100*us, true)
	gone = 9 * us
	expect("removed before the line was there", 100*us, true)
	gone = 15 * us
	expect("removed before it was read: it may have been there", 100*us, false)
	gone = 50 * us
	expect("not removed yet", 40*us, true)
	expect("removed", 60*us, false)
	read("1000 100 one\n", 70*us, 71*us)
	expect("removed, and written again, perhaps before", 80*us, false)
	read("", 80*us, 81*us)
	read("1000 100 one\n", 90*us, 91*us)
	expect("written again", 100*us, true)
}
