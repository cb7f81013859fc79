package futex

import (
	"math"
	"slices"

	"ustack/tracefs/syscalls"
)

// Kind is what a futex is used as.
type Kind uint8

// The kinds.
const (
	Unknown Kind = iota
	Mutex
	RWLock
	PIMutex
	Semaphore
	// GoLock is a lock inside the Go runtime, GoPark its way to let a thread
	// sleep that has nothing to run.
	GoLock
	GoPark
	Condvar
	// Signal is a condition variable, a semaphore or another flag that threads wait
	// for; which one is unknown.
	Signal
	Join
	// NotLock is a futex that only ever times out: a way to sleep.
	NotLock
)

var kindNames = [...]string{"unknown", "mutex", "rwlock", "pi-mutex", "semaphore", "go-runtime", "go-runtime (idle)",
	"condvar", "signal", "join", "not-a-lock"}

// String returns the word used in all outputs.
func (k Kind) String() string { return kindNames[k] }

// Contention reports whether waits on it are for a lock.
func (k Kind) Contention() bool { return k <= GoLock }

// section returns the place in the report: locks, or all others.
func (k Kind) section() int {
	if k.Contention() {
		return 0
	}
	return 1
}

// exclusive reports whether one thread holds it at a time.
func (k Kind) exclusive() bool { return k == Mutex || k == PIMutex || k == GoLock }

// traits are the uses of a futex that its kind shows in.
type traits struct {
	waits, pi, plain, bitset int64
	realtime, timeouts       int64
	endless                  int64 // FUTEX_CLOCK_REALTIME, and no timeout
	zero, two, three         int64 // by value waited with
	owner                    int64 // value has the bit FUTEX_WAITERS: an owner's number is in it
	thread                   int64 // value is the number of a thread of the trace
	count                    int64 // value can be a count of signals, and no lock's
	wakes, broadcasts        int64
	empties, requeues        int64
	unexplained              int64 // woken, and by no call
	libc                     int64 // the C library waits
}

// futexWaiters is FUTEX_WAITERS: the word of a robust or PI mutex has it while
// threads wait.
const futexWaiters = 1 << 31

// wait notes how a wait begins. thread means that the value is a thread's number.
func (t *traits) wait(f *syscalls.Futex, thread bool) {
	t.waits++
	switch {
	case f.Cmd == syscalls.WaitRequeuePI: // at a condition variable, to be moved to a lock
		t.requeues++
	case f.Cmd.PI():
		t.pi++
	case f.Cmd == syscalls.WaitBitset:
		t.bitset++
	default:
		t.plain++
	}
	if f.Realtime {
		t.realtime++
		if !f.Timeout {
			t.endless++
		}
	}
	if f.Timeout {
		t.timeouts++
	}
	switch {
	case f.Val == 0:
		t.zero++
	case f.Val == 2:
		t.two++
	case f.Val == 3:
		t.three++
	case f.Val&futexWaiters != 0 && f.Val != math.MaxUint32:
		t.owner++
	default:
		if thread {
			t.thread++
		}
		if f.Val != math.MaxUint32 && (f.Val < 8 || f.Val&7 != rwlockReaders) {
			t.count++
		}
	}
}

// rwlockReaders are the flags in the word of a glibc rwlock's readers while they
// wait for a writer: PTHREAD_RWLOCK_WRLOCKED and PTHREAD_RWLOCK_RWAITING. How many
// readers there are is above them (nptl/pthread_rwlock_common.c).
const rwlockReaders = 6

// wake notes a wakeup of up to n waiters.
func (t *traits) wake(n uint32, moves bool) {
	t.wakes++
	if n > 1 {
		t.broadcasts++
	}
	if moves {
		t.requeues++
	}
}

// exclusive reports whether a wait is for something that one thread holds at
// a time. It is asked while the trace is read; kind knows more at the end.
func (t *traits) exclusive(w *wait) bool {
	return w.cmd.PI() && t.requeues == 0 || w.val == 2 && t.two == t.waits && t.requeues == 0 || w.val&futexWaiters != 0 && w.val != math.MaxUint32
}

func (t *traits) merge(u *traits) {
	for _, p := range [...]struct {
		to   *int64
		from int64
	}{
		{&t.waits, u.waits}, {&t.pi, u.pi}, {&t.plain, u.plain}, {&t.bitset, u.bitset}, {&t.realtime, u.realtime},
		{&t.timeouts, u.timeouts}, {&t.endless, u.endless}, {&t.zero, u.zero}, {&t.two, u.two}, {&t.three, u.three}, {&t.owner, u.owner},
		{&t.thread, u.thread}, {&t.count, u.count}, {&t.wakes, u.wakes}, {&t.broadcasts, u.broadcasts}, {&t.empties, u.empties},
		{&t.requeues, u.requeues}, {&t.unexplained, u.unexplained}, {&t.libc, u.libc},
	} {
		*p.to += p.from
	}
}

