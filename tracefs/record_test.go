package tracefs

import "testing"

func TestIdentifier(t *testing.T) {
	for _, c := range []struct {
		id            Identifier
		text          string
		noFile, noVMA bool
	}{
		{HashIdentifier(0x666220af), "0x666220af", false, false},
		{HashIdentifier(0xf4e46cf), "0xf4e46cf", false, false},
		{HashIdentifier(0), "0x0", true, false},
		{HashIdentifier(0xffffffff), "0xffffffff", false, true},
		{HashIdentifier(1<<64 - 1), "0xffffffffffffffff", false, true},
		{InodeIdentifier(1340007, 254, 3), "1340007 : 254:3", false, false},
		{InodeIdentifier(0, 0, 0), "0 : 0:0", true, false},
		{InodeIdentifier(1<<64-1, 0, 0), "-1 : 0:0", false, true},
		{InodeIdentifier(1<<64-7, 0, 50), "-7 : 0:50", false, false},
		{InodeIdentifier(0xffffffff, 254, 3), "4294967295 : 254:3", false, false},
		{InodeIdentifier(7, 1<<29, 1<<32-1), "7 : 536870912:4294967295", false, false},
	} {
		if got := string(c.id.Append(nil)); got != c.text {
			t.Errorf("%+v is written %q, want %q", c.id, got, c.text)
		}
		if c.id.NoFile() != c.noFile || c.id.NoVMA() != c.noVMA || c.id.IsZero() {
			t.Errorf("%s: no file %v, no VMA %v, zero %v", c.text, c.id.NoFile(), c.id.NoVMA(), c.id.IsZero())
		}
	}
}

// TestNoIdentifier: a frame without an identifier says neither that there is
// no file nor that there is no VMA.
func TestNoIdentifier(t *testing.T) {
	var id Identifier
	if !id.IsZero() || id.NoFile() || id.NoVMA() || id.IsInode() {
		t.Errorf("the zero value is zero %v, no file %v, no VMA %v, inode %v", id.IsZero(), id.NoFile(), id.NoVMA(), id.IsInode())
	}
}

// TestIdentifiersDiffer: a hash is no inode of the same number, and the device
// counts.
func TestIdentifiersDiffer(t *testing.T) {
	ids := []Identifier{
		{}, HashIdentifier(0), HashIdentifier(7), InodeIdentifier(7, 0, 0), InodeIdentifier(0, 0, 0),
		InodeIdentifier(7, 254, 0), InodeIdentifier(7, 0, 254), InodeIdentifier(7, 254, 3), HashIdentifier(1<<63 | 7),
	}
	seen := map[Identifier]bool{}
	for _, id := range ids {
		seen[id] = true
	}
	if len(seen) != len(ids) {
		t.Errorf("%d different identifiers, want %d", len(seen), len(ids))
	}
}

func TestAddrTextAddress(t *testing.T) {
	for addrText, want := range map[string]uint64{
		" =>  <00007ff49fdce829>":   0x7ff49fdce829,
		" =>  <b7f1a2c3>":           0xb7f1a2c3,
		" =>  <ffffffffff600007>":   0xffffffffff600007,
		" =>  <0000000000000000>":   0,
		"\t=> 0x7f72a36aea48":       0x7f72a36aea48,
		" =>  <112345678123456789>": 0x2345678123456789,
		" => /tmp/v[+0x27e]":        0,
		"":                          0,
	} {
		if got := ParseAddrText([]byte(addrText)); got != want {
			t.Errorf("StemAddress(%q) = %#x, want %#x", addrText, got, want)
		}
	}
}

// TestReset: a batch that is used again holds nothing of what was in it, but
// its memory.
func TestReset(t *testing.T) {
	b := Batch{
		Text: []byte("x"), Records: make([]Record, 3), Frames: make([]Frame, 3), Templates: []*Template{{}},
		MappingEvents: []MappingEvent{{Path: []byte("/a")}}, Heads: make([]HeadDecoder, 1),
		Pos: 1, Line: 2, Lines: 3, Events: 4, Paused: true,
	}
	b.Reset()
	if len(b.Text)+len(b.Records)+len(b.Frames)+len(b.Templates)+len(b.MappingEvents)+len(b.Heads) > 0 ||
		b.Pos+b.Line+b.Lines+b.Events > 0 || b.Paused {
		t.Errorf("after Reset: %+v", b)
	}
	if cap(b.Records) != 3 || cap(b.Frames) != 3 {
		t.Error("the memory is gone")
	}
	if b.MappingEvents[:1][0].Path != nil || b.Templates[:1][0] != nil {
		t.Error("the memory of an earlier batch is kept alive")
	}
}
