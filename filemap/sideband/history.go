package sideband

import (
	"ustack/filemap/elfid"
	"ustack/filemap/procmap"
	"ustack/filemap/rawstack"
	"ustack/filemap/space"
	"ustack/tracefs"
)

// History is all processes over time: what they had mapped, which threads they
// had, and at which times that may be wrong. A Band keeps it up to date; Load
// reads it from a log.
type History struct {
	Spaces  *space.Spaces
	Threads *Threads
	Gaps    *Gaps
	// Unsure are the times in which changes of memory that perf does not record
	// may have gone unseen: code that runs is where it was reported to be, but
	// it may have been unmapped or moved.
	Unsure *Gaps
	// Stacks are the raw user stacks of events, none if they are not taken.
	Stacks *rawstack.Stacks
	// VDSO is the build ID of the kernel's vDSO, as a log has it; the zero ID
	// if unknown.
	VDSO elfid.ID
	// Trace is the identifier of the trace that a log was saved with, "" if it has
	// none, and Clock the trace clock of its times.
	Trace, Clock string
	// Until is when a log ends: it has all changes up to then.
	Until tracefs.Time

	log     *logWriter // nil for none
	layouts map[int][]space.Reading
	areas   int // of all layouts
	sharers sharers
	// executing are the processes that have executed a program of which nothing is mapped yet.
	executing map[int]bool
	// missed is the time until which records may be missing.
	missed tracefs.Time
}

// newHistory returns an empty history of the spaces.
func newHistory(spaces *space.Spaces) *History {
	return &History{Spaces: spaces, Threads: newThreads(), Gaps: new(Gaps), Unsure: new(Gaps),
		Stacks: rawstack.New(rawstack.MaxStacks), executing: make(map[int]bool)}
}

// Place is where an address of a thread was.
type Place struct {
	space.Place
	PID int
	// Doubtful: see Gaps.
	Doubtful bool
}

// Lookup finds what an address of a thread was at a time. ok is false if there
// is nothing; PID still is the process then, if known.
//
// The text of a trace has times rounded to the nearest microsecond: add 499 ns
// to them, or what was mapped right before would be missed.
func (h *History) Lookup(tid int, addr uint64, t tracefs.Time) (p Place, ok bool) {
	pid, late, ok := h.Threads.PID(tid, t)
	if !ok {
		return Place{}, false
	}
	p.PID = pid
	p.Place, ok = h.Spaces.Lookup(pid, addr, t)
	p.Late = p.Late || ok && late
	p.Doubtful = h.Gaps.Doubtful(t)
	p.Late = p.Late || ok && h.Unsure.Doubtful(t)
	return p, ok
}

// Expire forgets processes, threads and mappings that ended before a time.
func (h *History) Expire(before tracefs.Time) {
	h.Spaces.Expire(before)
	h.Threads.Expire(before)
	h.Gaps.expire(before)
	h.Unsure.expire(before)
}

// Complete notes in the log that all changes up to a time are there, and writes it out.
func (h *History) Complete(t tracefs.Time) error {
	h.log.whole("until", t)
	return h.log.flush()
}

// Stack notes the raw user stack of a thread at a time, and LoseStacks that stacks
// of a time are missing, so many records, 0 if unknown.
func (h *History) Stack(tid int, t tracefs.Time, addrs []uint64) {
	h.log.stack(tid, addrs, t)
	h.Stacks.Add(tid, t, addrs)
}

func (h *History) LoseStacks(records uint64, from, t tracefs.Time) {
	h.log.loseStacks(records, from, t)
	h.Stacks.Lose(records, from, t)
}

// The changes. They are noted in the order of time, and go into the log.

func (h *History) fork(parent, child int, t tracefs.Time) {
	h.log.fork(parent, child, t)
	h.Threads.gone(child, t) // a process of the same PID, whose end was lost
	delete(h.executing, child)
	h.Threads.started(child, child, t)
	h.left(child, t)
	h.Spaces.Fork(parent, child, t)
	if g := h.sharers.of[parent]; g != nil && g.broken {
		space.Follow(h.Spaces, child, t) // its memory is a copy, or shared will be called
	}
}

