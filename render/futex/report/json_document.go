package report

import (
	"ustack/render/framejson"
	"ustack/tracefs"
)

// Schema names the form of the JSON document. The number changes when a
// program that reads it would have to change; new keys do not change it.
const Schema = "ustack.futex/1"

// document is the whole JSON document. Keys that end in _ns are nanoseconds,
// or ticks of the trace's clock if time_unit says so.
type document struct {
	Schema       string        `json:"schema"`
	TimeUnit     string        `json:"time_unit"`
	Start        tracefs.Time  `json:"start_ns"`
	End          tracefs.Time  `json:"end_ns"`
	SliceTime    tracefs.Time  `json:"slice_ns"`
	Calls        int64         `json:"calls"`
	Contended    sumJSON       `json:"contended"`
	Signalled    sumJSON       `json:"not_locks"`
	All          sumJSON       `json:"all"`
	LockCount    int           `json:"locks_total"`
	Locks        []lockJSON    `json:"locks"`
	OtherLocks   *lockJSON     `json:"locks_others,omitempty"`
	SignalCount  int           `json:"condvars_total"`
	Condvars     []lockJSON    `json:"condvars"`
	OtherSignals *lockJSON     `json:"condvars_others,omitempty"`
	Blocked      []blockedJSON `json:"blocked"`
	Longest      []waitJSON    `json:"longest"`
	LongHolds    []holdJSON    `json:"longest_holds"`
	Chains       []chainJSON   `json:"chains"`
	Roots        []rootJSON    `json:"roots"`
	NoRoot       tracefs.Time  `json:"no_root_ns"`

	Inversions  []inversionJSON `json:"priority_inversions"`
	ThreadCount int             `json:"threads_total"`
	Threads     []threadJSON    `json:"threads"`
	ThreadRest  *restJSON       `json:"threads_others,omitempty"`
	Before      beforeJSON      `json:"began_before"`
	Waitv       waitvJSON       `json:"waitv"`
	NoReturn    int64           `json:"no_return"`
	Verdict     verdictJSON     `json:"verdict"`
	Loss        lossJSON        `json:"loss"`
	Reach       *reachJSON      `json:"stacks,omitempty"`
	Released    *releasedJSON   `json:"release_stacks,omitempty"`
	Impact      *impactJSON     `json:"impact,omitempty"`
	Notes       []string        `json:"notes"`
}

type reachJSON struct {
	Waits       int64  `json:"waits"`
	Unwound     int64  `json:"unwound"`
	Application int64  `json:"application"`
	Root        int64  `json:"root"`
	End         string `json:"others_end_in,omitempty"`
}

type releasedJSON struct {
	Releases    int64  `json:"releases"`
	Unwound     int64  `json:"unwound"`
	Application int64  `json:"application"`
	Root        int64  `json:"root"`
	End         string `json:"others_end_in,omitempty"`
}

type sumJSON struct {
	Waits int64        `json:"waits"`
	Total tracefs.Time `json:"total_ns"`
	Open  tracefs.Time `json:"blocked_ns"`
	boundsJSON
}

// boundsJSON are the bounds of total and blocked together; absent if there are
// none.
type boundsJSON struct {
	Low  *tracefs.Time `json:"low_ns,omitempty"`
	High *tracefs.Time `json:"high_ns,omitempty"`
}

type processJSON struct {
	TGID    *int32  `json:"tgid,omitempty"`
	Known   string  `json:"known_by"`
	Comm    string  `json:"comm"`
	Program string  `json:"program,omitempty"`
	Threads int     `json:"threads"`
	TIDs    []int32 `json:"tids"`
}

type lockJSON struct {
	Address string `json:"address,omitempty"`
	Shared  bool   `json:"shared"`
	File    string `json:"file,omitempty"`
	Offset  string `json:"offset,omitempty"`
	// FileTrust is the trust of File if it is late.
	FileTrust string `json:"file_trust,omitempty"`
	symbolJSON
	Process     *processJSON       `json:"process,omitempty"`
	Kind        string             `json:"kind"`
	Role        string             `json:"role,omitempty"`
	Program     string             `json:"role_program,omitempty"`
	Futexes     int                `json:"futexes,omitempty"`
	Group       string             `json:"by,omitempty"`
	Waits       int64              `json:"waits"`
	Woken       int64              `json:"woken"`
	Changed     int64              `json:"changed"`
	TimedOut    int64              `json:"timed_out"`
	Interrupted int64              `json:"interrupted"`
	Requeued    int64              `json:"requeued"`
	Failed      int64              `json:"failed"`
	NoReturn    int64              `json:"no_return"`
	Open        int64              `json:"open"`
	Total       tracefs.Time       `json:"total_ns"`
	OpenTime    tracefs.Time       `json:"blocked_ns"`
	Bounds      boundsJSON         `json:"bounds"`
	Mean        tracefs.Time       `json:"mean_ns"`
	P50         tracefs.Time       `json:"p50_ns"`
	P99         tracefs.Time       `json:"p99_ns"`
	Max         tracefs.Time       `json:"max_ns"`
	Histogram   []framejson.Bucket `json:"histogram"`
	Slices      []sliceJSON        `json:"slices,omitempty"`
	WaitStacks  []stackJSON        `json:"wait_stacks"`
	Wakers      []stackJSON        `json:"wakers"`
	Flows       []flowJSON         `json:"flows"`
	Waiters     []threadJSON       `json:"waiter_threads"`
	WakerTIDs   []threadJSON       `json:"waker_threads"`
	Holders     []threadJSON       `json:"holder_threads"`
	Split       *splitJSON         `json:"split,omitempty"`
	Holds       *holdsJSON         `json:"holds,omitempty"`
	Convoys     *convoysJSON       `json:"convoys,omitempty"`
	Owners      []ownerJSON        `json:"owners,omitempty"`
	More        int64              `json:"not_kept_apart,omitempty"`
	MoreTime    *tracefs.Time      `json:"not_kept_apart_ns,omitempty"`
	Longest     *waitJSON          `json:"longest,omitempty"`
	Wakes       int64              `json:"wake_calls,omitempty"`
	ByWakes     int64              `json:"woken_threads,omitempty"`
	Partial     bool               `json:"partial,omitempty"`
}

