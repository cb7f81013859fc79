package stackset

import (
	"ustack/filemap"
	"ustack/filemap/resolve"
	"ustack/tracefs"
)

// Far returns how far a stack goes.
func (s *Stack) Far() resolve.Far {
	return resolve.Far{Unwound: s.Frames[0].How != tracefs.ByKernel, Application: s.application(), Root: s.End == tracefs.AtRoot,
		Last: s.Frames[len(s.Frames)-1].File}
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
