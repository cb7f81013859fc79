package futex

import (
	"bytes"
	"cmp"

	"ustack/filemap"
	"ustack/filemap/proof"
	"ustack/filemap/resolve"
	"ustack/render/ahead"
	"ustack/render/lost"
	"ustack/render/stackset"
	"ustack/tracefs"
	"ustack/tracefs/sched"
	"ustack/tracefs/syscalls"
)

// Mappings has what a trace may lack: the process of a thread, and the file that is
// shared at an address.
type Mappings interface {
	// Process is the process of a thread.
	Process(tid int32) (pid int32, ok bool)
	// SharedFile is the file that a process maps shared at an address (id is
	// the same in all processes), and the address's offset in it. ok is false
	// if the address is unknown; an empty id means that it is not shared.
	SharedFile(tid int32, at tracefs.Time, timed bool, addr uint64) (id, path string, offset uint64, ok bool)
}

// Layouts has what a process had mapped, for the names of its variables.
type Layouts interface {
	// Layout returns the part of a thread's layout at a time that decides whether an
	// address is in the data of a program or library, nil if it is unknown. tgid is
	// the process, tracefs.NoTID if unknown, and comm the thread's name, nil if
	// unknown.
	Layout(tid, tgid int32, comm []byte, at tracefs.Time, timed bool, addr uint64) (filemap.Layout, filemap.Trust)
	// Stays reports whether a part that it has returned for an address holds at
	// another time.
	Stays(tid, tgid int32, comm []byte, at tracefs.Time, timed bool, addr uint64, l filemap.Layout) proof.Stay
}

// Programs knows which program a thread runs.
type Programs interface {
	// Program is when the program that a thread runs at a time began to run in its
	// process. ok is false if it is not known exactly.
	Program(tid int32, at tracefs.Time) (began tracefs.Time, ok bool)
	// ProcessAt is the process of a thread at a time.
	ProcessAt(tid int32, at tracefs.Time) (pid int32, ok bool)
	// Name is the name of the program that a thread runs at a time, without
	// directories, "" if unknown.
	Name(tid int32, at tracefs.Time) string
}

// Options configure an Analysis.
type Options struct {
	// Mappings may be nil. SharedLate: they have shared files as they are when they are
	// asked, and not when the futex was called.
	Mappings   Mappings
	SharedLate bool
	// Layouts has the mappings around each futex, so that NameLocks can name it;
	// nil means none.
	Layouts Layouts
	// GoHeap reports whether a number that stands for an address, in a trace without
	// addresses, is one of the heap of a Go program. It may be nil.
	GoHeap func(addr uint64) bool
	// Programs shows where processes execute another program, or their numbers are
	// used again, if the trace has no events of that; nil if nothing does.
	Programs Programs
	// Entries shows which system calls are numbered as those of 32 bits; it may be nil.
	Entries stackset.Entries
	// Gaps are the gaps of the whole trace, if it has been read before.
	Gaps *Gaps
	// Calls keeps all calls that wait for WaitCalls.
	Calls bool
	// Impact is what Analysis.Impact is to find.
	Impact ImpactView
	// Order keeps what an order by the critical path needs (View.Sort auto), of a trace that
	// is not long.
	Order bool
	// Locks, Stacks and Threads bound the memory, 0 for the default.
	Locks, Stacks, Threads int
}

// Bounds of memory. Locks, stacks and threads beyond them are added up without their
// parts.
const (
	defaultLocks   = 8192
	defaultStacks  = 16384
	defaultThreads = 1 << 16
)

// Analysis adds up the futex calls of a trace. It takes records apart and passes them to
// its parts, of which each knows only those above it here.
type Analysis struct {
	stacks   stacks
	losses   losses
	tasks    tasks
	activity activity
	locks    locks
	sites    sites
	holders  holders
	splits   splits
	log      callLog // of Options.Calls
	held     held
	calls    calls
	reporter reporter
	impact   impactLog // of Options.Impact and Order
	summed   summedTrace
	placings placings

	ahead *ahead.Events // of the batch, nil if nothing has decoded it
	own   ahead.Events  // of one event, if it is so
	pool  ahead.Pool
}

// New returns an empty Analysis.
func New(opt Options) *Analysis {
	opt.Locks, opt.Stacks, opt.Threads = cmp.Or(opt.Locks, defaultLocks), cmp.Or(opt.Stacks, defaultStacks), cmp.Or(opt.Threads, defaultThreads)
	a := &Analysis{pool: ahead.NewPool()}
	a.stacks.Init(opt.Stacks)
	a.connect(&opt)
	a.impact = newImpactLog(opt, &a.locks)
	if opt.Gaps != nil {
		a.losses.Gaps = *opt.Gaps
		a.losses.Known, a.losses.spans.known = true, true
	}
	return a
}

