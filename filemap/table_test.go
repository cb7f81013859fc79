package filemap

import (
	"testing"

	"ustack/tracefs"
)

func hash(n int) tracefs.Identifier { return tracefs.HashIdentifier(uint64(n)) }

// TestEntry: an identifier has one entry, also when others share its place in
// the cache of recent ones.
func TestEntry(t *testing.T) {
	const n = 5000 // more than the cache holds
	tab := NewTable(1 << 20)
	entries := map[tracefs.Identifier]*Entry{}
	for range 3 {
		for i := range n {
			e := tab.Entry(hash(i))
			if e.ID != hash(i) {
				t.Fatalf("the entry of %s is that of %s", hash(i).Append(nil), e.ID.Append(nil))
			}
			if old := entries[e.ID]; old != nil && old != e {
				t.Fatalf("%s has two entries", e.ID.Append(nil))
			}
			entries[e.ID] = e
		}
	}
	if tab.Len() != n || tab.Forgot != 0 {
		t.Errorf("%d entries, %d forgotten, want %d, 0", tab.Len(), tab.Forgot, n)
	}
}

// TestForget: the table never grows beyond its limit, counts what it drops,
// and keeps what was used last.
func TestForget(t *testing.T) {
	for _, limit := range []int{1, 2, 3, 100} {
		tab := NewTable(limit)
		const n = 1000
		favourite := tab.Entry(hash(n))
		for i := range n {
			e := tab.Entry(hash(i))
			e.LastUse = Pos(10 * i)
			if limit > 2 {
				favourite.LastUse = e.LastUse + 1
				if tab.Entry(hash(n)) != favourite {
					t.Fatalf("limit %d: what was used last is forgotten after %d more", limit, i)
				}
			}
			if tab.Len() > limit {
				t.Fatalf("limit %d: %d entries", limit, tab.Len())
			}
		}
		if made := int64(n + 1); tab.Forgot != made-int64(tab.Len()) {
			t.Errorf("limit %d: %d forgotten and %d left of %d", limit, tab.Forgot, tab.Len(), made)
		}
		if e := tab.Entry(hash(0)); e.LastUse != 0 || e.ID != hash(0) {
			t.Errorf("limit %d: a forgotten identifier comes back as %+v", limit, e)
		}
	}
}

// TestForgetAnnounced: a mapping event is a use.
func TestForgetAnnounced(t *testing.T) {
	tab := NewTable(4)
	for i := range 4 {
		tab.Entry(hash(i)).Bind(Binding{File: &File{}, From: Pos(100 - i), At: Pos(100 - i)})
	}
	tab.Entry(hash(4))
	if e := tab.Entry(hash(0)); e.Last() == nil || e.Forgotten {
		t.Error("the identifier that was announced last is forgotten")
	}
	if e := tab.Entry(hash(3)); e.Last() != nil || !e.Forgotten {
		t.Error("the identifier that was announced first is not forgotten, or does not know it")
	}
}

// claim is a mapping event: of which file, in force from where, made where.
type claim struct {
	file     *File
	from, at Pos
}

