package wait

import (
	"bytes"
	"cmp"

	"ustack/filemap/resolve"
	"ustack/filemap/symbol"
	"ustack/render/lost"
	"ustack/render/stackset"
	"ustack/tracefs"
	"ustack/tracefs/sched"
	"ustack/tracefs/syscalls"
)

// Options configure an Analysis.
type Options struct {
	// Machine is how system calls are numbered, NoTable if that is unknown: it is
	// learnt from calls of futex then, which traces have by name.
	Machine syscalls.Table
	// Entries shows which calls are numbered otherwise; it may be nil.
	Entries stackset.Entries
	// AllCalls: the trace has all system calls. Some: it is of some processes, so that a
	// thread that makes none is another's, of which the trace has a part.
	AllCalls, Some bool
	// Gaps are the gaps of the whole trace, if it has been read before.
	Gaps *lost.Gaps
	// Stacks, Threads and Cells bound the memory, 0 for the default.
	Stacks, Threads, Cells int
}

// Bounds of memory.
const (
	defaultStacks  = 16384
	defaultThreads = 1 << 16
	defaultCells   = 1 << 16
)

// Analysis adds up the waits of a trace.
type Analysis struct {
	stacks  stackset.Set
	losses  lost.Losses
	queue   queue
	calls   calls
	threads threads
	table   table

	all, some    bool  // see Options.AllCalls, Some
	pairs        int64 // entries into calls with their return
	lostTimes    int64 // how often records were lost
	raw, wakings bool  // the trace has them
	switches     int64
	refused      uint64 // records, by the kernel
	until        tracefs.Time
	task         sched.Event
	sys          syscalls.RawCall
}

// New returns an empty Analysis.
func New(opt Options) *Analysis {
	opt.Stacks, opt.Threads, opt.Cells = cmp.Or(opt.Stacks, defaultStacks), cmp.Or(opt.Threads, defaultThreads), cmp.Or(opt.Cells, defaultCells)
	a := &Analysis{calls: newCalls(opt.Machine, opt.Entries), all: opt.AllCalls, some: opt.Some}
	a.stacks.Init(opt.Stacks)
	a.threads = threads{all: make(map[int32]*thread), most: opt.Threads}
	a.table = newTable(opt.Cells)
	a.losses.Disturbed = a.queue.disturbed
	if opt.Gaps != nil {
		a.losses.Gaps, a.losses.Known = *opt.Gaps, true
	}
	return a
}

// Batch takes the next batch of a trace.
func (a *Analysis) Batch(h *resolve.Pending) error {
	a.losses.Batch(h, taker{a})
	return nil
}

// taker takes the records of a batch for an analysis: it implements lost.Taker.
type taker struct{ *Analysis }

// Event takes an event.
func (a taker) Event(h *resolve.Pending, i int, rec *tracefs.Record) { a.event(h, i, rec) }

// Note implements lost.Taker: where futexes are is of no use here.
func (a taker) Note(*resolve.Pending, *tracefs.Record) {}

// Lost notes that records were lost.
func (a taker) Lost() {
	a.lostTimes++
}

// Settle settles what no later gap can reach.
func (a taker) Settle(h *resolve.Pending) { a.settle(h) }

// Flush implements render.Renderer; an analysis has nothing to show yet.
func (a *Analysis) Flush() error { return nil }

// Close implements render.Renderer: the trace has ended.
func (a *Analysis) Close(*resolve.Totals) error {
	a.finish()
	return nil
}

// Seen reports whether there was a record.
func (a *Analysis) Seen() bool { return a.losses.Begun }

// Gaps returns the gaps of the trace so far.
func (a *Analysis) Gaps() *lost.Gaps { return &a.losses.Gaps }

// NeedsGaps reports whether a gap was found too late: with Options.Gaps the trace has a
// better answer.
func (a *Analysis) NeedsGaps() bool { return a.queue.late }

// Refused notes how many records the kernel has refused so far.
func (a *Analysis) Refused(n uint64) { a.refused = n }

// Until notes that the trace is whole up to a time: waits that have not ended last until
// then.
func (a *Analysis) Until(t tracefs.Time) { a.until = max(a.until, t) }

// Name names the functions of all stacks that have no names yet.
func (a *Analysis) Name(names symbol.Namer) { a.stacks.Name(names) }

// event takes an event if it is of interest.
func (a *Analysis) event(h *resolve.Pending, i int, rec *tracefs.Record) {
	empty := rec.End <= rec.Body && rec.Flags&tracefs.NoText == 0
	if empty || rec.Flags&tracefs.Continued != 0 || rec.TID == tracefs.NoTID { // corrupt ones are of no thread
		return
	}
	if call := h.Call(rec); call != nil {
		a.named(h, i, rec, call.Call.Name(), call.Exit)
		return
	}
	body := h.Text[rec.Body:rec.End]
	switch {
	case len(body) < 5:
	case body[0] == 's' && body[1] == 'y':
		a.syscall(h, i, rec, body)
	case body[0] == 's' && sched.Parse(body, &a.task):
		a.sched(h, i, rec)
	case bytes.HasPrefix(body, []byte("page_fault_user:")):
		a.fault(h, rec)
	}
}

// sched takes a scheduler event.
func (a *Analysis) sched(h *resolve.Pending, i int, rec *tracefs.Record) {
	t := h.Time(rec)
	switch e := &a.task; e.Kind {
	case sched.Switch:
		a.switches++
		a.leaves(h, i, rec, t)
		a.comes(e.TID, t)
		if th := a.threads.of(e.TID); th != nil {
			a.threads.named(th, h.Plain(e.Comm))
		}
	case sched.Waking:
		a.wakings = true
		a.woken(h, i, rec, t)
	case sched.Wakeup:
		if !a.wakings { // a later event of the same
			a.woken(h, i, rec, t)
		}
	case sched.Exec:
		if th := a.threads.of(e.TID); th != nil {
			th.call.wide = false
		}
	}
}
