package futex

import (
	"cmp"
	"fmt"
	"slices"

	"ustack/filemap"
	"ustack/filemap/resolve"
	"ustack/filemap/symbol"
	"ustack/render/tally"
	"ustack/tracefs"
)

// Report is the use of futexes in a trace. Times are in nanoseconds, or in the
// units of the trace's clock (Ticks).
type Report struct {
	Ticks      bool
	By         By // what has a row of its own
	Start, End tracefs.Time
	// SliceTime is how long each part of the trace is for which waits are counted apart.
	SliceTime tracefs.Time
	Calls     int64
	// Locks are the futexes that threads wait for as for a lock, Signals all
	// others: condition variables, joins, timers. OtherLocks and OtherSignals
	// sum up the ones that were too many to keep, nil if none.
	Locks, Signals           []*Lock
	OtherLocks, OtherSignals *Lock
	// LockCount and SignalCount are how many there are, shown or not.
	LockCount, SignalCount int
	// Contended and Signalled are the time of all waits of the section, All
	// of both.
	Contended, Signalled, All Sum
	Blocked                   []*Blocked
	Longest                   []*Wait
	// LongHolds are the longest holds of locks, by what is sure of their time.
	LongHolds []*Hold
	// Chains are the chains of locks, the longest time first. Roots are who was waited for
	// in the end, of all locks, NoRoot how long none is certain.
	Chains []*Chain
	Roots  []Root
	NoRoot tracefs.Time
	// PathTime is how long the critical path is if Locks are in the order of their part of it.
	PathTime tracefs.Time
	// Loudest is the lock that is waited for most, if PathTime is set.
	Loudest *Lock
	// Inversions are the longest time first.
	Inversions []Inversion
	// Threads are by the time that they lost at locks, waits that had not ended
	// included. ThreadCount is how many there are, shown or not, ThreadRest what
	// others lost that were too many to keep apart.
	Threads     []ThreadTime
	ThreadCount int
	ThreadRest  Tally
	Before      Before
	Waitv       Waitv
	NoReturn    int64
	// NoReturns is set if the trace has entries into calls only, so that no wait
	// has an end.
	NoReturns bool
	// Reach is how far the stacks of waits go, Released those of calls that let others go
	// on; nil if unknown.
	Reach, Released *resolve.Reach
	// Scheduled is set if the trace has sched_switch, without which only the time of
	// hand-over is known of a Split.
	Scheduled bool
	Verdict   Verdict
	// Impact is nil if it was not asked for.
	Impact *Impact
	Loss   Loss
	// Hints say what shows locks that are no futexes, of the runtimes in the trace.
	Hints []string
	// Notes say what the trace lacks for a better answer.
	Notes []string
}

// Sum is the time of many waits, including open ones. Low and
// High bound what it can have been, if records were lost.
type Sum struct {
	Waits     int64
	Time      tracefs.Time
	Open      int64
	OpenTime  tracefs.Time
	Low, High tracefs.Time
}

// Lock is a futex and the waits on it.
type Lock struct {
	Rank    int
	Address uint64
	born    int64        // their order in the trace
	openMax tracefs.Time // the longest wait that had not ended
	// Shared: it may be, between processes, as FUTEX_PRIVATE_FLAG is not set;
	// File and Offset are where, if known; FileLate: at another time than the calls.
	// Local is set if it is not.
	Shared   bool
	Local    bool
	File     string
	Offset   uint64
	FileLate bool
	// Variable is the static variable that it is in, nil if it is in none, or was
	// not looked up; VariableTrust is how well that is known.
	Variable      *symbol.Variable
	VariableTrust filemap.Trust
	// Process is the lock's process; nil for others.
	Process *Process
	Kind    Kind
	// Results count the waits by result, Waits are all of them.
	Results [resultCount]int64
	Waits   int64
	// Sum has the time. Mean, quantiles and Histogram are of waits that slept
	// and ended, Slept many.
	Sum
	Slept               int64
	Mean, P50, P99, Max tracefs.Time
	Histogram           []Bucket
	// Course is when they ended, see Report.SliceTime.
	Course             []Slice
	WaitStacks, Wakers []StackShare
	Flows              []Flow
	// Blamed are the stacks by which the lock was released, each with the time for which
	// others had waited for that.
	Blamed             []StackShare
	Waiters, WakerTIDs []ThreadTime
	Holders            []ThreadTime
	// Owners are the owners that were read from its memory, in Readings readings.
	Owners   []ThreadTime
	Readings int64
	// Rest are the parts that these lists lack, as they were too many to keep
	// apart.
	Rest Rest
	// Wakes are the calls that wake, Woken the threads that they woke, of a source that counts
	// them; 0 else.
	Wakes, Woken int64
	// Partial is set if earlier waits may be in the others.
	Partial bool
	Longest *Wait
	// Role is what the program uses it as, "" if unknown, for instance GIL. Futexes is
	// how many futexes it is made of. Each: they are of the threads of Program that
	// want locks of the role, one each; which of these is unknown.
	Role    string
	Futexes int
	Each    bool
	Program string
	// Signals is set if threads signal each other with it, though locks can be of its
	// kind: those that wake never wait there.
	Signals bool
	// Group is what the futexes have in common, if that is a site or a kind.
	Group By
	// Split is what ended waits for it were spent on, of Time in all; nil if it is not
	// held by one thread at a time.
	Split *Split
	// Holds are how long threads owned it, nil if unknown, or it is not held by one thread
	// at a time.
	Holds *Holds
	// Convoys are nil if there are none, or it is not held by one thread at a time.
	Convoys *Convoys
	// OnPath is how long it is on the critical path, if Report.PathTime is set.
	OnPath tracefs.Time
	lock   *lock
	parts  []*lock
	wanted bool // by the View
	asked  bool // what would be if it were otherwise
}

