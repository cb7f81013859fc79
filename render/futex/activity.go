package futex

import (
	"slices"

	"ustack/render/lost"
	"ustack/tracefs"
)

// activity knows what threads do: by the scheduler's events, and by the call that each
// is in. It keeps the past only as far back as the oldest wait that has not ended.
//
// What it keeps of a thread is a list of moments, each of which lasts until the next;
// the last one lasts until the thread was seen last. A moment is certain if nothing was
// lost from its proof to its end: events that contradict each other leave the time
// between them unknown.
//
// Invariants:
//   - The moments of a thread are in order, and none is after it was seen last.
//   - No moment has a proof that is after its beginning.
//   - count is how many moments there are, no more than maxMoments.
//   - There are no more threads than most; the last lookups say the same.
//   - open is how many waits for something like a lock have not ended.
type activity struct {
	lines  map[int32]*timeline
	recent [recentThreads]recentLine
	count  int
	chains int // how many spans are in all chains
	most   int
	forgot int64   // moments that were too many
	onCPU  []int32 // the thread that came onto a CPU last, 0 for idle
	open   int
	oldest tracefs.Time // no wait that has not ended began before, as of not long ago
	looked int          // how many moments came since that was found

	off        offCPU
	gone       goneLines
	samples    samples
	priorities priorities
	links      links
	losses     int32 // how often records were lost
	causes     causes
	switches   bool // the trace has sched_switch
	whole      bool // also of threads that could go on, which a filter may leave out
	wakings    bool // it has sched_waking, or sched_wakeup

	tasks *tasks
}

// Numbers of what threads do. The ones from firstCause on are in a table.
const (
	causeUnknown int32 = iota
	causeRuns
	causeRunnable
	causeHandOver
	causeDisk    // state D, in a call that the trace does not have
	causeStopped // by a signal or a debugger
	causeCall    // a call that the trace does not have, or anything else
	causeOutside // state D in no call, as at a page fault
	causeFutex   // one of too many, or of several
	firstCause
)

// moment is what a thread does from a time on.
type moment struct {
	from, proof tracefs.Time
	cause       int32
	stack       int32 // where it went off its CPU
}

// timeline is what one thread has done.
type timeline struct {
	tid, cpu int32
	list     []moment
	seen     tracefs.Time
	// waits is set if the thread waits for a futex if it sleeps now, since waitsAt; on is
	// which, without a process if that is unknown.
	waits   bool
	waitsAt tracefs.Time
	on      blocker
	raw     rawCall
	// woken is set if the thread was woken while it seemed to run, since it began to:
	// it may have been on its way off the CPU.
	woken bool
	// switches is how many of its switches fit together, breaks how many do not although
	// nothing was lost since: a filter leaves out some.
	switches, breaks int
	losses           int32 // as of the last moment
	// keep is since when its moments are kept, 0 if only as long as there are waits: it
	// owns a lock since.
	keep tracefs.Time
	// left is when it last went off its CPU other than in a call, see offCPU.
	left   tracefs.Time
	listed bool
	// ended is set if the thread has ended, and its number is not used again; gone if it is
	// in goneLines.
	ended, gone bool
	// since is the earliest time at which it may have released a lock without having made
	// its call, if it is listed.
	since tracefs.Time
	// chain has the roots of its waits, in order.
	chain []rootSpan
	// prio is its priority, as sched.Event has it, since prioFrom, which is 0 if it is unknown.
	prio     int32
	prioFrom tracefs.Time
	way      way
}

// recentLine is the entry for a number in the table of threads.
type recentLine struct {
	tid  int32
	line *timeline
}

// Bounds of memory. Moments beyond them are unknown.
const (
	maxMoments    = 1 << 18
	momentsOfLine = 1 << 12
	momentsOfHold = 1 << 9 // that are kept while no thread waits
	maxBlockers   = 1 << 14
	floorEvery    = 1 << 12 // moments
)