// connect gives each part the lower ones that it asks, and the functions of higher
// ones that it calls.
func (a *Analysis) connect(opt *Options) {
	a.losses = losses{Losses: lost.Losses{Disturbed: a.losses.spans.disturbed}, sameLock: a.locks.provenSame, settled: func(t tracefs.Time) {
		a.splits.settle(t)
		a.held.settle(t)
	}}
	if opt.Calls {
		a.losses.Ended = a.log.lost
	}
	a.tasks = tasks{byTGID: make(map[int32]*process), most: opt.Threads, mappings: opt.Mappings, programs: opt.Programs,
		losses: &a.losses, stop: a.calls.stop, release: a.calls.release, united: a.locks.moveLocks}
	a.activity = activity{lines: make(map[int32]*timeline), causes: causes{numbers: make(map[blocker]int32), entries: opt.Entries, places: places{stacks: &a.stacks, depth: placeDepth}, made: places{stacks: &a.stacks, depth: 1}}, most: opt.Threads, tasks: &a.tasks,
		priorities: priorities{activity: &a.activity}}
	a.locks = locks{files: make(map[fileKey]*lock), others: [2]*lock{{}, {}}, most: opt.Locks, mappings: opt.Mappings, layouts: opt.Layouts, goHeap: opt.GoHeap,
		stacks: &a.stacks, losses: &a.losses, tasks: &a.tasks, placings: &a.placings}
	a.placings = placings{off: opt.Mappings != nil || opt.Layouts != nil || opt.Programs != nil, most: 2 * opt.Locks}
	a.sites = sites{byKey: make(map[lockKey]*site), most: sitesOfLock * opt.Locks, tasks: &a.tasks, activity: &a.activity, locks: &a.locks, moved: a.calls.moved}
	a.holders = holders{order: make(map[orderKey]*orderSeen), tasks: &a.tasks, locks: &a.locks}
	a.splits = splits{losses: &a.losses, activity: &a.activity, holders: &a.holders}
	a.held = held{losses: &a.losses, activity: &a.activity, log: &a.log}
	a.log = callLog{on: opt.Calls, stacks: &a.stacks, losses: &a.losses, tasks: &a.tasks, numbered: numbering{locks: &a.locks}}
	a.calls = calls{stacks: &a.stacks, losses: &a.losses, tasks: &a.tasks, locks: &a.locks, sites: &a.sites, holders: &a.holders, splits: &a.splits, held: &a.held, log: &a.log}
	a.reporter = reporter{opt: *opt, stacks: &a.stacks, losses: &a.losses, tasks: &a.tasks, locks: &a.locks, sites: &a.sites, holders: &a.holders,
		activity: &a.activity, splits: &a.splits, held: &a.held, calls: &a.calls}
}

// Prepare decodes the events of a batch. It does not touch what Batch uses, which may be
// running.
func (a *Analysis) Prepare(h *resolve.Pending) { a.pool.Decode(h) }

// Batch takes the next batch of a trace.
func (a *Analysis) Batch(h *resolve.Pending) error {
	a.ahead = a.pool.Take(h)
	a.log.begin(h)
	a.losses.Batch(h, taker{a})
	a.pool.Put(a.ahead)
	return nil
}

// taker takes the records of a batch for an analysis: it implements lost.Taker.
type taker struct{ *Analysis }

// Event takes an event.
func (a taker) Event(h *resolve.Pending, i int, rec *tracefs.Record) { a.event(h, i, rec) }

// Note takes a line that is no record.
func (a taker) Note(h *resolve.Pending, rec *tracefs.Record) { a.note(h, rec) }

// Lost notes that records were lost.
func (a taker) Lost() {
	a.activity.losses++
	a.impact.lost()
}

// Settle settles what no later gap can reach.
func (a taker) Settle(h *resolve.Pending) { a.losses.settleUp(h) }

// Flush implements render.Renderer; an analysis has nothing to show yet.
func (a *Analysis) Flush() error { return nil }

// Close implements render.Renderer.
func (a *Analysis) Close(t *resolve.Totals) error {
	if t != nil {
		a.reporter.claimed, a.reporter.frames = t.Trusts[filemap.Claimed], t.Frames
	}
	return nil
}

