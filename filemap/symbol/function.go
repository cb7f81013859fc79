package symbol

import "ustack/filemap"

// Function is what is known of the code of a frame in a stack.
type Function struct {
	// Name is nil if the frame is in no file, and not in code that has a name or could
	// have one.
	Name *Name
	// Skipped is the function that was left out between the frame and the next outer
	// one, nil if none is known.
	Skipped *Skipped
}

// Namer names code; symbolize.Symbols does.
type Namer interface {
	// Name names the code at an offset of a file. ran means that the thread was at the
	// offset itself, and not that it will return there.
	Name(f *filemap.File, offset uint64, ran bool) *Name
	// Skipped is the function that unwinding has left out between two frames,
	// nil if none is known.
	Skipped(inner, outer Place) *Skipped
}

// OfMemory returns the name of a frame that lies in memory without a file: the
// function, or why it has none; nil if it is no code. at is the frame's address,
// in the vDSO its offset there.
func OfMemory(m *filemap.Memory, why filemap.Reason, at uint64) *Name {
	switch {
	case m == nil:
		return nil
	case m.Code != nil && m.Code.Runtime:
		n := &Name{Function: m.Code.Function, Offset: m.Code.Offset, Source: HotSpot}
		for _, in := range m.Code.Inlined {
			n.Inlined = append(n.Inlined, Call{Function: in})
		}
		return n
	case m.Code != nil:
		n := &Name{Function: m.Code.Function, Offset: at - m.Code.Start, Source: PerfMap}
		if why == filemap.VDSO {
			n.Source = VDSO
		}
		return n
	case m.Exec && why == filemap.Anonymous:
		return &Name{Reason: JIT}
	}
	return nil
}