// line returns a thread's timeline; nil if it can have none.
func (a *activity) line(tid int32) *timeline {
	if tid <= 0 {
		return nil // idle
	}
	slot := &a.recent[uint32(tid)%recentThreads]
	if slot.tid == tid {
		return slot.line
	}
	tl := a.lines[tid]
	if tl == nil {
		if len(a.lines) >= a.most {
			a.forgetAll()
		}
		tl = &timeline{tid: tid, cpu: -1}
		a.lines[tid] = tl
	}
	*slot = recentLine{tid, tl}
	return tl
}

// known returns a thread's timeline, nil if there is none.
func (a *activity) known(tid int32) *timeline {
	if slot := &a.recent[uint32(tid)%recentThreads]; slot.tid == tid {
		return slot.line
	}
	return a.lines[tid]
}

// forgetAll forgets all threads: what they do is unknown until they are seen again.
func (a *activity) forgetAll() {
	a.forgot += int64(a.count)
	a.lines, a.count, a.chains = make(map[int32]*timeline), 0, 0
	a.off, a.gone = offCPU{crowded: max(a.off.crowded, a.tasks.losses.End)}, goneLines{}
	clear(a.recent[:])
}

// now returns what a thread does.
func (tl *timeline) now() int32 {
	if n := len(tl.list); n > 0 {
		return tl.list[n-1].cause
	}
	return causeUnknown
}

// blocked reports whether a thread sleeps.
func (tl *timeline) blocked() bool { return tl.now() > causeHandOver }

// set begins a moment. Clocks of CPUs differ: none begins before the one before it. That a
// thread ran is kept even if it was for less than the clock shows: it can have done something.
func (a *activity) set(tl *timeline, t tracefs.Time, cause int32, proof tracefs.Time) {
	if !tl.trusted() {
		cause = causeUnknown
	}
	t = max(t, tl.seen)
	tl.seen, tl.losses, tl.ended = t, a.losses, false
	if a.open == 0 && tl.keep == 0 {
		a.drop(tl, len(tl.list))
	}
	if n := len(tl.list); n == 0 || tl.list[n-1].from != t || cause != causeRuns && tl.list[n-1].cause == causeRuns {
		if n == cap(tl.list) {
			a.makeRoom(tl)
		}
		if n = len(tl.list); n < cap(tl.list) {
			tl.list = tl.list[:n+1]
		} else {
			tl.list = append(tl.list, moment{})
		}
		a.count++
		a.looked++
	}
	m := &tl.list[len(tl.list)-1] // field by field: a whole one would be copied
	m.from, m.proof, m.cause, m.stack = t, min(proof, t), cause, noStack
}

// drop forgets the first moments of a thread.
func (a *activity) drop(tl *timeline, n int) {
	tl.list = slices.Delete(tl.list, 0, n)
	a.count -= n
}

// makeRoom forgets moments from before all waits that have not ended. If there are too
// many later ones, the older ones go.
func (a *activity) makeRoom(tl *timeline) {
	if a.looked >= floorEvery || a.oldest == 0 {
		a.oldest, a.looked = a.floor(), 0
	}
	a.trim(tl, a.oldest)
	if tl.keep > 0 && len(tl.list) >= momentsOfHold {
		tl.keep = 0
		a.trim(tl, a.oldest)
	}
	if n := len(tl.list); n >= momentsOfLine {
		a.forgot += int64(n / 2)
		a.drop(tl, n/2)
	}
	if a.count < maxMoments {
		return
	}
	for _, tl := range a.lines {
		tl.keep = 0
		a.trim(tl, a.oldest)
	}
	if a.count >= maxMoments/2 {
		for _, tl := range a.lines {
			n := max(len(tl.list)-1, 0)
			a.forgot += int64(n)
			a.drop(tl, n)
		}
	}
	for _, tl := range a.lines {
		tl.list = exactly(tl.list)
	}
}

// trim forgets the moments of a thread that ended before all waits that have not, of which
// the oldest began at a time, and before it took a lock that it owns.
func (a *activity) trim(tl *timeline, oldest tracefs.Time) {
	if tl.keep > 0 {
		oldest = min(oldest, tl.keep)
	}
	n := 0
	for n+1 < len(tl.list) && tl.list[n+1].from <= oldest {
		n++
	}
	a.drop(tl, n)
}