// goNote reports whether a thread of the Go runtime seems to wait as it has
// nothing to run (runtime/lock_futex.go: notesleep waits while the key is 0),
// which makes the call itself: all of its stack, back to where the thread
// began, is in one file, and that is no C library.
func (lk *locks) goNote(f *syscalls.Futex, s *Stack) bool {
	if f.Cmd != syscalls.Wait || !f.Private || f.Val != 0 {
		return false
	}
	const heap = 0xc0 // runtime/malloc.go, up to Go 1.25
	if f.Addr>>32 == heap || lk.goHeap != nil && lk.goHeap(f.Addr) {
		return true
	}
	if s == nil || s.Cut && !s.Limit || len(s.Frames) < 3 || s.Frames[0].File == nil || s.Frames[0].InLibc() {
		return false
	}
	return !slices.ContainsFunc(s.Frames, func(f Frame) bool { return f.File != s.Frames[0].File })
}

// noteStack notes the waiting functions, once the stack of a wait is known.
func (lk *locks) noteStack(th *thread, l *lock, f *syscalls.Futex, stack int32) {
	s := lk.stacks.Get(stack)
	if lk.goNote(f, s) {
		th.proc.find().golang = true
	}
	if l != nil && s != nil && len(s.Frames) > 0 && s.Frames[0].InLibc() {
		l.traits.libc++
	}
}

// kind returns what the futex is used as, by the ways of glibc 2.25 and later,
// of the Go runtime, and of the classic three-state mutex (Drepper, "Futexes
// Are Tricky"), which Rust's is too.
func (l *lock) kind() Kind {
	t := &l.traits
	if kind, ok := l.named(); ok {
		return kind
	}
	switch {
	case t.pi > 0:
		return PIMutex
	case t.waits == 0:
		return Unknown
	case !l.foreign && l.proc != nil && l.proc.find().golang && !l.key.shared && t.plain == t.waits && t.libc == 0:
		// runtime/lock_futex.go: mutex_sleeping is 2, a note's key 0.
		if t.two == t.waits {
			return GoLock
		}
		return GoPark
	case l.isJoin():
		return Join
	case t.requeues > 0:
		return Condvar
	case t.owner == t.waits:
		return Mutex
	case t.two == t.waits && t.broadcasts == 0 && t.endless == 0:
		return Mutex // pthread_mutex_timedlock has FUTEX_CLOCK_REALTIME, too
	case t.counted():
		return Condvar
	case t.bitset == t.waits && t.realtime > 0 && t.two+t.three == t.waits:
		return RWLock // nptl/pthread_rwlock_common.c: PTHREAD_RWLOCK_FUTEX_USED is 2
	case t.bitset == t.waits && t.zero == t.waits && t.wakes > 0:
		return l.signal()
	case t.wakes == 0 && t.timeouts == t.waits && l.results[TimedOut] > 0 && l.results[Woken] == 0:
		return NotLock
	case t.bitset == t.waits && t.zero == t.waits:
		return l.signal()
	case t.zero == t.waits && t.broadcasts == 0:
		return Signal // a word that is 0 is no lock that is held
	}
	return Unknown
}

// counted reports whether threads wait for a count to change, as at the condition
// variables of glibc since 2.41 (__g_signals in nptl/pthread_cond_wait.c). Its other
// waits with a time limit, or FUTEX_CLOCK_REALTIME and none, are for a mutex (2), a
// semaphore (0), or at one of the words of a rwlock: a thread that waits there with
// 2 is woken with all others.
func (t *traits) counted() bool {
	switch {
	case t.bitset < t.waits || t.owner > 0 || t.realtime == 0 && t.timeouts < t.waits:
		return false
	case t.count > 0:
		return true
	case t.realtime == 0 || t.zero+t.two+t.three < t.waits:
		return false
	case t.zero > 0:
		return t.zero < t.waits
	}
	return t.two > 0 && t.wakes > t.broadcasts
}

// isJoin reports whether threads wait for a thread to exit. glibc waits with the
// number of the thread, on a futex that only the kernel wakes, when the thread is
// gone (set_tid_address(2)).
func (l *lock) isJoin() bool {
	t := &l.traits
	if !l.key.shared || t.bitset != t.waits || t.wakes > 0 || t.zero+t.two > 0 {
		return false
	}
	return t.thread > 0 || t.unexplained > 0
}

// signal distinguishes a condition variable from a semaphore. pthread_cond_t has two
// words to wait at, at offsets 40 and 44, which take turns; sem_t has one, at
// offset 0. Both are aligned to eight bytes.
func (l *lock) signal() Kind {
	t := &l.traits
	const half = 4
	other := lockKey{l.key.addr ^ half, l.key.shared}
	switch {
	case l.key.addr&half != 0 || t.broadcasts > 0:
		return Condvar
	case l.proc != nil && l.proc.find().locks.get(other) != nil:
		return Condvar
	case l.results[Woken] > enoughTurns && l.results[TimedOut] == 0:
		return Semaphore
	}
	return Signal
}

// enoughTurns is how many waits must have ended at one word of a condition
// variable for the other one to have had its turn.
const enoughTurns = 3
