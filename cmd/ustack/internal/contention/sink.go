package contention

import (
	"errors"
	"io"
	"time"

	"ustack/cmd/ustack/internal/analysis"
	"ustack/cmd/ustack/internal/live"
	"ustack/cmd/ustack/internal/owners"
	"ustack/filemap/resolve"
	"ustack/render/futex"
)

// LiveOptions say what a sink does besides writing the report at the end.
type LiveOptions struct {
	analysis.LiveOptions
	Owners bool // the owners of locks are read from memory
}

// Live is a sink that writes the report at the end of a trace, and what it is so far.
type Live struct {
	analysis.Live
	out       Output
	ownersToo bool
	a         *futex.Analysis
	owners    *owners.Owners // nil if owners are not read
	lockUp    *futex.Verdict // that was seen last, nil if none was then
	looked    time.Time
}

// NewLive returns a sink.
func NewLive(out Output, opt LiveOptions) *Live {
	out.Clock = live.Clock
	return &Live{Live: analysis.Live{LiveOptions: opt.LiveOptions}, out: out, ownersToo: opt.Owners}
}

// Open implements live.Sink.
func (o *Live) Open(start *live.Start) (needs live.Needs, err error) {
	if o.ownersToo {
		if start.Processes == nil {
			return needs, errors.New("--owners needs the processes of the trace")
		}
		o.owners = owners.New(start.Processes)
	}
	if err := o.Begin(start, o.out.Profile); err != nil {
		return needs, err
	}
	o.a = o.NewAnalysis(o.out.eachWait())
	o.A = o.a
	needs = o.Needs(o.out.Brief)
	needs.Tick, needs.Processes = o.tick(), true
	return needs, nil
}

// NewAnalysis returns another analysis of this trace, after Open. calls has it keep each wait.
func (o *Live) NewAnalysis(calls bool) *futex.Analysis {
	opt := futex.Options{Calls: calls, Entries: o.Entries, Impact: o.out.Impact, Order: o.out.View.Sort == "auto"}
	if p := o.Start.Processes; p != nil {
		opt.Mappings, opt.SharedLate, opt.Programs = p, true, p
		if o.Names != nil || o.Start.Saved { // a replay may name locks
			opt.Layouts = p
		}
	}
	return futex.New(opt)
}

// Analysis returns the analysis of the whole trace, after Open.
func (o *Live) Analysis() *futex.Analysis { return o.a }

// tick returns how often there is something to do without records.
func (o *Live) tick() time.Duration {
	tick := analysis.IdleTick
	if o.owners != nil {
		tick = owners.Every
	}
	if o.Interval > 0 {
		tick = min(tick, o.Interval)
	}
	return tick
}

// Step implements live.Sink. It is never done.
func (o *Live) Step(t *resolve.Totals) (done bool, err error) {
	if o.owners != nil && o.Start.Stopped() == 0 { // later readings are from after the trace
		o.owners.Now(o.a)
	}
	o.Idle()
	o.lookForLockUp()
	return false, o.Show(t, func(w io.Writer) error {
		o.name()
		return o.out.Write(w, o.a.Interim(o.out.View))
	})
}

// lockUpEvery is how often a trace in which nothing happens is looked at for why.
const lockUpEvery = time.Second

// lookForLockUp remembers a lock-up while its threads hang: they may be killed,
// by what stops the tracing, too.
func (o *Live) lookForLockUp() {
	if o.Start.Stopped() != 0 || !o.Start.Idle() && o.lockUp == nil || time.Since(o.looked) < lockUpEvery || !o.a.Seen() {
		return
	}
	o.looked = time.Now()
	if o.Names != nil {
		o.a.NameLocks(o.Names)
	}
	o.a.Refused(o.Start.Refused())
	r := o.a.Interim(futex.View{})
	if o.lockUp = nil; r.Verdict.LockUp() {
		o.lockUp = &r.Verdict
	}
}

// Wanted implements live.Counter.
func (o *Live) Wanted() int64 { return o.a.Calls() }

// name names what there are names for.
func (o *Live) name() {
	if o.Names != nil {
		o.a.Name(o.Names)
		o.a.NameLocks(o.Names)
	}
}

// End implements live.Sink. It writes the report, of an interrupted trace too.
func (o *Live) End() error {
	return o.Finish(func(w io.Writer) error { return o.out.Report(w, o.Reporter.Out, o.a, o.Names, o.lockUp) })
}
