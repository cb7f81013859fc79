package contention

import (
	"errors"
	"io"
	"time"

	"ustack/cmd/ustack/internal/display"
	"ustack/cmd/ustack/internal/live"
	"ustack/cmd/ustack/internal/output"
	"ustack/cmd/ustack/internal/symbols"
	"ustack/filemap/resolve"
	"ustack/filemap/space"
	"ustack/filemap/symbolize"
	"ustack/render"
	"ustack/render/futex"
)

// LiveOptions say what a sink does besides writing the report at the end.
type LiveOptions struct {
	Interval time.Duration // how often the report so far is written, 0 for never
	Owners   bool          // the owners of locks are read from memory
	Symbols  symbols.Options
	Stdout   io.Writer
	Reporter *live.Reporter
}

// Live is a sink that writes the report at the end of a trace, and what it is so far.
type Live struct {
	out     Output
	opt     LiveOptions
	start   *live.Start
	a       *futex.Analysis
	names   *symbolize.Symbols // nil without --symbols
	interim *display.Interim
	owners  *owners        // nil if owners are not read
	lockUp  *futex.Verdict // that was seen last, nil if none was then
	looked  time.Time
}

// NewLive returns a sink.
func NewLive(out Output, opt LiveOptions) *Live {
	out.Clock = live.Clock
	return &Live{out: out, opt: opt}
}

// Open implements live.Sink.
func (o *Live) Open(start *live.Start) (needs live.Needs, err error) {
	o.start = start
	if err := output.CheckProfile(o.opt.Stdout, o.out.Profile); err != nil {
		return needs, err
	}
	if o.opt.Owners {
		if start.Processes == nil {
			return needs, errors.New("--owners needs the processes of the trace")
		}
		o.owners = newOwners(start.Processes)
	}
	if o.names, err = o.opt.Symbols.Open("", o.opt.Reporter.Out); err != nil {
		return needs, err
	}
	o.interim = display.New(o.opt.Stdout, o.opt.Interval)
	opt := futex.Options{Calls: o.out.eachWait(), Impact: o.out.Impact.On}
	if start.Processes != nil {
		opt.Mappings, opt.SharedLate, opt.Programs = start.Processes, true, start.Processes
		if o.names != nil {
			opt.Layouts = start.Processes
		}
	}
	o.a = futex.New(opt)
	return live.Needs{Symbols: o.names, Tick: o.tick(), OwnProgress: o.interim.OnScreen(), Processes: true}, nil
}

// tick returns how often there is something to do without records.
func (o *Live) tick() time.Duration {
	tick := time.Second / 2
	if o.owners != nil {
		tick = ownersEvery
	}
	if o.opt.Interval > 0 {
		tick = min(tick, o.opt.Interval)
	}
	return tick
}

// Renderer implements live.Sink.
func (o *Live) Renderer(*resolve.Resolver) render.Renderer { return o.a }

// Step implements live.Sink. It is never done.
func (o *Live) Step(t *resolve.Totals) (done bool, err error) {
	if o.owners != nil && o.start.Stopped() == 0 { // later readings are from after the trace
		o.owners.now(o.a)
	}
	if o.start.Processes != nil && o.start.Idle() {
		o.a.Until(space.Monotonic())
	}
	o.lookForLockUp()
	if !o.a.Seen() {
		return false, nil
	}
	return false, o.interim.Step(t, o.show)
}

// lockUpEvery is how often a trace in which nothing happens is looked at for why.
const lockUpEvery = time.Second

// lookForLockUp remembers a lock-up while its threads hang: they may be killed,
// by what stops the tracing, too.
func (o *Live) lookForLockUp() {
	if o.start.Stopped() != 0 || !o.start.Idle() && o.lockUp == nil || time.Since(o.looked) < lockUpEvery || !o.a.Seen() {
		return
	}
	o.looked = time.Now()
	if o.names != nil {
		o.a.NameLocks(o.names)
	}
	o.a.Refused(o.start.Refused())
	r := o.a.Interim(futex.View{})
	if o.lockUp = nil; r.Verdict.LockUp() {
		o.lockUp = &r.Verdict
	}
}

// show writes the answer so far.
func (o *Live) show(w io.Writer) error {
	if o.names != nil {
		o.a.Name(o.names)
		o.a.NameLocks(o.names)
	}
	o.a.Refused(o.start.Refused())
	return o.out.Write(w, o.a.Interim(o.out.View))
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
		err = errors.Join(o.interim.Clear(), o.out.Report(o.opt.Stdout, o.opt.Reporter.Out, a, o.names, o.lockUp))
	}
	if o.names != nil {
		o.names.Close()
	}
	return err
}