// Contends reports whether waits on it are for a lock.
func (l *Lock) Contends() bool { return l.Role != "" || l.Kind.Contention() && !l.Signals }

// section returns the place in the report: locks, or all others.
func (l *Lock) section() int {
	if l.Contends() {
		return 0
	}
	return 1
}

// Name returns the lock's variable with its address, or the address alone.
func (l *Lock) Name() string {
	if l.Variable == nil {
		return fmt.Sprintf("%#x", l.Address)
	}
	return fmt.Sprintf("%s (%#x)", l.Variable, l.Address)
}

// Process is a set of threads with the same memory.
type Process struct {
	TGID int32 // tracefs.NoTID if unknown
	How  How
	// Comm is the name of one of its threads, of the first if that is known, Program
	// that of the program that it runs, "" if unknown.
	Comm    string
	Program string
	TIDs    []int32 // some
	Threads int
}

// StackShare is a stack and the waits that had it. Stack is nil if there is
// none; None then says why.
type StackShare struct {
	Stack *Stack
	None  string
	Count int64
	Time  tracefs.Time
}

// Flow is which waker's stack followed which waiter's: their places in the lists of the lock,
// WaitStacks and Wakers.
type Flow struct {
	Wait, Wake int32
	Count      int64
	Time       tracefs.Time
}

// ThreadTime is a thread's share.
type ThreadTime struct {
	TID   int32
	Comm  string
	Count int64
	Time  tracefs.Time
}

// Tally and Bucket are those of package tally.
type (
	Tally  = tally.Tally
	Bucket = tally.Bucket
)

// Rest are the waits that the lists of a lock lack.
type Rest struct{ Flows, Waiters, Wakers, Holders Tally }

// Most returns the largest of them: no list lacks more.
func (r *Rest) Most() Tally {
	return slices.MaxFunc([]Tally{r.Flows, r.Waiters, r.Wakers, r.Holders}, func(x, y Tally) int {
		return cmp.Or(cmp.Compare(x.Count, y.Count), cmp.Compare(x.Time, y.Time))
	})
}

// Blocked is a wait that had not ended.
type Blocked struct {
	TID         int32
	Comm        string
	Lock        *Lock
	Since, Time tracefs.Time
	Val         uint32
	Stack       *Stack
	Missing     string // why there is no stack
	Owner       int32  // of the lock, 0 if unknown
	OwnedFrom   tracefs.Time
	OwnerDead   bool
	// OwnerRead is set if the owner was read from the lock's memory, at OwnedFrom.
	OwnerRead bool
	// Doubt is set if its end may be among the lost records.
	Doubt bool
	wait  *wait
}

// Before are waits that began before the trace: a lower bound of their time,
// and no address. Unclear returned 0, and may have been other calls.
type Before struct {
	Waits       int64
	Time        tracefs.Time
	Unclear     int64
	UnclearTime tracefs.Time
}

// Waitv are waits for one of several futexes, whose addresses a trace does
// not have.
type Waitv struct {
	Waits   int64
	Time    tracefs.Time
	Results [resultCount]int64
}

func (w *Waitv) add(d tracefs.Time, r Result) {
	w.Waits++
	w.Time += d
	w.Results[r]++
}

// Loss is the loss of records, and its effect on the numbers.
type Loss struct {
	Gaps    int64
	Records uint64
	Unknown bool // some gaps have no count
	// Refused are records that the kernel did not take, at an unknown time: see
	// Analysis.Refused.
	Refused uint64
	// Bounded is set if Low and High of the sums hold, for the threads that have a
	// call in the trace.
	Bounded bool
	// Unseen is how long threads without a call in the trace can have waited,
	// -1 if there is no bound.
	Unseen tracefs.Time
	// Forgotten are threads that ustack itself had no room for.
	Forgotten int64
}

// Any reports whether records were lost.
func (l *Loss) Any() bool { return l.Gaps > 0 || l.Refused > 0 }