// floor returns when the oldest wait began that has not ended.
func (a *activity) floor() tracefs.Time {
	floor := tracefs.Time(1<<63 - 1)
	for th := range a.tasks.threads.all() {
		if w := th.wait; w != nil && w.counts {
			floor = min(floor, w.began)
		}
	}
	return floor
}

// begins and ended count waits whose owner's activity is wanted.
func (a *activity) begins(w *wait) {
	if w.likeLock() {
		a.open++
		a.oldest = min(a.oldest, w.began)
	}
}

func (a *activity) ended(w *wait) {
	if w.likeLock() {
		a.open--
	}
}

// doubt makes unknown what a thread does since it was seen last: something about it
// was not seen.
func (a *activity) doubt(tl *timeline) {
	if n := len(tl.list); n > 0 && tl.list[n-1].cause != causeUnknown {
		a.set(tl, tl.seen, causeUnknown, tl.seen)
	}
}

// runs notes that a thread runs on a CPU, as a record of its own shows.
func (a *activity) runs(tl *timeline, cpu int32, t tracefs.Time) {
	switch {
	case !tl.trusted():
	case tl.now() == causeRuns && tl.woken: // it had gone
		tl.woken = false
		a.contradict(tl)
		a.set(tl, t, causeRuns, t)
	case tl.now() != causeRuns || tl.cpu != cpu:
		a.doubt(tl) // how it came there was not seen: kernels leave out some switches from idle
		a.set(tl, t, causeRuns, t)
	case a.open == 0 && tl.keep == 0 || tl.losses != a.losses:
		a.set(tl, t, causeRuns, t) // that is a later proof of it
	default:
		tl.seen = max(tl.seen, t)
	}
	a.occupy(tl, cpu)
}

// occupy notes which thread runs on a CPU: another one that seemed to does not.
func (a *activity) occupy(tl *timeline, cpu int32) {
	tl.cpu = cpu
	if cpu < 0 || cpu >= lost.MaxCPU {
		return
	}
	for int(cpu) >= len(a.onCPU) {
		a.onCPU = append(a.onCPU, 0)
	}
	before := a.onCPU[cpu]
	if a.onCPU[cpu] = tl.tid; before == tl.tid || before == 0 {
		return
	}
	if other := a.lines[before]; other != nil && other.cpu == cpu && other.now() == causeRuns {
		a.contradict(other)
	}
}

// contradict notes that a thread does not do what it seemed to do.
func (a *activity) contradict(tl *timeline) {
	if tl.losses == a.losses {
		tl.breaks++
	}
	a.doubt(tl)
}

// trusted reports whether what the trace has of a thread fits together.
func (tl *timeline) trusted() bool { return tl.switches > 8*tl.breaks }

// seen takes a record of a thread that is on a CPU.
func (a *activity) seen(tid, cpu int32, t tracefs.Time) {
	if !a.whole {
		return
	}
	if tl := a.line(tid); tl != nil {
		a.runs(tl, cpu, t)
	}
}

// calls notes that a thread enters a call, or returns from one. waits is set if it
// waits for a futex in it.
func (a *activity) calls(tid, cpu int32, t tracefs.Time, waits bool, on blocker) {
	if tl := a.line(tid); a.whole && tl != nil {
		a.runs(tl, cpu, t)
		tl.waits, tl.waitsAt, tl.on, tl.since = waits, t, on, t
	}
}

// switched takes a switch from one thread to another.
func (a *activity) switched(prev int32, state byte, next, cpu, stack int32, t tracefs.Time) {
	a.switches, a.whole = true, a.whole || state == 'R'
	if !a.whole {
		return
	}
	if tl := a.line(prev); tl != nil {
		if tl.now() != causeUnknown {
			a.runs(tl, cpu, t)
		}
		tl.switches++
		if cpu >= 0 && int(cpu) < len(a.onCPU) {
			a.onCPU[cpu] = 0
		}
		if n := len(tl.list); tl.now() == causeRuns && t-tl.list[n-1].from >= a.takes() {
			tl.since = t // it has made the call that it had to make before, if any
		}
		cause, proof := a.leaves(tl, state, stack, t)
		a.set(tl, t, cause, proof)
		tl.at(stack)
		tl.way.leaves(t, state != 'R', tl.waits)
		switch {
		case state == 'X' || state == 'Z':
			a.ends(tl)
		case !a.causes.inCall(cause):
			a.leftOutside(tl, t)
		}
	}
	if tl := a.line(next); tl != nil {
		a.comes(tl, t)
		a.occupy(tl, cpu)
	}
}

