package render

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"ustack/filemap"
	"ustack/filemap/resolve"
	"ustack/tracefs"
	"ustack/tracefs/capturetest"
)

// calls are functions that threads began with.
var calls = [...]filemap.Begun{1, 2}

// memoStack makes a stack of lines, as a source has read it, and what it is of.
func memoStack(random *rand.Rand, files []*filemap.File) (txt string, frames []tracefs.Frame, out []resolve.Attribution) {
	var b strings.Builder
	for range 1 + random.IntN(3) {
		off := uint32(b.Len())
		fmt.Fprintf(&b, " =>  <%016x>", random.Uint64())
		frames = append(frames, tracefs.Frame{Off: off, AddrEnd: uint32(b.Len()), End: uint32(b.Len())})
		b.WriteByte('\n')
		o := resolve.Named(files[random.IntN(len(files))], filemap.Verified)
		o.Offset, o.HasOffset = uint64(random.IntN(4)), true
		if random.IntN(4) == 0 {
			o.Calls = calls[random.IntN(len(calls))]
		}
		out = append(out, o)
	}
	return b.String(), frames, out
}

// TestMemo: what is remembered of a stack is what was kept of it, whatever else
// came in between, and is bounded.
func TestMemo(t *testing.T) {
	capturetest.SkipShort(t)
	random := rand.New(rand.NewPCG(1, 2))
	files := []*filemap.File{{Path: "/a"}, {Path: "/b"}, {Path: "/c"}}
	var m memo
	hits, kept := 0, 0
	long := strings.Repeat("x", 1000)
	for range 200000 {
		txt, frames, out := memoStack(random, files)
		want := long
		for k := range out {
			want += fmt.Sprint(out[k].File.Path, out[k].Offset, out[k].Calls, " ")
		}
		w, seen := m.find([]byte(txt), frames, out)
		switch {
		case w == nil:
			t.Fatalf("%q has no place", txt)
		case w.is(frames, out):
			hits++
			if string(w.text) != want {
				t.Fatalf("%q, want %q", w.text, want)
			}
		case seen:
			kept++
			m.keep(w, frames, out, []byte(want))
		}
		if m.kept > keepAtMost {
			t.Fatalf("%d bytes are kept", m.kept)
		}
	}
	if hits == 0 || kept == 0 {
		t.Errorf("%d hits, %d kept", hits, kept)
	}
	m.kept = keepAtMost // as after many others
	txt, frames, out := memoStack(random, files[:1])
	w, _ := m.find([]byte(txt), frames, out)
	m.keep(w, frames, out, []byte(long+long+long))
	if m.kept != 0 || w.is(frames, out) {
		t.Errorf("%d bytes are kept", m.kept)
	}
}

// TestMemoRefuses: a stack with a frame whose line is made of more than its
// place is written frame by frame.
func TestMemoRefuses(t *testing.T) {
	file := &filemap.File{Path: "/a"}
	for name, change := range map[string]func(txt []byte, frames []tracefs.Frame, out []resolve.Attribution){
		"no file":      func(_ []byte, _ []tracefs.Frame, out []resolve.Attribution) { out[1].File = nil },
		"as it was":    func(_ []byte, _ []tracefs.Frame, out []resolve.Attribution) { out[0].HasOffset = false },
		"inferred":     func(_ []byte, frames []tracefs.Frame, _ []resolve.Attribution) { frames[1].SetInferred(true) },
		"text between": func(_ []byte, frames []tracefs.Frame, _ []resolve.Attribution) { frames[0].End-- },
		"no line feed": func(txt []byte, frames []tracefs.Frame, _ []resolve.Attribution) { txt[frames[0].End] = ' ' },
	} {
		txt := []byte(" =>  <1>\n =>  <2>\n")
		frames := []tracefs.Frame{{Off: 0, AddrEnd: 8, End: 8}, {Off: 9, AddrEnd: 17, End: 17}}
		out := []resolve.Attribution{{File: file, Offset: 1, HasOffset: true}, {File: file, Offset: 2, HasOffset: true}}
		var m memo
		if w, _ := m.find(txt, frames, out); w == nil {
			t.Fatal("an ordinary stack has no place")
		}
		change(txt, frames, out)
		if w, _ := m.find(txt, frames, out); w != nil {
			t.Errorf("%s: it has a place", name)
		}
	}
}
