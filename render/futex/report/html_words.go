//go:build !device

package report

import (
	"cmp"

	"ustack/render/futex"
	"ustack/render/phrase"
)

// words are the names and stacks of a time line, each of them once.
type words struct {
	names  []string
	stacks [][]int32
	byName map[string]int32
	// byStack are stacks, missing the reasons why there is none, which are
	// stacks of one name.
	byStack map[*futex.Stack]int32
	missing map[string]int32
	bytes   int // of the names
}

// maxWords bounds the bytes of all names: with them, stacks end.
const maxWords = 4 << 20

const tooManyStacks = "the page has no room for more"

func newWords() *words {
	return &words{names: []string{}, stacks: [][]int32{}, byName: make(map[string]int32), byStack: make(map[*futex.Stack]int32), missing: make(map[string]int32)}
}

// name returns the number of a name.
func (w *words) name(name string) int32 {
	name = short(name)
	n, ok := w.byName[name]
	if !ok {
		n = int32(len(w.names))
		w.names = append(w.names, name)
		w.byName[name] = n
		w.bytes += len(name)
	}
	return n
}

// stack returns the number of a stack, of which the innermost frames count; or
// of why there is none.
func (w *words) stack(s *futex.Stack, why string) int32 {
	if s == nil {
		return w.noStack(cmp.Or(why, "not in the trace"))
	}
	if n, ok := w.byStack[s]; ok {
		return n
	}
	if w.bytes > maxWords {
		return w.noStack(tooManyStacks)
	}
	var frames []string
	for i := range s.Frames[:min(len(s.Frames), phrase.MostFrames)] {
		frames = phrase.AppendFrame(frames, &s.Frames[i])
	}
	if s.Cut || len(s.Frames) > phrase.MostFrames {
		frames = append(frames, "…")
	}
	n := w.add(frames)
	w.byStack[s] = n
	return n
}

func (w *words) noStack(why string) int32 {
	n, ok := w.missing[why]
	if !ok {
		n = w.add([]string{"no stack: " + missing(why)})
		w.missing[why] = n
	}
	return n
}

func (w *words) add(frames []string) int32 {
	list := []int32{}
	for _, f := range frames {
		list = append(list, w.name(f))
	}
	w.stacks = append(w.stacks, list)
	return int32(len(w.stacks) - 1)
}
