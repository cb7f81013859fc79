package live

import (
	"errors"

	"ustack/cmd/ustack/internal/live/source"
	"ustack/tracefs/instance"
)

// tracer makes the records of a run: an instance of ftrace, or rings of perf.
type tracer interface {
	// SetPIDs, AddPIDs and ExcludePIDs choose whose events are traced, as for an
	// instance.Instance. PIDs returns whose are now, nil if that is not known.
	SetPIDs(tids []int, follow bool) error
	AddPIDs(tids []int) error
	ExcludePIDs(tids []int, follow bool) error
	PIDs() ([]int, error)
	// Start begins, Disable ends the events, but not their stacks, Stop ends all, and the
	// reader of the trace reaches its end. Remove takes all down; it may be called again.
	Start() error
	Disable(events []instance.Event) error
	Stop() error
	Remove() error
	// CPUs are those that have a buffer, of BufferKB each.
	CPUs() ([]int32, error)
	BufferKB() (int, error)
	Stats() ([]instance.Stats, error)
	// Mark writes a text into the trace, or has its reader return soon.
	Mark(text string) error
}

// remove removes what traces, with the instance beside it. It may be called again.
func remove(t tracer, beside *instance.Instance) error {
	var err error
	if t != nil {
		err = t.Remove()
	}
	if beside != nil {
		err = errors.Join(err, beside.Remove())
	}
	return err
}

// recorderOf returns the tracer if it is no instance, else nil.
func recorderOf(t tracer) source.Recorder {
	r, _ := t.(source.Recorder)
	return r
}
