// Package live is the engine of live tracing: it traces in its own instance,
// follows what processes have mapped meanwhile, and passes what the kernel records,
// resolved, to a sink.
//
// A Source delivers the records in batches; a Sink gets them, and what the engine
// knows, and never reaches into the engine. The options are a plain struct. The
// engine reads no flags and no arguments, and prints through the Reporter that it is
// given.
//
// Invariants:
//   - Nothing is switched on before all that was asked for is known to exist.
//   - Mappings are followed before tracing is switched on, and settled before
//     the records of a batch are attributed.
//   - The instances are removed at the end, whatever that is: an error, a signal, a
//     panic.
//   - A record that is missing is a gap in the trace, or counted.
package live

import (
	"fmt"
	"io"
	"time"

	"ustack/filemap/procmap"
	"ustack/tracefs/instance"
	"ustack/tracefs/pagefile"
)

// Clock is the trace_clock in use: perf can use it too, and it never jumps.
const Clock = "mono"

// Ways to find the stacks of futex waits.
const (
	UnwindAuto = "auto"
	UnwindFP   = "fp"   // by the kernel
	UnwindCopy = "copy" // from copies of the stacks
	// UnwindBlocked: from the memory of threads that wait.
	UnwindBlocked = "blocked"
)

// Ways to follow mappings.
const (
	MappingsAuto  = "auto"
	MappingsPerf  = "perf"  // by the side band of perf
	MappingsQuery = "query" // by asking processes
)

// Options select what is traced, and how.
type Options struct {
	// Events are SYSTEM:EVENT[/FILTER/], with wildcards; the system calls of futexes if
	// there are none. More are traced besides.
	Events, More []string
	// Specs, if there are any, are traced in place of the system calls of futexes.
	Specs []instance.Spec
	// Sched has the scheduler's events traced that show what the owners of locks do, if
	// only some processes are, and Events are not selected.
	Sched bool
	// PIDs are the processes to trace, with their children; all without any.
	PIDs []int
	// Command is run and traced, if there is one, with these standard streams.
	Command        []string
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Duration       time.Duration // of the trace, 0 for no limit
	BufferKB       int           // of the ring buffer of each CPU, 0 for RoomKB
	RoomKB         int           // the same, as far as maxRoomKB allows; 0 for the kernel's default
	// MaxBuffer is how many bytes the buffers of all CPUs may grow to, 0 if they are not to
	// grow; negative for UsualMaxBuffer, or 0 with BufferKB.
	MaxBuffer int64
	Save      string // directory for the raw trace and the mappings, "" for none
	Tracefs   string // where tracefs is mounted, "" for where it usually is
	Proc      string // where proc is mounted
	Source    string // of sources.Names
	Unwind    string // of those above
	// EverySleep has waits in all calls unwound while they last, not at futexes only: all
	// events of raw_syscalls and sched_switch are to be in the trace.
	EverySleep bool
	DebugDirs  []string // with separate debug files, for unwinding, beside the system's
	Mappings   string   // MappingsAuto, MappingsPerf or MappingsQuery
	MapsSource procmap.Source
	// Stitch passes each stack with its event, Strict leaves out files that are only
	// claimed, see resolve.Options.
	Stitch, Strict bool
	// NeedStacks makes it an error if the kernel takes no user stacks.
	NeedStacks bool
	// MayBeEmpty is set if it is no error that no event comes.
	MayBeEmpty bool
	// EachEvent is set if the sink looks at events that have no stack, too; NoText if it
	// shows no records, only results.
	EachEvent, NoText bool
	// Pages, if not nil, gets the sub-buffers of the ring buffer as they are, and the log of
	// what processes have mapped. The sink gets no records then, but for lost ones, and
	// stacks are not unwound.
	Pages *pagefile.Capture
	// Spare is set if the sink has no use for the stacks of wakeups, nor for those of
	// returns from futex calls whose entry has one.
	Spare    bool
	Reporter *Reporter
	// Exit ends the program with an exit code at once: a second signal has come.
	Exit func(code int)
}

// Reporter prints the messages of a run.
type Reporter struct {
	Command string    // whose messages they are
	Out     io.Writer // of render.Output: several goroutines report
	Quiet   bool      // errors only
}

// Say prints a message.
func (r *Reporter) Say(format string, args ...any) {
	if !r.Quiet {
		fmt.Fprintf(r.Out, "ustack: "+format+"\n", args...)
	}
}

// complain prints an error that does not end the run.
func (r *Reporter) complain(err error) { fmt.Fprintf(r.Out, "ustack %s: %v\n", r.Command, err) }
