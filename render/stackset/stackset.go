// Package stackset keeps the user stacks of a trace, each once: for reports that add up
// waits by stack.
package stackset

import (
	"encoding/binary"
	"hash/maphash"

	"ustack/filemap"
	"ustack/filemap/resolve"
	"ustack/filemap/symbol"
	"ustack/render/cache"
	"ustack/tracefs"
)

// Frame is one frame of a stack: where in which file, or why there is none.
type Frame struct {
	File   *filemap.File // nil if none is known
	Offset uint64        // in the file, or in the vDSO
	Trust  filemap.Trust
	Reason filemap.Reason
	How    tracefs.How
	// Address is the frame's number as the kernel gave it, if there is no
	// file.
	Address uint64
	// Memory is what a frame without a file lies in, if that is code; else nil.
	Memory *filemap.Memory
	// Inferred marks a frame that an earlier run has found missing.
	Inferred bool
	// Mapping, if not nil, is what it lies in, and Offset the offset in that
	// (reason vma-offset).
	Mapping *filemap.Memory
	// Calls is the function that the thread began with, see resolve.Attribution.
	Calls filemap.Begun
	// Name is the function, nil if not looked up. See Set.Name.
	Name *symbol.Name
	// Skipped is the function that was left out between this frame and the next
	// outer one, nil if none is known.
	Skipped *symbol.Skipped
}

// InLibc reports whether the frame is in a C library, by the file's name.
func (f *Frame) InLibc() bool { return f.File != nil && !f.File.Application() }

// Stack is a user stack, innermost frame first.
type Stack struct {
	Frames []Frame
	// Cut is set if there were more frames than are here, Limit if that is because the
	// kernel takes no more.
	Cut, Limit bool
	// End is why it ends, if ustack has unwound it.
	End tracefs.Stop
}

// Named reports whether functions have been looked up: see Set.Name.
func (s *Stack) Named() bool {
	for i := range s.Frames {
		if s.Frames[i].Name != nil {
			return true
		}
	}
	return false
}

// EndWord is why the stack ends, "" if unknown.
func (s *Stack) EndWord() string {
	if s.Limit {
		return resolve.KernelLimit
	}
	return s.End.String()
}

// Numbers in place of a stack.
const (
	None  = -1 // not in the trace
	Other = -2 // too many to keep apart
)

// Bounds of memory.
const (
	MaxDepth  = 128
	MaxFrames = 1 << 18
)

// Set interns stacks.
//
// Invariants:
//   - list has no two stacks that are the same, each under the hash of what it is made of,
//     and no more than limit; their frames are no more than MaxFrames.
//   - A stack has a frame, and no more than MaxDepth.
type Set struct {
	limit  int
	frames int
	seed   maphash.Seed
	list   []Stack
	byHash map[uint64][]int32
	work   []Frame
	key    []byte
	recent *[recentStacks]recentStack
	known  cache.Numbered[int32] // stacks of list, by the number of their Result
}

// knownBits is for the stacks that are templates: parsers have half as many.
const knownBits = 14

// recentStacks is how many stacks are known by what they are made of.
const (
	recentBits   = 6
	recentStacks = 1 << recentBits
)

// recentStack is a stack as the resolver gave it.
type recentStack struct {
	id           int32
	first        tracefs.Frame
	end          tracefs.Frame // that is the last one
	stock        bool
	addrs        []uint64
	attributions []resolve.Attribution
}

func (s *Set) Init(limit int) {
	s.limit, s.seed = limit, maphash.MakeSeed()
	s.byHash = make(map[uint64][]int32)
	s.recent = new([recentStacks]recentStack)
	s.known = cache.New[int32](knownBits)
}

// Of returns the stack of an event.
func (s *Set) Of(a *resolve.Attached) int32 {
	st := a.Stack
	if st == nil || len(st.Frames) == 0 {
		return None
	}
	if st.ResultID == 0 || st.Cut {
		return s.recall(st)
	}
	if id, ok := s.known.Get(st.ResultID); ok {
		return id
	}
	id := s.intern(st)
	if id >= 0 {
		s.known.Put(st.ResultID, id)
	}
	return id
}

// recall interns a stack that may be one of the last: a thread asks for the same
// few over and over.
func (s *Set) recall(st *resolve.Stack) int32 {
	var mixed uint64
	for i := range st.Frames {
		f := &st.Frames[i]
		if !f.HasAddr || f.Inferred() {
			return s.intern(st)
		}
		mixed = (mixed ^ f.Addr) * 0x9e3779b97f4a7c15
	}
	if st.Cut {
		return s.intern(st)
	}
	slot := &s.recent[mixed>>(64-recentBits)]
	if slot.is(st) {
		return slot.id
	}
	id := s.intern(st)
	if id >= 0 && len(st.Frames) <= MaxDepth {
		slot.set(st, id)
	}
	return id
}

