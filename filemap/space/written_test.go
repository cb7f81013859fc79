package space

import (
	"testing"

	"ustack/filemap/elfid"
	"ustack/tracefs"
)

// TestWrittenRestless: a file that is written in place loses its build ID from then
// on, however often its process has changed since.
func TestWrittenRestless(t *testing.T) {
	for _, changes := range []int{0, 3, 2 * chunk, 5 * chunk} {
		s := New()
		s.Exec(1, "restless", 0)
		library := mapping(0x1000, 0x2000, 0, "/library")
		library.BuildID, _ = elfid.New(append(make([]byte, 19), 1))
		s.MapExact(1, &library, 1)
		const written = tracefs.Time(15)
		at := tracefs.Time(10)
		for range changes {
			m := mapping(0x8000, 0x9000, 0, "/plugin")
			s.MapExact(1, &m, at)
			s.Unmap(1, 0x8000, 0x9000, at+5)
			at += 10
		}
		versions := len(s.Space(1).Versions())
		s.Written(func(f *File) bool { return f.Name == "/library" }, written)
		for when := tracefs.Time(1); when <= at; when++ {
			p, ok := s.Lookup(1, 0x1000, when)
			if !ok || p.Late || p.Mapping.File.BuildID.IsZero() != (when >= written) {
				t.Fatalf("%d changes: at %d it is in %+v, %v", changes, when, p.Mapping, ok)
			}
			plugin, want := "", changes > 0 && when >= 10 && when < at && when%10 < 5
			if want {
				plugin = "/plugin+0x0"
			}
			if got := where(s, 1, 0x8000, when); got != plugin {
				t.Fatalf("%d changes: at %d the plugin is %q, want %q", changes, when, got, plugin)
			}
		}
		list := s.Space(1).Versions()
		if len(list) > versions+1 {
			t.Errorf("%d changes: %d versions of %d", changes, len(list), versions)
		}
		for i := 1; i < len(list); i++ {
			if list[i-1].To != list[i].From {
				t.Fatalf("versions are not one after the other: %+v", list[i-1:i+1])
			}
		}
	}
}

// TestWrittenShares: what a process had mapped at many times stays about as large as it was,
// when a file that was mapped all the time is written.
func TestWrittenShares(t *testing.T) {
	const mappings, changes = 300, 300
	s := New()
	s.Exec(1, "large", 0)
	at := tracefs.Time(1)
	for i := range uint64(mappings) {
		m := mapping(i<<16, i<<16+0x1000, 0, "/library")
		m.BuildID, _ = elfid.New(append(make([]byte, 19), 1))
		s.MapExact(1, &m, at)
		at++
	}
	from := at
	for range changes {
		m := mapping(0x8000, 0x9000, 0, "/plugin")
		s.MapExact(1, &m, at)
		s.Unmap(1, 0x8000, 0x9000, at+1)
		at += 2
	}
	before := distinct(s.Space(1))
	s.Written(func(f *File) bool { return f.Name == "/library" }, from)
	if after := distinct(s.Space(1)); after > 2*before+mappings {
		t.Errorf("%d different nodes, and %d before", after, before)
	}
	if p, ok := s.Lookup(1, 0x10000, at); !ok || !p.Mapping.File.BuildID.IsZero() {
		t.Errorf("%+v, %v", p.Mapping, ok)
	}
}

// distinct counts the nodes that the mappings of all times consist of.
func distinct(s *Space) int {
	seen := make(map[*node]bool)
	var count func(n *node)
	count = func(n *node) {
		if n != nil && !seen[n] {
			seen[n] = true
			count(n.left)
			count(n.right)
		}
	}
	for _, v := range s.Versions() {
		count(v.Mappings.root)
	}
	return len(seen)
}
