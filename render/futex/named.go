package futex

import (
	"strings"

	"ustack/filemap"
	"ustack/filemap/symbol"
)

// Name names the functions of all stacks that have no names yet, before a
// report. The functions show what futexes are used as.
func (a *Analysis) Name(names symbol.Namer) {
	a.stacks.Name(names)
	a.locks.nameKinds()
	a.summed.Name(names)
}

// nameKinds notes what futexes are used as by the functions that wait.
func (lk *locks) nameKinds() {
	open := make(map[*lock][]int32)
	for th := range lk.tasks.threads.all() {
		if w := th.wait; th.in && w != nil && w.lock != nil {
			open[w.lock.find()] = append(open[w.lock.find()], w.stack)
		}
	}
	for _, l := range lk.all {
		l.byName, l.foreign = lk.kindByName(l, open[l])
		lk.nameRole(l, open[l])
	}
}

// Variables names the variables of programs; symbolize.Symbols does.
type Variables interface {
	Variable(l filemap.Layout, addr uint64) *symbol.Variable
	// Place is where in the data of a program or library an address is, as nm has it.
	Place(l filemap.Layout, addr uint64) (f *filemap.File, at uint64, ok bool)
}

// NameLocks names the locks that are static variables and have no name yet: in a file
// without a symbol for it a variable is the file and its address there.
func (a *Analysis) NameLocks(names Variables) {
	for _, l := range a.locks.all {
		if l.parent == nil && l.layout != nil && l.variable == nil {
			l.variable = names.Variable(l.layout, l.key.addr)
			if l.variable != nil {
				continue
			}
			if f, at, ok := names.Place(l.layout, l.key.addr); ok {
				l.variable = &symbol.Variable{Offset: at, File: f}
			}
		}
	}
}

// kindFunction is a function in which threads wait for one kind of thing only.
type kindFunction struct {
	name string // with all that is in front of it
	kind Kind
}

// kindFunctions are functions of glibc and musl (nptl, src/thread), of the Go
// runtime (runtime/lock_futex.go, lock_spinbit.go), of Rust's standard library
// (library/std/src/sys/sync), of libc++ and libstdc++, of Chromium's allocator
// (partition_alloc/spinning_mutex.cc), of Abseil, OpenMP (libgomp/config/linux), GLib
// (glib/gthread-posix.c), Qt (qtbase/src/corelib/thread), and of Erlang, whose threads wait for events of their own
// (erts/lib_src/pthread/ethr_event.c).
var kindFunctions = [...]kindFunction{
	{"pthread_mutex_lock", Mutex}, {"pthread_mutex_timedlock", Mutex}, {"pthread_mutex_clocklock", Mutex}, {"pthread_mutex_cond_lock", Mutex},
	{"lll_lock_wait", Mutex}, {"lll_lock_wait_private", Mutex}, {"lll_lock_slow", Mutex},
	{"pthread_rwlock_rdlock", RWLock}, {"pthread_rwlock_wrlock", RWLock}, {"pthread_rwlock_timedrdlock", RWLock}, {"pthread_rwlock_timedwrlock", RWLock},
	{"pthread_rwlock_clockrdlock", RWLock}, {"pthread_rwlock_clockwrlock", RWLock},
	{"pthread_cond_wait", Condvar}, {"pthread_cond_timedwait", Condvar}, {"pthread_cond_clockwait", Condvar},
	{"condvar_quiesce_and_switch_g1", Condvar}, {"condvar_acquire_lock", Condvar},
	{"sem_wait", Semaphore}, {"new_sem_wait", Semaphore}, {"new_sem_wait_slow", Semaphore}, {"new_sem_wait_slow64", Semaphore}, {"sem_timedwait", Semaphore}, {"sem_clockwait", Semaphore},
	{"pthread_join", Join}, {"pthread_timedjoin_np", Join}, {"pthread_clockjoin_np", Join}, {"pthread_clockjoin_ex", Join}, {"pthread_timedjoin_ex", Join},
	{"pthread_barrier_wait", Signal}, {"pthread_once", Signal}, {"pthread_once_slow", Signal}, {"cxa_guard_acquire", Signal},
	{"runtime.lock2", GoLock}, {"runtime.lock", GoLock}, {"runtime.lockWithRank", GoLock},
	{"runtime.notesleep", GoPark}, {"runtime.notetsleep", GoPark}, {"runtime.notetsleepg", GoPark}, {"runtime.notetsleep_internal", GoPark},
	{"Mutex::lock_contended", Mutex}, {"RwLock::read_contended", RWLock}, {"RwLock::write_contended", RWLock},
	{"Condvar::wait_optional_timeout", Condvar}, {"Parker::park", Signal}, {"Parker::park_timeout", Signal}, {"Once::wait", Signal}, {"Once::call", Signal},
	{"SpinningMutex::LockSlow", Mutex}, {"SpinningMutex::FutexWait", Mutex},
	{"base_internal::SpinLock::SlowLock", Mutex},
	{"gomp_mutex_lock_slow", Mutex}, {"gomp_sem_wait_slow", Semaphore}, {"gomp_barrier_wait_end", Signal}, {"gomp_team_barrier_wait_end", Signal},
	{"QBasicMutex::lockInternal", Mutex}, {"QSemaphore::acquire", Semaphore}, {"QSemaphore::tryAcquire", Semaphore},
	{"ethr_event_wait", Signal}, {"ethr_event_twait", Signal},
	{"g_mutex_lock", Mutex}, {"g_mutex_lock_slowpath", Mutex}, {"g_cond_wait", Condvar}, {"g_cond_wait_until", Condvar},
}

