// Package profile sums up stacks and writes them for the tools that draw them:
// folded lines for flame graphs, pprof, speedscope, a page of HTML.
//
// There is one model, Profile, and a file for each output. All outputs are the
// same bytes for the same stacks in the same order.
package profile

import (
	"hash/maphash"
	"slices"

	"ustack/filemap"
	"ustack/filemap/resolve"
	"ustack/filemap/symbol"
	"ustack/tracefs"
)

// Frame is one frame of a stack: where in which file, or why there is none.
type Frame struct {
	File   *filemap.File // nil if none is known
	Offset uint64        // in the file
	// Reason is why there is no file, Memory what the frame lies in then, "" if unknown:
	// the function, if that is known, else what the kernel calls it. Where exactly it lies
	// there is left out: the addresses of two processes have nothing in common.
	Reason filemap.Reason
	Memory string
	// Inferred marks a frame that is the beginning of a function: an earlier run
	// has found it missing.
	Inferred bool
	// Calls is the function that the thread began with, see resolve.Attribution.
	Calls filemap.Begun
	// Interrupted and Followed: see tracefs.Frame.
	Interrupted, Followed bool
}

// Labels distinguish samples of the same stack. Zero values are
// unknown.
type Labels struct {
	PID  int32
	Comm string
	Lock string
	Wait string // what a thread waits in
	// Row distinguishes locks with the same name: the row of a table, from 1; 0 for
	// none.
	Row int32
}

// Value is what a sample weighs: how many there were, and for how long.
type Value struct {
	Count int64
	Time  tracefs.Time
}

// sample is what one stack of one thread or lock weighs. labels is a number: samples have the
// same over and over.
type sample struct {
	stack, labels int32
	Value
}

// Unit is what the values of a profile mean.
type Unit uint8

const (
	// Samples are stacks, each of which counts one. They have no time.
	Samples Unit = iota
	// Waits have a time in nanoseconds.
	Waits
	// WaitTicks have a time that is not in nanoseconds: the trace's clock
	// counts something else.
	WaitTicks
)

// Bounds of memory. Stacks beyond them are one sample, of the stack otherStacks.
const (
	maxStacks  = 1 << 15
	maxFrames  = 1 << 18
	maxSamples = 1 << 16
	maxDepth   = 256
)

// otherStacks stands for the stacks that were too many to keep apart.
const otherStacks = 0

// stack is a distinct stack, innermost frame first.
type stack struct {
	frames    []Frame
	functions []symbol.Function // of the frames, none without names
	cut       bool              // there were more frames than were kept
}

// function returns what is known of the code of a frame, nil without names.
func (s *stack) function(k int) *symbol.Function {
	if len(s.functions) == 0 {
		return nil
	}
	return &s.functions[k]
}

// incomplete reports whether frames are missing and no frame says so.
func (s *stack) incomplete() bool {
	n := len(s.frames)
	return s.cut && (n == 0 || s.frames[n-1].Reason != filemap.Truncated)
}

// Profile is stacks with what they weigh.
type Profile struct {
	unit    Unit
	name    string // in place of the unit's, "" for that
	samples []sample
	limit   int // of stacks

	stacks []stack
	frames int
	seed   maphash.Seed
	byHash map[uint64][]int32
	labels []Labels         // by their number; the first ones are those of otherStacks
	number map[Labels]int32 // in labels
	place  map[pair]int32   // of a stack and labels in samples
	work   []Frame
}

// Title is what pictures of it say that it shows.
func (p *Profile) Title(text string) { p.name = text }

// pair is two numbers, as the key of what they have in common.
type pair [2]int32

// New returns an empty Profile.
func New(unit Unit) *Profile {
	return &Profile{unit: unit, limit: maxStacks, stacks: make([]stack, 1), seed: maphash.MakeSeed(),
		byHash: make(map[uint64][]int32), labels: make([]Labels, 1), number: map[Labels]int32{{}: 0}, place: make(map[pair]int32)}
}

// Stack interns a stack, innermost frame first, and returns its number. functions are
// those of the frames, none without names. cut means that the outermost frames are
// missing. If there are too many stacks, all others share one number.
func (p *Profile) Stack(frames []Frame, functions []symbol.Function, cut bool) int32 {
	if len(frames) > maxDepth {
		frames, cut = frames[:maxDepth], true
	}
	var h maphash.Hash
	h.SetSeed(p.seed)
	for i := range frames {
		maphash.WriteComparable(&h, frames[i])
	}
	sum := h.Sum64()
	for _, id := range p.byHash[sum] {
		if s := &p.stacks[id]; s.cut == cut && slices.Equal(s.frames, frames) {
			return id
		}
	}
	if len(p.stacks) > p.limit || p.frames+len(frames) > maxFrames {
		return otherStacks
	}
	id := int32(len(p.stacks))
	p.stacks = append(p.stacks, stack{slices.Clone(frames), slices.Clone(functions), cut})
	p.frames += len(frames)
	p.byHash[sum] = append(p.byHash[sum], id)
	return id
}

// Add adds to what a stack weighs.
func (p *Profile) Add(stack int32, l Labels, v Value) {
	number, ok := p.number[l]
	i, known := p.place[pair{stack, number}]
	switch {
	case ok && known:
	case stack == otherStacks || len(p.samples) >= maxSamples:
		p.AddOther(v)
		return
	default:
		if !ok {
			number = int32(len(p.labels))
			p.labels = append(p.labels, l)
			p.number[l] = number
		}
		i = p.sample(stack, number)
	}
	p.samples[i].add(v)
}

// AddOther adds to what the stacks weigh that were too many to keep apart: they
// have no labels either.
func (p *Profile) AddOther(v Value) {
	i, ok := p.place[pair{otherStacks}]
	if !ok {
		i = p.sample(otherStacks, 0)
	}
	p.samples[i].add(v)
}

// sample adds a sample and returns its number.
func (p *Profile) sample(stack, labels int32) int32 {
	i := int32(len(p.samples))
	p.samples = append(p.samples, sample{stack: stack, labels: labels})
	p.place[pair{stack, labels}] = i
	return i
}

// of returns the labels of a sample.
func (p *Profile) of(s *sample) *Labels { return &p.labels[s.labels] }

func (s *sample) add(v Value) {
	s.Count += v.Count
	s.Time += v.Time
}

// weight returns the value that pictures are drawn by.
func (p *Profile) weight(v Value) int64 {
	if p.unit == Samples {
		return v.Count
	}
	return int64(v.Time)
}

// intern interns a stack of a trace.
func (p *Profile) intern(st *resolve.Stack) int32 {
	p.work = p.work[:0]
	for i := range st.Frames[:min(len(st.Frames), maxDepth+1)] {
		p.work = append(p.work, frameOf(st.Text, &st.Frames[i], &st.Attributions[i]))
	}
	return p.Stack(p.work, nil, st.EndsEarly())
}

func frameOf(text []byte, f *tracefs.Frame, o *resolve.Attribution) Frame {
	switch {
	case o.File == nil && o.Memory != nil && o.Memory.Code != nil:
		return Frame{Reason: o.Reason, Memory: o.Memory.Code.Function}
	case o.File == nil && o.Memory != nil && o.Reason != filemap.VMAOffset:
		return Frame{Reason: o.Reason, Memory: o.Memory.Name}
	case o.File == nil:
		return Frame{Reason: o.Reason}
	case o.HasOffset:
		return Frame{File: o.File, Offset: o.Offset, Calls: o.Calls, Interrupted: f.Interrupted(), Followed: f.Followed()}
	}
	return Frame{File: o.File, Offset: f.Address(text), Inferred: f.Inferred()}
}