// is reports whether it is this stack.
func (r *recentStack) is(st *resolve.Stack) bool {
	last := len(st.Frames) - 1
	if len(r.addrs) != len(st.Frames) || r.end.ID != st.Frames[last].ID || r.stock != st.Stock ||
		!sameEnds(&r.first, &st.Frames[0]) || !sameEnds(&r.end, &st.Frames[last]) {
		return false
	}
	for i := range r.addrs {
		if r.addrs[i] != st.Frames[i].Addr || r.attributions[i] != st.Attributions[i] {
			return false
		}
	}
	return true
}

// sameEnds reports whether two frames were found the same way, and end a stack for the
// same reason.
func sameEnds(a, b *tracefs.Frame) bool {
	how, stop := a.Unwound()
	other, also := b.Unwound()
	return how == other && stop == also
}

// set makes it this stack.
func (r *recentStack) set(st *resolve.Stack, id int32) {
	r.id, r.addrs = id, r.addrs[:0]
	r.first, r.end, r.stock = st.Frames[0], st.Frames[len(st.Frames)-1], st.Stock
	for i := range st.Frames {
		r.addrs = append(r.addrs, st.Frames[i].Addr)
	}
	r.attributions = append(r.attributions[:0], st.Attributions...)
}

func (s *Set) intern(st *resolve.Stack) int32 {
	n := min(len(st.Frames), MaxDepth)
	_, end := st.Frames[len(st.Frames)-1].Unwound()
	cut, limit := st.EndsEarly() || n < len(st.Frames), resolve.AtLimit(st.Frames, st.Stock)
	s.work, s.key = s.work[:0], s.key[:0]
	for i := range n {
		f := frameOf(st, i)
		s.work = append(s.work, f)
		s.key = binary.NativeEndian.AppendUint64(s.key, f.Offset)
		s.key = binary.NativeEndian.AppendUint64(s.key, f.Address)
	}
	sum := maphash.Bytes(s.seed, s.key) // of most of what same compares
	for _, id := range s.byHash[sum] {
		if same(s.list[id].Frames, s.work) && s.list[id].Cut == cut && s.list[id].Limit == limit && s.list[id].End == end {
			return id
		}
	}
	if len(s.list) >= s.limit || s.frames+n > MaxFrames {
		return Other
	}
	id := int32(len(s.list))
	s.list = append(s.list, Stack{append([]Frame(nil), s.work...), cut, limit, end})
	s.frames += n
	s.byHash[sum] = append(s.byHash[sum], id)
	return id
}

func same(a, b []Frame) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		x, y := &a[i], &b[i]
		if x.File != y.File || x.Offset != y.Offset || x.Reason != y.Reason || x.Address != y.Address || x.Memory != y.Memory ||
			x.Mapping != y.Mapping || x.Inferred != y.Inferred || x.Calls != y.Calls || x.How != y.How {
			return false
		}
	}
	return true
}

func frameOf(st *resolve.Stack, i int) Frame {
	out := frameAt(st, i)
	out.How, _ = st.Frames[i].Unwound()
	return out
}

func frameAt(st *resolve.Stack, i int) Frame {
	f, o := &st.Frames[i], &st.Attributions[i]
	if o.File == nil {
		out := Frame{Reason: o.Reason, Address: f.Address(st.Text)}
		switch m := o.Memory; {
		case m == nil:
		case o.Reason == filemap.VMAOffset:
			out.Mapping, out.Offset = m, o.Offset
		case m.Exec || m.Code != nil:
			out.Memory, out.Offset = m, out.Address
			if o.HasOffset {
				out.Offset = o.Offset
			}
		}
		return out
	}
	out := Frame{File: o.File, Trust: o.Trust, Offset: o.Offset, Inferred: f.Inferred(), Calls: o.Calls}
	if !o.HasOffset {
		out.Offset = f.Address(st.Text)
	}
	return out
}

// Get returns a stack, nil if there is none.
func (s *Set) Get(id int32) *Stack {
	if id < 0 {
		return nil
	}
	return &s.list[id]
}

// Len returns how many stacks there are: their numbers count from 0.
func (s *Set) Len() int { return len(s.list) }

// Below reports whether less than so many quarters of the room are in use.
func (s *Set) Below(quarters int) bool { return len(s.list)*4 < s.limit*quarters }

// Attached returns the stack of an event, and what else is attached to it.
func Attached(h *resolve.Pending, i int) *resolve.Attached {
	if i < len(h.Attached) {
		return &h.Attached[i]
	}
	return &resolve.Attached{}
}