// comes notes that a thread comes onto a CPU. One that was not seen to wake up was
// woken while it went off its CPU, else that was not traced.
func (a *activity) comes(tl *timeline, t tracefs.Time) {
	switch n := len(tl.list); {
	case tl.blocked() && tl.woken:
		tl.list[n-1].cause = causeRunnable
	case tl.blocked():
		tl.list[n-1].cause = causeUnknown
	case tl.now() == causeRuns:
		a.contradict(tl)
	}
	tl.woken = false
	tl.way.comes(t)
	a.set(tl, t, causeRuns, t)
}

// leaves returns what a thread does that goes off its CPU in a state, the letter of
// sched_switch, with a stack, and since when that is known.
func (a *activity) leaves(tl *timeline, state byte, stack int32, t tracefs.Time) (cause int32, proof tracefs.Time) {
	switch state {
	case 'R':
		return causeRunnable, t
	case 'S':
		switch {
		case !tl.waits && tl.raw.named():
			return a.causes.inside(&tl.raw, stack), min(tl.raw.at, t)
		case !tl.waits:
			return a.causes.sleepAt(causeCall, stack), t
		case tl.on.proc == nil:
			return causeFutex, min(tl.waitsAt, t)
		}
		return a.causes.of(tl.on), min(tl.waitsAt, t)
	case 'D':
		switch {
		case tl.raw.outside():
			return causeOutside, min(tl.raw.at, t)
		case !tl.waits && tl.raw.named():
			return a.causes.inside(&tl.raw, stack), min(tl.raw.at, t)
		}
		return a.causes.sleepAt(causeDisk, stack), t
	case 'T', 't':
		return causeStopped, t
	}
	return causeUnknown, t
}

// waking takes the wakeup of a thread.
func (a *activity) waking(tid int32, t tracefs.Time) {
	a.wakings = true
	if !a.whole {
		return
	}
	tl := a.line(tid)
	switch {
	case tl == nil:
	case tl.blocked():
		stack := tl.list[len(tl.list)-1].stack
		a.set(tl, t, causeRunnable, t)
		tl.at(stack)
	case tl.now() == causeRuns:
		tl.woken = true
	}
}

// Quarters of the room for stacks that those of switches may have filled: the rest is for
// calls of futex.
const (
	notWanted  = 0
	maybeOwner = 1
	wanted     = 2
)

// wanted returns how far the room for stacks may be filled for one of where a thread goes off
// its CPU in a state. It counts if threads wait, or the thread owns a lock that others can
// still begin to wait for. One that sleeps in a call may have taken a lock without a call of
// futex, and others begin to wait for it meanwhile.
func (a *activity) wanted(tid int32, state byte) (quarters int) {
	tl := a.known(tid)
	switch {
	case a.open > 0 || tl != nil && tl.keep > 0:
		return wanted
	case (state == 'S' || state == 'D') && (tl == nil || !tl.waits):
		return maybeOwner
	}
	return notWanted
}

// at notes where a thread went off its CPU.
func (tl *timeline) at(stack int32) { tl.list[len(tl.list)-1].stack = stack }

// leftBy notes that a number is no thread's any more, or another one's.
func (a *activity) leftBy(tid int32) {
	if tl := a.lines[tid]; tl != nil {
		a.doubt(tl)
		tl.waits, tl.woken, tl.raw = false, false, rawCall{}
		a.ends(tl)
	}
}

// during calls add for each part of a time in which it is known what a thread did.
func (a *activity) during(tid int32, from, to tracefs.Time, add func(m *moment, from, d tracefs.Time)) {
	tl := a.known(tid)
	if tl == nil {
		return
	}
	for at := tl.index(from); at < len(tl.list) && tl.list[at].from < to; at++ {
		m := &tl.list[at]
		if d := min(tl.end(at), to) - max(m.from, from); d > 0 && m.cause != causeUnknown {
			add(m, max(m.from, from), d)
		}
	}
}
