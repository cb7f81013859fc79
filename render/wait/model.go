package wait

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"ustack/render/stackset"
	"ustack/render/tally"
	"ustack/tracefs"
)

// By is what has a row of its own in a report.
type By string

// The rows.
const (
	ByStack  By = "stack" // a call and the stack that it was made from
	ByCall   By = "call"
	ByKind   By = "kind"
	ByWaker  By = "waker" // who ends the waits, and from where
	ByThread By = "thread"
)

// bys are all of them.
func bys() []By { return []By{ByStack, ByCall, ByKind, ByWaker, ByThread} }

// View selects what is in a report.
type View struct {
	Top     int // rows, 0 for all
	By      By
	MinWait tracefs.Time // rows whose longest wait is at least this
	Comms   []string     // threads of these names, all without any
}

// Check reports what is wrong with it.
func (v *View) Check() error {
	if v.Top < 0 || v.MinWait < 0 {
		return errors.New("--top and --min-wait must not be negative")
	}
	if !slices.Contains(bys(), v.By) {
		var words []string
		for _, by := range bys() {
			words = append(words, string(by))
		}
		return fmt.Errorf("unknown --by %q (one of %s)", v.By, strings.Join(words, ", "))
	}
	return nil
}

// Report is the waiting in a trace. Times are in nanoseconds, or in the units of the
// trace's clock (Ticks).
type Report struct {
	Ticks      bool
	By         By
	Start, End tracefs.Time
	// Known is all waiting whose kind is known, Events the part that is mostly for
	// something to do: see Kind.Events.
	Known, Events Sum
	Kinds         []KindSum // of Known, by time
	// Unknown is waiting whose kind is unknown, by why.
	Unknown []WhySum
	// Doubt are waits in which records were lost, or whose end the trace does not have.
	// Before are waits that began before the trace: what they took in it.
	Doubt, Before Doubt
	Rows          []*Row // known kinds first, each by time
	RowCount      int
	ThreadCount   int
	Switches      int64
	Loss          Loss
	// Notes say what the trace lacks for a better answer.
	Notes []string
}

// KindSum is the waiting of a kind.
type KindSum struct {
	Kind Kind
	Sum
}

// WhySum is waiting whose kind is unknown.
type WhySum struct {
	Why Why
	Sum
}

// Why is why a kind is unknown.
type Why uint8

// The reasons.
const (
	NotUnknown Why = iota
	NoCallSeen     // the trace has no system call of the thread before the wait
	LostCall       // records were lost since the last that shows the call
	Unpaired       // entries and returns do not fit together
	Narrow         // nothing shows that the thread's calls are of 64 bits
	Unnumbered     // the number of the call has no name here
)

// whyNames are the reasons in outputs.
var whyNames = [...]string{"", "no-call-seen", "lost", "calls-missing", "32-bit", "no-name"}

// String returns the reason as outputs have it.
func (w Why) String() string { return whyNames[w] }

// Site is what threads wait in, and where.
type Site struct {
	Kind Kind
	Call string // the system call, "" for none
	Why  Why    // if Kind is Unknown
	// Stack is nil if there is none; None then says why.
	Stack *stackset.Stack
	None  string
	Sum
}

// Waker is what ended waits.
type Waker struct {
	// TID is 0 if it is unknown, or if Interrupt is set: a device, a timer, the network.
	TID       int32
	Comm      string
	Interrupt bool
	Stack     *stackset.Stack
	None      string
	Sum
}

// Thread is a thread that waits.
type Thread struct {
	TID  int32 // 0 for ones that were too many to keep apart
	Comm string
	Sum
}

// Row is waits that have something in common, see By.
type Row struct {
	Rank int
	Sum
	// Disk is the part of Sum in state D, uninterruptible.
	Disk  tracefs.Time
	Doubt Doubt
	// Sites, Threads and Wakers are what has part in it, by time.
	Sites   []Site
	Threads []Thread
	Wakers  []Waker
	// Slept is the number of waits of which Mean, the quantiles and Histogram are: those
	// that ended, at places that were not too many to keep apart.
	Slept               int64
	Mean, P50, P99, Max tracefs.Time
	Histogram           []tally.Bucket
	Longest             *Longest
	// Callers are what is known of callers if the stack of the row ends in the C library, nil
	// if nothing is.
	Callers *Callers
	site    siteKey // by stack: the only one
}

// Callers are the waits in the same call at the same place, in other rows, whose stacks go on to
// the program's code: Stack is that of most of their time, Part.
type Callers struct {
	Stack *stackset.Stack
	Part  tracefs.Time
	Sum
}

// Known reports whether the kind of its waits is known.
func (r *Row) Known() bool { return r.Sites[0].Kind != Unknown }

// Longest is the longest wait of a row that ended.
type Longest struct {
	From, Time tracefs.Time
	Thread     Thread
	Waker      Waker
}

// Loss is the loss of records, and its effect.
type Loss struct {
	Gaps    int64
	Records uint64
	Unknown bool   // some gaps have no count
	Refused uint64 // records that the kernel did not take, at an unknown time
	// Late is set if a gap was found when waits in it had been counted as certain.
	Late bool
	// Forgotten are threads that ustack had no room for.
	Forgotten int64
}

// Any reports whether records were lost.
func (l *Loss) Any() bool { return l.Gaps > 0 || l.Refused > 0 }
