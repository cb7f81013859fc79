// Package profiles makes profiles of reports, as servers of profiles take them: OTLP
// (opentelemetry.io, profiles of the "development" protocol), and profile.proto of pprof with
// the API push.v1 of Pyroscope.
//
// Frames are places in files, with build IDs: the server, or its users, have the symbols.
package profiles

// Report is what a profile is made of.
type Report struct {
	Key                      uint64 // of the report
	Device, OS, Kernel, Arch string
	// Begun is when the trace began, in nanoseconds of UTC, 0 if that is unknown; Duration is
	// in nanoseconds.
	Begun, Duration int64
	Stacks          [][]Frame // innermost first
	Samples         []Sample
}

// Frame is a frame of a stack: a place in a file, or the reason why there is none.
type Frame struct {
	Path    string
	BuildID string // in hex, as files are named after it, "" if there is none
	Offset  uint64
	// Ran is set if the thread was at the offset itself; else it is a return address.
	Ran    bool
	Reason string
}

// Sample is a wait, or events of one kind with one stack.
type Sample struct {
	Stack int    // in Stacks, -1 if it has none
	Event string // "" for a wait
	Time  int64  // in nanoseconds of UTC, 0 if that is unknown
	Value int64  // nanoseconds of a wait, or how many events there were
	TID   int32  // 0 if that is unknown
	Kind  string // of the lock
	Lock  string // its name, "" if it has none
}

// call returns where in the file a frame is: as the formats want it, a place in the
// instruction that called. The offset of a return address is one more.
func (f *Frame) call() uint64 {
	if f.Ran || f.Offset == 0 {
		return f.Offset
	}
	return f.Offset - 1
}

// label returns a frame without a file as a function.
func (f *Frame) label() string {
	if f.Reason == "" {
		return "[unknown]"
	}
	return "[" + f.Reason + "]"
}