// event takes an event if it is of interest.
func (a *Analysis) event(h *resolve.Pending, i int, rec *tracefs.Record) {
	empty := rec.End <= rec.Body && rec.Flags&tracefs.NoText == 0
	if empty || rec.Flags&tracefs.Continued != 0 || rec.TID == tracefs.NoTID { // corrupt ones are of no thread
		return
	}
	a.calls.event(rec.TID)
	if call := h.Call(rec); call != nil {
		a.calls.sys = call
		a.call(h, i, rec)
		return
	}
	var task *sched.Event
	if a.ahead != nil {
		a.calls.sys, task = a.ahead.Event(i)
	} else {
		h.NoteTime(rec)
		a.calls.sys, task = a.own.One(h.Text[rec.Body:rec.End])
	}
	switch {
	case a.calls.sys != nil:
		a.call(h, i, rec)
	case task != nil:
		a.sched(h, i, rec, task)
	default:
		a.other(h, i, rec)
	}
}

// other takes an event that is neither a system call with a name nor one of the scheduler.
func (a *Analysis) other(h *resolve.Pending, i int, rec *tracefs.Record) {
	body := h.Text[rec.Body:rec.End]
	a.impact.marker(h, rec, body)
	if bytes.HasPrefix(body, []byte(eventPrefix)) {
		a.summed.event(h, i, body)
	} else if isTick(body) {
		a.sampled(h, i, rec)
	} else if nr, exit, ok := syscalls.ParseRaw(body); ok {
		a.activity.raw(rec.TID, rec.CPU, h.Time(rec), nr, exit)
	}
}

// call takes a system call.
func (a *Analysis) call(h *resolve.Pending, i int, rec *tracefs.Record) {
	if a.calls.sys.Exit {
		a.calls.exit(h, i, rec)
	} else {
		if a.calls.sys.Call != syscalls.Other && a.calls.sys.Futex.Cmd.Wakes() { // it ran until now
			a.activity.seen(rec.TID, rec.CPU, h.Time(rec))
		}
		a.calls.enter(h, i, rec)
	}
	a.impact.call(&a.calls, rec, h.Time(rec))
	if a.activity.whole {
		waits, on := a.calls.waitsFor(rec.TID)
		a.activity.calls(rec.TID, rec.CPU, h.Time(rec), waits, on)
		if a.calls.sys.Call == syscalls.FutexOp {
			a.activity.futex(rec.TID, h.Time(rec), !a.calls.sys.Exit)
		}
	}
}

// sched takes a scheduler event.
func (a *Analysis) sched(h *resolve.Pending, i int, rec *tracefs.Record, e *sched.Event) {
	a.active(h, i, rec, e)
	a.impact.sched(h, rec, e)
	switch e.Kind {
	case sched.Switch:
		a.tasks.switches = true
		if th := a.tasks.threadOf(e.TID); th != nil {
			th.asleep = false
		}
		if th := a.tasks.threadOf(rec.TID); th != nil {
			a.tasks.switched(th, e, h)
			if e.State == 'X' || e.State == 'Z' {
				a.tasks.ended(th, h.Time(rec))
			}
		}
	case sched.Waking, sched.Wakeup:
		if th := a.tasks.threadOf(e.TID); th != nil && th.wait != nil && rec.TID != e.TID && !tracefs.InInterrupt(h.Head(rec).Flags) {
			a.sites.wokenBy(th.wait, rec.TID)
		}
	case sched.Exec:
		a.tasks.execed(e.TID, e.OldTID, h.Time(rec))
	case sched.Exit:
		if th := a.tasks.threadOf(rec.TID); th != nil {
			a.tasks.ended(th, h.Time(rec))
		}
	case sched.NewTask:
		a.tasks.newTask(rec.TID, e.TID, e.Thread, h.Time(rec))
	}
}

// active notes what threads do by a scheduler event.
func (a *Analysis) active(h *resolve.Pending, i int, rec *tracefs.Record, e *sched.Event) {
	switch e.Kind {
	case sched.Switch:
		stack := int32(noStack)
		if a.stacks.Below(a.activity.wanted(rec.TID, e.State)) {
			stack = a.stacks.Of(stackset.Attached(h, i))
		}
		if a.activity.priorities.switched(rec.TID, e, rec.CPU, h.Time(rec)) && a.tasks.commOfTID(e.TID) == "" {
			a.tasks.nameOwner(e.TID, a.tasks.comms.Intern(h.Plain(e.Comm)))
		}
		a.activity.switched(rec.TID, e.State, e.TID, rec.CPU, stack, h.Time(rec))
	case sched.Waking, sched.Wakeup:
		t := h.Time(rec)
		a.activity.seen(rec.TID, rec.CPU, t)
		a.activity.priorities.readied(e, t)
		a.activity.waking(e.TID, t)
	case sched.Exec:
		a.activity.leftBy(e.OldTID)
		a.activity.leftBy(e.TID)
	case sched.Exit:
		a.activity.leftBy(rec.TID)
	}
}
