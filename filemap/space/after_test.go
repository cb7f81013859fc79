package space

import (
	"testing"

	"ustack/filemap/procmap"
	"ustack/tracefs"
)

// TestAfter: what comes to light late does not change answers for times that were
// looked up before.
func TestAfter(t *testing.T) {
	code := procmap.Mapping{Start: 0x1000, End: 0x2000, Name: "/a", Inode: 1, Perms: procmap.Read | procmap.Exec, Kind: procmap.File}
	heap := procmap.Mapping{Start: 0x5000, End: 0x6000, Name: "[heap]", Kind: procmap.Heap}
	moved := code
	moved.Start, moved.End = 0x8000, 0x9000
	for name, learn := range map[string]func(s *Spaces, t, after tracefs.Time){
		"an answer": func(s *Spaces, t, after tracefs.Time) { s.MapAfter(1, &heap, t, after) },
		"a reading": func(s *Spaces, t, after tracefs.Time) {
			s.ReplaceAfter(process(1, 5, "x", code, heap, moved), t, after)
		},
		"a reading under": func(s *Spaces, t, after tracefs.Time) {
			s.ReplaceUnder(process(1, 5, "x", code, heap, moved), t, after)
		},
		"one with less": func(s *Spaces, t, after tracefs.Time) { s.ReplaceAfter(process(1, 5, "x", code, heap), t, after) },
	} {
		s := New()
		s.Replace(process(1, 5, "x", code, moved), 10)
		learn(s, 50, 40)
		for at, want := range map[tracefs.Time]bool{10: false, 39: false, 40: true, 49: true, 50: true, 60: true} {
			p, ok := s.Lookup(1, heap.Start, at)
			if ok != want || ok && p.Late != (at < 50) {
				t.Errorf("%s: at %d found %v, late %v", name, at, ok, p.Late)
			}
		}
	}
}
