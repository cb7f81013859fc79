package futex

import (
	"path"

	"ustack/filemap"
	"ustack/filemap/resolve"
	"ustack/tracefs"
)

// Reach is how far the stacks of waits go, of a trace whose waits ustack has unwound.
type Reach struct {
	// Waits are those with a stack, Unwound those whose stack ustack has unwound.
	Waits, Unwound int64
	// Application are those with a frame of code that is in no C library, dynamic
	// linker or vDSO; Root those whose stack is complete.
	Application, Root int64
	// End is the name of the file in which most of the others end, "" if there are none or that
	// is not known; Ends is how many do.
	End  string
	Ends int64
}

// reach counts the stacks of waits.
type reach struct {
	unwound bool
	waits   map[int32]int64 // by stack
}

// waited notes a wait with a stack.
func (r *reach) waited(stack int32, att *resolve.Attached) {
	if stack < 0 {
		return
	}
	if !r.unwound {
		how, _ := att.Stack.Frames[0].Unwound()
		r.unwound = how != tracefs.ByKernel
	}
	if r.waits == nil {
		r.waits = make(map[int32]int64)
	}
	r.waits[stack]++
}

// reached is how far the stacks go, nil if the kernel has unwound all of them: it does
// not say where a stack is complete.
func (rp *reporter) reached() *Reach {
	if !rp.calls.reach.unwound {
		return nil
	}
	out := new(Reach)
	ends := make(map[string]int64)
	for id, n := range rp.calls.reach.waits {
		s := rp.stacks.get(id)
		out.Waits += n
		if s.Frames[0].How != tracefs.ByKernel {
			out.Unwound += n
		}
		if s.application() {
			out.Application += n
		}
		if s.End == tracefs.AtRoot {
			out.Root += n
			continue
		}
		if f := &s.Frames[len(s.Frames)-1]; f.File != nil {
			ends[path.Base(f.File.Path)] += n
		} else {
			ends[""] += n
		}
	}
	for name, n := range ends {
		if n > out.Ends || n == out.Ends && name < out.End {
			out.End, out.Ends = name, n
		}
	}
	return out
}

// application reports whether a stack has code of a program.
func (s *Stack) application() bool {
	for i := range s.Frames {
		f := &s.Frames[i]
		if f.File != nil && !f.InLibc() || f.Memory != nil && f.Reason != filemap.VDSO {
			return true
		}
	}
	return false
}
