package anoncode

import (
	"ustack/filemap/resolve"
	"ustack/filemap/timeline"
)

// ProgramOf returns Options.Program for a history of mappings: the program that the
// thread of a stack ran at its time. A stack without a time has none, and one that may be
// of another trace.
func ProgramOf(j *timeline.Attributor) func(*resolve.Query) (Program, bool) {
	return func(s *resolve.Query) (Program, bool) {
		if !s.Timed || j.Foreign(s) {
			return Program{}, false
		}
		pid, began, exact, ok := j.Program(int(s.TID), s.Time)
		return Program{PID: pid, Began: began, Exact: exact}, ok
	}
}
