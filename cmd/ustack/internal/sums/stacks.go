package sums

import (
	"bytes"
	"hash/maphash"
	"slices"

	"ustack/filemap"
	"ustack/filemap/resolve"
	"ustack/tracefs/bpffutex"
)

// remembered are stacks whose files have been found, by what the kernel wrote or by what was
// unwound (see walks.key): threads wait at few places, and to find the files of a stack takes
// most of the time of a wait.
//
// Only stacks are kept that come out the same as long as nothing new is read of what their process
// has mapped (files.lasts), and they count only for what was read then (program.version). What is
// found of others depends on what is mapped now, or on when that was last read.
//
// Invariants: frames are those of all stacks, no more than maxFrames.
type remembered struct {
	seed   maphash.Seed
	stacks map[uint64]*rememberedStack // by the hash of their bytes and their program
	frames int
	last   uint64 // number of the stack that was kept last: see resolve.Stack.ResultID
}

// rememberedStack is a stack of a program.
type rememberedStack struct {
	of      *program
	version uint64 // of the program
	raw     []byte
	cut     bool
	stack   resolve.Stack
}

const maxFrames = 1 << 16

func newRemembered() remembered {
	return remembered{seed: maphash.MakeSeed(), stacks: make(map[uint64]*rememberedStack)}
}

func (r *remembered) clear() {
	clear(r.stacks)
	r.frames = 0
}

func (r *remembered) key(p *program, raw []byte) uint64 {
	const mix = 0x9e3779b97f4a7c15
	return maphash.Bytes(r.seed, raw) ^ (p.memory+p.born)*mix
}

// get returns the stack of a program that is written raw, nil if it is not known, or not as what the
// program has mapped is known now. cut: the kernel takes no more frames.
func (r *remembered) get(p *program, raw []byte, cut bool) *resolve.Stack {
	s := r.stacks[r.key(p, raw)]
	if s == nil || s.of != p || s.version != p.version || s.cut != cut || !bytes.Equal(s.raw, raw) {
		return nil
	}
	return &s.stack
}

// put keeps a stack, in the place of one with its hash, and returns what is kept.
func (r *remembered) put(p *program, raw []byte, cut bool, s *resolve.Stack) *resolve.Stack {
	key := r.key(p, raw)
	if old := r.stacks[key]; old != nil {
		r.frames -= len(old.stack.Frames)
		delete(r.stacks, key)
	}
	if r.frames+len(s.Frames) > maxFrames {
		r.clear()
	}
	r.last++
	kept := &rememberedStack{of: p, version: p.version, raw: bytes.Clone(raw), cut: cut, stack: *s}
	kept.stack.Frames, kept.stack.Attributions = slices.Clone(s.Frames), slices.Clone(s.Attributions)
	kept.stack.ResultID = r.last
	r.stacks[key], r.frames = kept, r.frames+len(s.Frames)
	return &kept.stack
}

// lasts reports whether a wait's stack is the same as long as nothing new is read of what its
// program has mapped: each frame is of a file that it has mapped there as code, and at one path.
func (f *files) lasts(p *program, w *bpffutex.Wait) bool {
	for i := range w.Stack {
		frame := &w.Stack[i]
		id := filemap.BuildID(frame.BuildID)
		if frame.IsAddress || p.paths[id] == "" {
			return false
		}
		if _, runs := p.maps(id, frame.Number); !runs {
			return false
		}
	}
	return w.Raw != nil
}