// kindOf returns what a function waits for.
func kindOf(function string) (Kind, bool) {
	name := symbol.Path(function)
	bare := strings.TrimLeft(name, "_")
	for i := range kindFunctions {
		f := &kindFunctions[i]
		if bare == f.name || strings.HasSuffix(name, "::"+f.name) {
			return f.kind, true
		}
	}
	return Unknown, false
}

// nearFrames is how far from the system call the function is that waits.
const nearFrames = 6

// kind returns what a thread with a stack waits for, by the first function from
// the call outwards that waits for one kind only.
func kindOfStack(s *Stack) (Kind, bool) {
	for i := range s.Frames[:min(len(s.Frames), nearFrames)] {
		n := s.Frames[i].Name
		if n == nil || n.Reason != symbol.NoReason {
			continue
		}
		for k := range n.Inlined {
			if kind, ok := kindOf(n.Inlined[k].Function); ok {
				return kind, true
			}
		}
		if kind, ok := kindOf(n.Function); ok {
			return kind, true
		}
		if s := s.Frames[i].Skipped; s != nil {
			if kind, ok := kindOf(s.Name.Function); ok {
				return kind, true
			}
		}
	}
	return Unknown, false
}

// kindByName returns the kind of a futex by the functions of most waits, Unknown if
// they do not show it, and whether they are not the Go runtime's. open are the stacks of
// waits that have not ended.
func (lk *locks) kindByName(l *lock, open []int32) (by Kind, foreign bool) {
	var votes [len(kindNames)]int64
	var all, others int64
	vote := func(stack int32, n int64) {
		all += n
		if s := lk.stacks.Get(stack); s != nil {
			if kind, ok := kindOfStack(s); ok {
				votes[kind] += n
			}
			if !fromGo(s) {
				others += n
			}
		}
	}
	for i := range l.flows.list {
		vote(l.flows.list[i].key.wait, l.flows.list[i].Count)
	}
	for _, stack := range open {
		vote(stack, 1)
	}
	foreign = 2*others > all
	for kind, n := range votes {
		if 2*n > all {
			return Kind(kind), foreign
		}
	}
	return Unknown, foreign
}

// fromGo reports whether a call can be the Go runtime's: its function has no name, or one of
// the runtime.
func fromGo(s *Stack) bool {
	if len(s.Frames) == 0 {
		return true
	}
	n := s.Frames[0].Name
	return n == nil || n.Reason != symbol.NoReason || strings.HasPrefix(n.Function, "runtime.")
}

// named returns the kind by name, if the calls do not contradict it: a
// condition variable's function also waits for the mutex that goes with it,
// with a plain FUTEX_WAIT, and an owner's number in the word makes a lock.
func (l *lock) named() (Kind, bool) {
	t := &l.traits
	switch {
	case l.byName == Unknown || t.pi > 0 || t.owner > 0 && l.byName != Mutex:
		return Unknown, false
	case l.byName == Condvar && t.bitset < t.waits && t.two == t.waits:
		return Unknown, false
	}
	return l.byName, true
}