func (h *History) thread(pid, tid int, t tracefs.Time) {
	h.log.thread(pid, tid, t)
	h.Threads.started(pid, tid, t)
}

func (h *History) exec(pid int, comm string, t tracefs.Time) {
	h.log.exec(pid, comm, t)
	h.Threads.execed(pid, t)
	h.left(pid, t)
	h.Spaces.Exec(pid, comm, t)
	h.executing[pid] = true
}

// loading and loaded note the time from an exec until its program can run.
func (h *History) loading(pid int, t tracefs.Time) {
	h.log.loading(pid, t)
	h.Spaces.Loading(pid, t)
}

func (h *History) loaded(pid int, t tracefs.Time) {
	h.log.loaded(pid, t)
	h.Spaces.Loaded(pid, t)
}

func (h *History) comm(pid int, comm string, t tracefs.Time) {
	h.log.comm(pid, comm, t)
	h.Spaces.Comm(pid, comm, t)
}

// found notes what a process had at an address when it was read, code or not,
// because of a stack from after that time.
func (h *History) found(pid int, m *procmap.Mapping, t, after tracefs.Time) {
	h.log.found(pid, m, t, after)
	h.Spaces.MapAfter(pid, m, t, after)
}

// exit notes the end of a thread; with the last one the process ends. The kernel reports one in
// the middle of an exec, too, if the program gets other rights by it, as set-user-ID programs do:
// it takes perf's events from the process (perf_event_exit_task in begin_new_exec, fs/exec.c).
// That process lives, and what it executes is mapped after that.
func (h *History) exit(pid, tid int, t tracefs.Time) (last bool) {
	h.log.exit(pid, tid, t)
	if h.executes(pid, tid) {
		delete(h.executing, pid) // another one is the end
		return false
	}
	last = h.Threads.ended(pid, tid, t)
	if last {
		h.left(pid, t)
		h.Spaces.Exit(pid, t)
	}
	return last
}

// executes reports whether a thread is one that is in the middle of an exec.
func (h *History) executes(pid, tid int) bool { return pid == tid && h.executing[pid] }

// gone notes a process that was missing when all were read.
func (h *History) gone(pid int, t tracefs.Time) {
	h.log.gone(pid, t)
	delete(h.executing, pid)
	h.Threads.gone(pid, t)
	h.left(pid, t)
	h.Spaces.Exit(pid, t)
}

// read notes a reading of a process that began at t, with its threads. part means
// that the process has changed since. It proves nothing of the time before after.
// The log leaves out readings without news.
func (h *History) read(p *procmap.Process, threads []int, part bool, t, after tracefs.Time) {
	take := h.Spaces.ReplaceAfter
	if part {
		take = h.Spaces.ReplaceUnder
	}
	if take(p, t, after) {
		h.log.read(p, part, t, after)
	}
	if len(threads) == 0 {
		return
	}
	for _, tid := range threads {
		h.seen(p.PID, tid, t)
	}
	for _, tid := range h.Threads.missing(p.PID, threads, t) {
		h.exit(p.PID, tid, t) // the record of that is lost
	}
}

// seen notes a thread that a reading has found.
func (h *History) seen(pid, tid int, t tracefs.Time) {
	if h.Threads.seen(pid, tid, t) {
		h.log.seen(pid, tid, t)
	}
}

func (h *History) lost(cpu int, n uint64, from, t tracefs.Time) {
	h.log.lost(cpu, n, from, t)
	h.Gaps.begin(from, t)
	h.missed = max(h.missed, t)
}

// sure ends the doubt: all processes were read.
func (h *History) sure(t tracefs.Time) {
	h.log.sure(t)
	h.Gaps.end(t)
	if h.missed > 0 {
		h.Spaces.LoadedAll(h.missed, t)
	}
	h.missed = 0
}

// unseen notes a loss of tracepoint records, of unmapping and moving.
func (h *History) unseen(cpu int, n uint64, from, t tracefs.Time) {
	h.log.unseen(cpu, n, from, t)
	h.Unsure.begin(from, t)
}

// whole ends that: all processes were read.
func (h *History) whole(t tracefs.Time) {
	if h.Unsure.Open() {
		h.log.wholeAgain(t)
		h.Unsure.end(t)
	}
}
