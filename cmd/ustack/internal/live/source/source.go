// Package source is the interface of the ways to read the records of an instance:
// packages ring and pipe implement it, and package sources lists them.
package source

import (
	"errors"
	"time"

	"ustack/tracefs/binary"
	"ustack/tracefs/input"
	"ustack/tracefs/instance"
	"ustack/tracefs/pagefile"
)

// Source delivers the records of an instance, in batches. Next and Close are called by
// one goroutine; Interrupt may be called by any, and has Next return.
type Source interface {
	input.ReadCloser
	// Name is the value of --source.
	Name() string
	// Exact reports whether times come from the kernel's records: times in text can
	// be forged.
	Exact() bool
	// Size returns how many bytes have been read.
	Size() int64
	// Losing reports whether records are missing before some that Next has not
	// delivered yet.
	Losing() bool
	// Notes returns notes on the trace for the user, at its end.
	Notes() []string
	Interrupt() error
}

// Kind is a way to read an instance.
type Kind struct {
	// Name is the value of --source, Help the text for it.
	Name, Help string
	// Open opens the instance, which traces.
	Open func(*Request) (Source, error)
	// Alone: it is no way to read an instance. Another recorder makes the trace, which the
	// engine has prepared (Request.Recorder) as this kind was asked for by its name.
	Alone bool
}

// Recorder makes a trace without an instance.
type Recorder interface {
	// Open opens the trace.
	Open(*Request) (Source, error)
	// Deferred reports whether stacks come later than their events.
	Deferred() bool
}

// Request selects what is to be read.
type Request struct {
	Instance *instance.Instance
	// Recorder makes the trace in place of an Instance, for a Kind that is Alone.
	Recorder Recorder
	// Enabled are the events that are traced.
	Enabled []instance.Event
	// Events asks for a record of each event, NoText for records without text.
	Events, NoText bool
	// Spare leaves out stacks as binary.Options.Spare does, where the source can.
	Spare bool
	// Room is how many bytes of memory may hold records when the buffer fills, Grown is
	// called when it is more than ever before, where the source can do that.
	Room  int64
	Grown func(bytes int64)
	// Pace and Patience are those of binary.LiveOptions, for sources that are Exact; a
	// Pace of 0 is what fits the buffer.
	Pace     time.Duration
	Patience func() time.Duration
	// Tasks has the names of tasks, nil if they are unknown; Symbols has the
	// kernel's.
	Tasks   binary.Names
	Symbols *binary.Symbols
	// Pages gets the sub-buffers; for package pages only. Kernel returns /proc/kallsyms,
	// and Complete brings the log of address spaces up to date.
	Pages    *pagefile.Capture
	Kernel   func() []byte
	Complete func() error
}

// ErrNoRaw means that a trace is there as text only.
var ErrNoRaw = errors.New("the trace is there as text only")
