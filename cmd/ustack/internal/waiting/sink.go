package waiting

import (
	"errors"
	"io"
	"runtime"

	"ustack/cmd/ustack/internal/analysis"
	"ustack/cmd/ustack/internal/live"
	"ustack/cmd/ustack/internal/symbols"
	"ustack/filemap/resolve"
	"ustack/render"
	"ustack/render/wait"
	"ustack/tracefs/instance"
	"ustack/tracefs/syscalls"
)

// Live is a sink that writes the report at the end of a trace, and what it is so far.
type Live struct {
	analysis.Live
	out  Output
	some bool // only some processes are traced
	a    *wait.Analysis
}

// NewLive returns a sink.
func NewLive(f *Flags, names symbols.Options, stdout io.Writer, opt *live.Options) *Live {
	shared := analysis.LiveOptions{Interval: f.Interval, Symbols: names, Stdout: stdout, To: f.To, Text: f.IsText(), Reporter: opt.Reporter}
	return &Live{Live: analysis.Live{LiveOptions: shared}, out: f.Output, some: len(opt.PIDs) > 0 || len(opt.Command) > 0}
}

// machine returns how system calls are numbered here.
func machine() syscalls.Table {
	switch runtime.GOARCH {
	case "amd64":
		return syscalls.AMD64
	case "arm64":
		return syscalls.Generic
	}
	return syscalls.NoTable
}

// Open implements live.Sink.
func (o *Live) Open(start *live.Start) (needs live.Needs, err error) {
	if start.Stacks == instance.DeferredStacks {
		return needs, errors.New("this kernel defers user stacks until a wait is over, which ustack wait does not trace live: " +
			"trace with ustack record or ustack live --save and these events, and give that to ustack wait")
	}
	if err := o.Begin(start, o.out.Profile); err != nil {
		return needs, err
	}
	o.a = wait.New(wait.Options{Machine: machine(), Entries: o.Entries, AllCalls: o.all(), Some: o.some})
	o.A = o.a
	return o.Needs(o.out.Brief), nil
}

// all reports whether all system calls are traced.
func (o *Live) all() bool {
	n := 0
	for _, e := range o.Start.Events {
		if e.System == "raw_syscalls" && e.Filter == "" {
			n++
		}
	}
	return n == 2
}

// Step implements live.Sink. It is never done.
func (o *Live) Step(t *resolve.Totals) (done bool, err error) {
	o.Idle()
	return false, o.Show(t, func(w io.Writer) error {
		if o.Names != nil {
			o.a.Name(o.Names)
		}
		return o.out.Write(w, o.a)
	})
}

// End implements live.Sink. It writes the report, of an interrupted trace too.
func (o *Live) End() error {
	return o.Finish(func(w io.Writer) error {
		return o.out.Report(w, render.Progress(o.Reporter.Out, o.Reporter.Quiet), o.a, o.Names)
	})
}
