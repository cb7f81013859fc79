package binary

import (
	"strings"

	"ustack/tracefs"
	"ustack/tracefs/format"
	"ustack/tracefs/ring"
)

// Kernel has the facts about a kernel that its records are printed by. All but
// Layout and Events may be missing; a value that is unknown then is printed as
// the kernel prints values that it has forgotten.
type Kernel struct {
	Layout ring.Layout
	// Subbuf is the size of a sub-buffer in bytes, Layout.Size if 0.
	Subbuf int
	Events []*format.Event
	// Comms are the names of tasks (saved_cmdlines), TGIDs their processes
	// (saved_tgids).
	Comms map[int32]string
	TGIDs map[int32]int32
	// Names, if not nil, has the names of tasks; Comms is then for tasks that it
	// does not know.
	Names Names
	// Clock is the name of the trace clock.
	Clock string
	// Release is the kernel's, "6.18.44-1"; "" if unknown.
	Release string
	Options TraceOptions
	// Symbols are kernel addresses by name, Strings the kernel's strings by
	// address.
	Symbols *Symbols
	Strings map[uint64]string
}

// Names finds the names of tasks while the trace is being made.
type Names interface {
	// Comm is the name that a thread had at a time of the trace clock. The
	// answer, also that the name is unknown, holds for times before until.
	Comm(tid int32, at uint64) (comm string, until uint64, ok bool)
}

// TraceOptions are the trace_options that change the text.
type TraceOptions struct {
	// NoIRQInfo leaves the flag columns out, TGID puts the process in.
	NoIRQInfo, TGID bool
	// Verbose puts the C type before each argument of a system call.
	Verbose bool
	// SymOffset and SymAddr print kernel symbols with offset and address.
	SymOffset, SymAddr bool
	// NoParent leaves the caller out of function records.
	NoParent bool
}

// parseOptions reads the text of trace_options, one option a line, with "no" before
// an option that is off.
func parseOptions(text string) TraceOptions {
	set := make(map[string]bool)
	for name := range strings.FieldsSeq(text) {
		set[name] = true
	}
	return TraceOptions{
		NoIRQInfo: set["noirq-info"], TGID: set["record-tgid"], Verbose: set["verbose"],
		SymOffset: set["sym-offset"], SymAddr: set["sym-addr"], NoParent: set["noprint-parent"],
	}
}

// clocksInNanoseconds are the trace clocks whose stamps are printed as
// seconds (trace_clocks in kernel/trace/trace.c), and the wall clock, which only
// perf has.
var clocksInNanoseconds = map[string]bool{
	"": true, "local": true, "global": true, "perf": true, "mono": true, "mono_raw": true, "boot": true, "tai": true,
	"realtime": true,
}

// ParseClock finds the clock in use in the text of trace_clock,
// "local [global] counter".
func ParseClock(text string) string {
	_, rest, _ := strings.Cut(text, "[")
	name, _, ok := strings.Cut(rest, "]")
	if !ok {
		return ""
	}
	return name
}

// atLeast reports whether the kernel is of this release or later; one that is
// not known is taken to be new.
func (k *Kernel) atLeast(major, minor int) bool {
	var have [2]int
	rest := k.Release
	for i := range have {
		n := 0
		for n < len(rest) && rest[n]-'0' <= 9 && n < 6 {
			have[i] = have[i]*10 + int(rest[n]-'0')
			n++
		}
		if n == 0 {
			return true
		}
		rest = strings.TrimPrefix(rest[n:], ".")
	}
	return have[0] > major || have[0] == major && have[1] >= minor
}

// field is a number in a record, by its format.
type field struct {
	off, size int
	ok        bool
}

func fieldOf(e *format.Event, name string) field {
	f := e.Field(name)
	if f == nil || f.Loc == format.Inline && f.Array {
		return field{}
	}
	return field{f.Offset, f.Size, true}
}

// get reads the field as an unsigned number, 0 if the record is too short.
func (f field) get(p *Printer, rec []byte) uint64 {
	if !f.ok || f.off+f.size > len(rec) {
		return 0
	}
	return p.number(rec[f.off:], f.size)
}

// validTID bounds what a record says to what can be a thread.
func validTID(pid int32) int32 {
	if pid < 0 || pid > tracefs.MaxTID {
		return tracefs.NoTID
	}
	return pid
}
