package stackset

import (
	"testing"

	"ustack/filemap"
	"ustack/filemap/resolve"
	"ustack/tracefs"
)

// TestStacksByStart: stacks with the same frames, of threads that began with other
// functions, are not the same.
func TestStacksByStart(t *testing.T) {
	file := &filemap.File{Path: "/lib/libc.so.6"}
	starts := [...]filemap.Begun{0, 1, 2}
	var s Set
	s.Init(100)
	numbers := make(map[int32]filemap.Begun)
	for range 3 { // the last ones are remembered
		for _, f := range starts {
			st := &resolve.Stack{}
			for k := range 2 {
				st.Frames = append(st.Frames, tracefs.Frame{Form: tracefs.FormPlain, Addr: uint64(k), HasAddr: true})
				o := resolve.Named(file, filemap.Verified)
				o.Offset, o.HasOffset = uint64(k), true
				st.Attributions = append(st.Attributions, o)
			}
			st.Attributions[1].Calls = f
			id := s.Of(&resolve.Attached{Stack: st})
			if was, ok := numbers[id]; ok && was != f || s.Get(id).Frames[1].Calls != f {
				t.Errorf("stack %d is that of %d, not of %d", id, was, f)
			}
			numbers[id] = f
		}
	}
	if len(numbers) != len(starts) {
		t.Errorf("%d stacks", len(numbers))
	}
}
