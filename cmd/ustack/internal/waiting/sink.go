package waiting

import (
	"errors"
	"io"
	"runtime"
	"time"

	"ustack/cmd/ustack/internal/display"
	"ustack/cmd/ustack/internal/live"
	"ustack/cmd/ustack/internal/output"
	"ustack/cmd/ustack/internal/symbols"
	"ustack/filemap/resolve"
	"ustack/filemap/space"
	"ustack/filemap/symbolize"
	"ustack/render"
	"ustack/render/wait"
	"ustack/tracefs/instance"
	"ustack/tracefs/syscalls"
)

// Live is a sink that writes the report at the end of a trace, and what it is so far.
type Live struct {
	out      Output
	interval time.Duration // how often the report so far is written, 0 for never
	symbols  symbols.Options
	stdout   io.Writer
	reporter *live.Reporter
	some     bool // only some processes are traced

	start   *live.Start
	a       *wait.Analysis
	names   *symbolize.Symbols // nil without --symbols
	interim *display.Interim
}

// NewLive returns a sink.
func NewLive(f *Flags, names symbols.Options, opt *live.Options) *Live {
	return &Live{out: f.Output, interval: f.Interval, symbols: names, stdout: opt.Stdout, reporter: opt.Reporter,
		some: len(opt.PIDs) > 0 || len(opt.Command) > 0}
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
	o.start = start
	if start.Stacks == instance.DeferredStacks {
		return needs, errors.New("this kernel defers user stacks until a wait is over, which ustack wait does not trace live: " +
			"trace with ustack record or ustack live --save and these events, and give that to ustack wait")
	}
	if err := output.CheckProfile(o.stdout, o.out.Profile); err != nil {
		return needs, err
	}
	if o.names, err = o.symbols.Open("", o.reporter.Out); err != nil {
		return needs, err
	}
	o.interim = display.New(o.stdout, o.interval)
	o.a = wait.New(wait.Options{Machine: machine(), AllCalls: o.all(), Some: o.some})
	const tick = time.Second / 2
	return live.Needs{Symbols: o.names, Tick: tick, OwnProgress: o.interim.OnScreen()}, nil
}

// all reports whether all system calls are traced.
func (o *Live) all() bool {
	n := 0
	for _, e := range o.start.Events {
		if e.System == "raw_syscalls" && e.Filter == "" {
			n++
		}
	}
	return n == 2
}

// Renderer implements live.Sink.
func (o *Live) Renderer(*resolve.Resolver) render.Renderer { return o.a }

// Step implements live.Sink. It is never done.
func (o *Live) Step(t *resolve.Totals) (done bool, err error) {
	if o.start.Processes != nil && o.start.Idle() {
		o.a.Until(space.Monotonic())
	}
	if !o.a.Seen() {
		return false, nil
	}
	return false, o.interim.Step(t, func(w io.Writer) error {
		if o.names != nil {
			o.a.Name(o.names)
		}
		o.a.Refused(o.start.Refused())
		return o.out.Write(w, o.a)
	})
}

// End implements live.Sink. It writes the report, of an interrupted trace too.
func (o *Live) End() error {
	if o.a == nil {
		return nil
	}
	a := o.a
	o.a = nil
	var err error
	if o.start.Processes != nil {
		a.Until(o.start.Stopped())
	}
	if a.Seen() {
		a.Refused(o.start.Refused())
		err = errors.Join(o.interim.Clear(), o.out.Report(o.stdout, a, o.names))
	}
	if o.names != nil {
		o.names.Close()
	}
	return err
}
