package live

import (
	"errors"
	"time"

	"ustack/filemap"
	"ustack/filemap/openfile"
	"ustack/filemap/resolve"
	"ustack/filemap/symbolize"
	"ustack/render"
	"ustack/tracefs"
	"ustack/tracefs/instance"
)

// Sink gets what a run delivers. Its methods are called by one goroutine, in the order
// Open, Renderer, then Step after each batch, then End. If Open fails, nothing else
// is called.
//
// Lost records, and changes of the settings by other users, are records of the
// batches (tracefs.KindLost, tracefs.KindNote).
type Sink interface {
	// Open is called when all is ready and nothing is traced yet. It returns what the
	// sink needs.
	Open(start *Start) (Needs, error)
	// Renderer returns the renderer that gets the batches.
	Renderer(res *resolve.Resolver) render.Renderer
	// Step is called after each batch, and now and then without one (Needs.Tick). It
	// returns true to have the tracing stopped: the records in the buffer still
	// come.
	Step(totals *resolve.Totals) (done bool, err error)
	// End is called at the end, whatever that is.
	End() error
}

// Start is passed to a sink before the trace begins: how the trace is made, and
// functions that report on the run. Only Wake changes anything in it.
type Start struct {
	Events   []instance.Event     // that are traced
	Stacks   instance.StackSource // of the kernel
	Mappings string               // how mappings are followed
	Saved    bool                 // the trace is kept for a replay
	Since    *openfile.Begin      // before any path of a file was read
	// Processes has the processes of the trace, nil if they are out of reach.
	Processes *Processes
	// Files returns the files that are mapped as code now.
	Files func() []*filemap.File
	// Refused returns the number of records that the kernel refused, of which readers
	// of the buffer see nothing.
	Refused func() uint64
	// Stopped returns the time when tracing was stopped, 0 if it was not.
	Stopped func() tracefs.Time
	// Idle reports whether all records until a moment ago have been rendered.
	Idle func() bool
	// Wake writes a text into the trace: Step follows soon. Any goroutine may call it.
	Wake func(text string) error
}

// Needs are a sink's requirements for a run.
type Needs struct {
	// Symbols name the functions that threads began with, and code in no file; nil for
	// no names.
	Symbols *symbolize.Symbols
	// Code names code in no file only, without Symbols.
	Code bool
	// Tick is how often Step is called at least, 0 for after batches only.
	Tick time.Duration
	// OwnProgress is set if the sink shows its own progress on the terminal.
	OwnProgress bool
	// OwnTotals is set if the sink prints totals of its own.
	OwnTotals bool
	// Screen is set if the sink ends with a text that fits onto the terminal: of the totals
	// only what is missing comes after it, else it would be scrolled away.
	Screen bool
	// Lines is set if the sink's output goes to a terminal line by line: a counter would
	// be between the lines.
	Lines bool
	// Processes is set if Start.Processes is used: processes are read early then, if
	// stacks come long after their events.
	Processes bool
}

// start returns what the sink gets.
func (s *session) start() *Start {
	return &Start{
		Events: s.events, Stacks: s.stacks, Mappings: s.follow.how, Saved: s.saved != nil, Since: s.began,
		Files:   s.follow.known,
		Refused: func() uint64 { return overruns(s.refused()) },
		Stopped: func() tracefs.Time { return tracefs.Time(s.until.Load()) },
		Idle:    s.progress.idle,
		Wake:    s.tracer.Mark,

		Processes: &Processes{s.follow},
	}
}

// openSink opens the sink, and prepares what it needs.
func (s *session) openSink() (err error) {
	if s.needs, err = s.sink.Open(s.start()); err != nil {
		return err
	}
	if s.needs.Processes && s.stacks == instance.DeferredStacks {
		if s.follow.early, err = newEarly(s.opt.Proc, s.follow); err != nil {
			return errors.Join(err, s.sink.End())
		}
	}
	return nil
}
