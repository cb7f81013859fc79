package futex

import "ustack/tracefs"

// Case is what a verdict goes by: some kinds have several.
type Case uint8

// The cases, each after its kind of verdict.
const (
	// NothingWaits: no wait had not ended. NothingHangs: Count waits had not, and none of
	// them is unusually long.
	NothingWaits Case = iota
	NothingHangs
	// Circle: Tasks, and More others, wait for each other (Deadlock). BothOrders: Tasks
	// hang at two locks that threads take in both orders.
	Circle
	BothOrders
	// HolderExited: the first of Tasks waits for a lock that the second one held when it
	// exited (DeadOwner).
	HolderExited
	// WokenBefore: the first of Tasks began to wait after the wakeup (LostWakeUp).
	WokenBefore
	// WaitsForExit: the first of Tasks waits for thread Number, as its process numbers
	// threads (ThreadExit).
	WaitsForExit
	// EndsInWait: the trace ends with the beginning of a wait (CannotTell). LostEnds:
	// some waits have no end, and records were lost. OnlySignals: Count waits hang that
	// no lock is held for. Unexplained: Count waits hang.
	EndsInWait
	LostEnds
	OnlySignals
	Unexplained
	// SumsOnly: the source does not show calls, so nothing is known of it (CannotTell).
	SumsOnly
)

// Task is a thread and its name, "" if unknown.
type Task struct {
	TID  int32
	Comm string
}

// FactKind is what a Fact says.
type FactKind uint8

// The facts.
const (
	// WaitsSince: Task waits for Lock since At.
	WaitsSince FactKind = iota
	// HoldsSince: Task got Lock at At and has not released it. HeldAt: Task held Lock at
	// At, by the lock's memory.
	HoldsSince
	HeldAt
	// ExitedAt: Task exited at At. SeenAt: it was last seen then.
	ExitedAt
	SeenAt
	// WaitedHolding: at At, Task waited for Lock while it held Held.
	WaitedHolding
	// WokeNone: at At, Task woke Lock, and no thread waited there. NoWakeSince: it had no
	// wakeup since.
	WokeNone
	NoWakeSince
	// LastWoken: a thread was last woken at Lock at At.
	LastWoken
	// HolderUnseen: the holder of Lock did not wait for it, so that the trace does not
	// show it.
	HolderUnseen
)

// Fact is a line of evidence.
type Fact struct {
	Kind FactKind
	Task Task
	At   tracefs.Time
	Lock LockName
	Held LockName
	// LastUse is the last known use of the lock that is waited for, nil if unknown.
	LastUse *Fact
}

// LockName is a lock as it is named in a report.
type LockName struct {
	Kind Kind
	Name string
}