// symbolJSON is the static variable that a lock is in.
type symbolJSON struct {
	Symbol string `json:"symbol,omitempty"`
	Path   string `json:"symbol_path,omitempty"`
	Trust  string `json:"symbol_trust,omitempty"`
	Source string `json:"symbol_source,omitempty"`
	// Place is its address in the file, if it has no symbol.
	Place string `json:"symbol_address,omitempty"`
}

// sliceJSON is of waits that ended in one part of the time of the trace.
type sliceJSON struct {
	At    int32        `json:"at"`
	Waits int64        `json:"waits"`
	Time  tracefs.Time `json:"total_ns"`
}

type stackJSON struct {
	framejson.Stack
	Count int64        `json:"count"`
	Time  tracefs.Time `json:"total_ns"`
	Share float64      `json:"share"`
}

// flowJSON has the places of its stacks in wait_stacks and wakers.
type flowJSON struct {
	Wait  int32        `json:"wait_stack"`
	Wake  int32        `json:"waker"`
	Count int64        `json:"count"`
	Time  tracefs.Time `json:"total_ns"`
}

type threadJSON struct {
	TID   int32        `json:"tid"`
	Comm  string       `json:"comm"`
	Count int64        `json:"count"`
	Time  tracefs.Time `json:"total_ns"`
}

// restJSON is of threads that were too many to keep apart.
type restJSON struct {
	Count int64        `json:"count"`
	Time  tracefs.Time `json:"total_ns"`
}

// ownerJSON is an owner of a lock. Count is how many readings of the lock's memory
// found it.
type ownerJSON struct {
	TID   int32  `json:"tid"`
	Comm  string `json:"comm"`
	Count int64  `json:"count"`
}

type blockedJSON struct {
	TID       int32             `json:"tid"`
	Comm      string            `json:"comm"`
	Address   string            `json:"address,omitempty"`
	Kind      string            `json:"kind,omitempty"`
	Since     tracefs.Time      `json:"since_ns"`
	Time      tracefs.Time      `json:"at_least_ns"`
	Stack     []framejson.Frame `json:"stack,omitempty"`
	NoStack   string            `json:"no_stack,omitempty"`
	Owner     int32             `json:"owner,omitempty"`
	OwnedFrom *tracefs.Time     `json:"owned_from_ns,omitempty"`
	OwnerDead bool              `json:"owner_exited,omitempty"`
	OwnerRead bool              `json:"owner_from_memory,omitempty"`
	Doubt     bool              `json:"end_may_be_lost,omitempty"`
}

type waitJSON struct {
	TID        int32             `json:"tid"`
	Comm       string            `json:"comm"`
	Address    string            `json:"address"`
	From       tracefs.Time      `json:"from_ns"`
	Time       tracefs.Time      `json:"time_ns"`
	Result     string            `json:"result"`
	Stack      []framejson.Frame `json:"stack,omitempty"`
	Waker      int32             `json:"waker,omitempty"`
	WakerComm  string            `json:"waker_comm,omitempty"`
	WakerSure  bool              `json:"waker_sure"`
	WakerStack []framejson.Frame `json:"waker_stack,omitempty"`
	Holder     int32             `json:"holder,omitempty"`
	Confidence string            `json:"holder_confidence,omitempty"`
	Share      float64           `json:"holder_share,omitempty"`
	Why        string            `json:"holder_doubt,omitempty"`
	Segments   []segmentJSON     `json:"evidence,omitempty"`
	Split      *splitJSON        `json:"split,omitempty"`
	Steps      []stepJSON        `json:"steps,omitempty"`
}

type segmentJSON struct {
	TID  int32        `json:"let_go_by"`
	From tracefs.Time `json:"from_ns"`
	To   tracefs.Time `json:"to_ns"`
}

// beforeJSON has lower bounds; upper ones if records were lost, as the calls may
// have begun there.
type beforeJSON struct {
	Waits          int64         `json:"waits"`
	AtLeast        *tracefs.Time `json:"at_least_ns,omitempty"`
	AtMost         *tracefs.Time `json:"at_most_ns,omitempty"`
	Unclear        int64         `json:"unclear"`
	UnclearAtLeast *tracefs.Time `json:"unclear_at_least_ns,omitempty"`
	UnclearAtMost  *tracefs.Time `json:"unclear_at_most_ns,omitempty"`
}

type waitvJSON struct {
	Waits int64        `json:"waits"`
	Total tracefs.Time `json:"total_ns"`
}

type verdictJSON struct {
	Kind       string   `json:"kind"`
	Confidence string   `json:"confidence,omitempty"`
	Text       string   `json:"text"`
	Proof      []string `json:"evidence"`
}

type lossJSON struct {
	Gaps      int64         `json:"gaps"`
	Records   uint64        `json:"records"`
	Unknown   bool          `json:"more,omitempty"`
	Refused   uint64        `json:"refused"`
	Bounded   bool          `json:"bounded"`
	Unseen    *tracefs.Time `json:"unseen_threads_ns,omitempty"`
	Forgotten int64         `json:"threads_forgotten"`
}
