package profile

import (
	"ustack/filemap/symbol"
	"ustack/render/stackset"
	"ustack/tracefs"
)

// Kept interns a stack that a report keeps, and returns its number: see Stack. none is
// why there is none, if it is nil.
func (p *Profile) Kept(s *stackset.Stack, none string) int32 {
	frames, cut := KeptFrames(p.work[:0], s, none)
	p.work = frames
	return p.Stack(frames, KeptFunctions(nil, s), cut)
}

// KeptFrames lists the frames of a stack that a report keeps, or none, why there is
// no stack. cut means that the outermost ones are missing.
func KeptFrames(list []Frame, s *stackset.Stack, none string) (frames []Frame, cut bool) {
	if s == nil {
		return append(list, Frame{Memory: "[" + none + "]"}), false
	}
	for i := range s.Frames {
		f := &s.Frames[i]
		one := Frame{File: f.File, Reason: f.Reason, Inferred: f.Inferred, Calls: f.Calls,
			Interrupted: f.How == tracefs.BySignal, Followed: f.How != tracefs.ByKernel}
		if f.File != nil {
			one.Offset = f.Offset
		} else if f.Name != nil {
			one.Memory = f.Name.Function
		}
		list = append(list, one)
	}
	return list, s.Cut
}

// KeptFunctions lists the functions of a stack, none if it has no names.
func KeptFunctions(list []symbol.Function, s *stackset.Stack) []symbol.Function {
	if s == nil || !s.Named() {
		return list
	}
	for i := range s.Frames {
		list = append(list, symbol.Function{Name: s.Frames[i].Name, Skipped: s.Frames[i].Skipped})
	}
	return list
}