// TestEntryAt has mapping events of one identifier in the order they came, and
// what it means in several places. "?" is ambiguous.
func TestEntryAt(t *testing.T) {
	a, b, c := &File{Path: "a"}, &File{Path: "b"}, &File{Path: "c"}
	for _, x := range []struct {
		name   string
		claims []claim
		want   map[Pos]string
	}{
		{"none", nil, map[Pos]string{0: "", 99: ""}},
		{"first", []claim{{a, 5, 9}}, map[Pos]string{4: "", 5: "a", 99: "a"}},
		{"repeat", []claim{{a, 5, 9}, {a, 20, 22}}, map[Pos]string{4: "", 5: "a", 19: "a", 99: "a"}},
		{"another file", []claim{{a, 5, 9}, {b, 20, 22}}, map[Pos]string{4: "", 5: "a", 19: "a", 20: "b", 99: "b"}},
		{"back again", []claim{{a, 5, 9}, {b, 20, 22}, {a, 30, 31}}, map[Pos]string{19: "a", 29: "b", 30: "a", 99: "a"}},
		{"from the same place", []claim{{a, 5, 9}, {b, 5, 10}}, map[Pos]string{4: "", 5: "b", 99: "b"}},
		{"nested claims", []claim{{b, 10, 12}, {a, 5, 14}}, map[Pos]string{4: "", 5: "a", 9: "a", 10: "?", 99: "?"}},
		{"nested repeat", []claim{{a, 10, 12}, {a, 5, 14}}, map[Pos]string{4: "", 5: "a", 10: "a", 99: "a"}},
		{"nested, then the newer", []claim{{b, 10, 12}, {a, 5, 14}, {b, 20, 20}}, map[Pos]string{9: "a", 10: "?", 19: "?", 20: "b", 99: "b"}},
		{"nested, then the older", []claim{{b, 10, 12}, {a, 5, 14}, {a, 20, 20}}, map[Pos]string{10: "?", 20: "a", 99: "a"}},
		{"nested, then a third", []claim{{b, 10, 12}, {a, 5, 14}, {c, 20, 20}}, map[Pos]string{10: "?", 20: "c", 99: "c"}},
	} {
		t.Run(x.name, func(t *testing.T) {
			var e Entry
			for _, d := range x.claims {
				e.Bind(Binding{File: d.file, From: d.from, At: d.at})
			}
			for pos, want := range x.want {
				if got := meaning(e.At(pos)); got != want {
					t.Errorf("at %d it is %q, want %q", pos, got, want)
				}
			}
		})
	}
}

func meaning(b *Binding, ambiguous bool) string {
	switch {
	case ambiguous:
		return "?"
	case b == nil:
		return ""
	}
	return b.File.Path
}

// TestBind: a mapping event of another file than before is a rival, also after
// a repeat.
func TestBind(t *testing.T) {
	a, b := &File{Path: "a"}, &File{Path: "b"}
	var e Entry
	for i, c := range []struct {
		file  *File
		rival bool
	}{{a, false}, {a, false}, {b, true}, {b, true}, {a, true}} {
		pos := Pos(10 * i)
		if got := e.Bind(Binding{File: c.file, From: pos, At: pos}); got != c.rival {
			t.Errorf("announcement %d has a rival: %v, want %v", i, got, c.rival)
		}
		if last := e.Last(); last == nil || last.File != c.file || last.At != pos {
			t.Errorf("the last announcement is %+v after %d", last, i)
		}
	}
	if first := e.First(15); first == nil || first.At != 20 {
		t.Errorf("the first announcement after 15 is %+v, want that at 20", first)
	}
	if e.First(40) != nil {
		t.Error("an announcement after the last one")
	}
}

// TestManyBindings: an identifier that is announced without end needs no more
// memory, and means what it meant last.
func TestManyBindings(t *testing.T) {
	a, b := &File{Path: "a"}, &File{Path: "b"}
	var e Entry
	for i := range 10_000 {
		e.Bind(Binding{File: []*File{a, b}[i%2], From: Pos(i), At: Pos(i)})
	}
	if got := meaning(e.At(1 << 40)); got != "b" {
		t.Errorf("it is %q, want b", got)
	}
	if len(e.bindings) > maxBindings {
		t.Errorf("%d bindings are kept", len(e.bindings))
	}
}

func TestTableFiles(t *testing.T) {
	tab, a, b := NewTable(9), &File{Path: "/a"}, &File{Path: "/b"}
	tab.Entry(hash(1)).Bind(Binding{File: a, From: 1, At: 1})
	tab.Entry(hash(1)).Bind(Binding{File: b, From: 2, At: 2})
	tab.Entry(hash(2)).Bind(Binding{File: b, From: 3, At: 3})
	tab.Entry(hash(3))
	set := tab.Files()
	delete(set, nil)
	if len(set) != 2 || !set[a] || !set[b] {
		t.Errorf("files %v", set)
	}
}
