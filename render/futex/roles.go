package futex

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"ustack/filemap"
	"ustack/filemap/symbol"
)

// role is a lock of a program's own, made of futexes that are something else to the C
// library.
type role struct {
	// files begin the names of the files that have the functions, without directories: other
	// programs can have functions of such names. None are for a library that is linked into
	// programs, whose functions have its name.
	files []string
	// functions are those in which only threads wait that want the lock.
	functions []string
	// but are those from which threads call them that wait for something else.
	but  []string
	name string
	// each: a thread waits at a futex of its own, whichever of these locks it wants.
	each bool
	// compiled: the functions are code that one of the files has compiled, and that calls
	// it to wait.
	compiled bool
	// mutual: threads wait in the functions for other things, too. It is a lock if those
	// that wake wait there themselves.
	mutual bool
}

// roles are of PostgreSQL (src/backend/storage/lmgr/lwlock.c), of CPython
// (Python/ceval_gil.c, up to 3.11 ceval_gil.h), of OpenJDK
// (src/hotspot/share/runtime/objectMonitor.cpp, and
// java/util/concurrent/locks/AbstractQueuedSynchronizer.java) and of MariaDB
// (storage/innobase/lock/lock0lock.cc, sql/mdl.cc), and of the libraries Abseil
// (absl/synchronization/mutex.cc) and parking_lot (src/raw_mutex.rs, src/raw_rwlock.rs), whose
// locks have a queue of threads that each wait at a word of their own. In Abseil's functions
// threads wait for a condition that a lock protects, too.
var roles = [...]role{
	{files: []string{"postgres"}, functions: []string{"LWLockAcquire", "LWLockAcquireOrWait", "LWLockWaitForVar"}, name: "LWLock", each: true},
	{files: []string{"python3", "libpython3"}, functions: []string{"take_gil"}, name: "GIL"},
	{files: []string{"libjvm.so"}, functions: []string{"ObjectMonitor::enter", "ObjectMonitor::EnterI", "ObjectMonitor::ReenterI"}, name: "Java monitor", each: true},
	{files: []string{"libjvm.so"}, functions: []string{"java.util.concurrent.locks.AbstractQueuedSynchronizer.acquire",
		"java.util.concurrent.locks.AbstractQueuedSynchronizer.acquireQueued", "java.util.concurrent.locks.AbstractQueuedSynchronizer.doAcquireShared"},
		name: "Java lock", each: true, compiled: true, mutual: true},
	{files: []string{"mariadbd", "mysqld"}, functions: []string{"lock_wait"}, name: "InnoDB row lock", each: true},
	{files: []string{"mariadbd", "mysqld"}, functions: []string{"MDL_wait::timed_wait"}, name: "metadata lock", each: true},
	{functions: []string{"absl::Mutex::LockSlow", "absl::Mutex::LockSlowWithDeadline", "absl::Mutex::LockSlowLoop"},
		but: []string{"absl::Mutex::LockWhen", "absl::Mutex::LockWhenWithTimeout", "absl::Mutex::LockWhenWithDeadline", "absl::Mutex::LockWhenCommon",
			"absl::Mutex::ReaderLockWhen", "absl::Mutex::ReaderLockWhenWithTimeout", "absl::Mutex::ReaderLockWhenWithDeadline",
			"absl::Mutex::Await", "absl::Mutex::AwaitWithTimeout", "absl::Mutex::AwaitWithDeadline", "absl::Mutex::AwaitCommon"},
		name: "absl::Mutex", each: true, mutual: true},
	{functions: []string{"parking_lot::raw_mutex::RawMutex::lock_slow", "parking_lot::raw_rwlock::RawRwLock::lock_exclusive_slow", "parking_lot::raw_rwlock::RawRwLock::lock_shared_slow",
		"parking_lot::raw_rwlock::RawRwLock::lock_upgradable_slow", "parking_lot::raw_rwlock::RawRwLock::upgrade_slow",
		"parking_lot::raw_rwlock::RawRwLock::wait_for_readers"}, name: "parking_lot lock", each: true},
}

// roleFrames is how far from the system call the function of a role is.
const roleFrames = 10

// stackRole returns what a thread with a stack wants, and the file that has the function,
// or that has compiled it.
func stackRole(s *Stack) (found *role, file *filemap.File) {
	var called *filemap.File // by the frame
	for i := range s.Frames[:min(len(s.Frames), roleFrames)] {
		f := &s.Frames[i]
		if f.File != nil {
			called = f.File
		}
		if f.Name == nil || f.Name.Reason != symbol.NoReason || called == nil {
			continue
		}
		for k := range len(f.Name.Inlined) + 1 {
			function := f.Name.Function
			if k < len(f.Name.Inlined) {
				function = f.Name.Inlined[k].Function
			}
			name := symbol.Path(function)
			switch {
			case found == nil:
				found, file = roleOf(called, f.File == nil, name), called
			case slices.Contains(found.but, name):
				return nil, nil
			}
			if found != nil && found.but == nil {
				return found, file
			}
		}
	}
	return found, file
}

// roleOf returns the role of a function of a file by its path, nil if it has none.
func roleOf(file *filemap.File, compiled bool, name string) *role {
	for i := range roles {
		r := &roles[i]
		if r.compiled == compiled && slices.Contains(r.functions, name) && (r.files == nil || isOf(file, r.files)) {
			return r
		}
	}
	return nil
}

// whose is the wakes of the futexes of a role in a file, by who makes them.
type whose struct {
	waiters map[int32]bool
	wakes   map[int32]int64
}

// enoughWakes is how many wakes there must be for who makes them to show something, and
// mostWakes of how many in a hundred it must be true.
const (
	enoughWakes = 10
	mostWakes   = 90
)

// add adds the waits and wakes of a futex.
func (w *whose) add(l *lock) {
	for _, p := range l.waiters.list {
		w.waiters[p.key] = true
	}
	for _, p := range l.wakers.list {
		w.wakes[p.key] += p.Count
	}
}

// mutual reports whether threads that wait wake each other.
func (w *whose) mutual() bool {
	var all, own int64
	for tid, n := range w.wakes {
		if all += n; w.waiters[tid] {
			own += n
		}
	}
	return all >= enoughWakes && 100*own >= mostWakes*all
}

// unproven returns the roles that are none, as what threads wait for is no lock.
func (lk *locks) unproven() map[roleKey]bool {
	all := make(map[roleKey]*whose)
	for _, l := range lk.all {
		if l.parent != nil || l.role == nil || !l.role.mutual {
			continue
		}
		key := l.roleKey(l.role)
		w := all[key]
		if w == nil {
			w = &whose{make(map[int32]bool), make(map[int32]int64)}
			all[key] = w
		}
		w.add(l)
	}
	out := make(map[roleKey]bool)
	for key, w := range all {
		out[key] = !w.mutual()
	}
	return out
}

// isOf reports whether a file has one of the names, or is a version of it.
func isOf(file *filemap.File, names []string) bool {
	base := path.Base(file.Path)
	return slices.ContainsFunc(names, func(name string) bool {
		rest, ok := strings.CutPrefix(base, name)
		return ok && strings.Trim(rest, ".0123456789so") == ""
	})
}

// nameRole finds the role of a futex by the functions of most of its waits. open are the
// stacks of waits that have not ended.
func (lk *locks) nameRole(l *lock, open []int32) {
	votes := make(map[*role]int64)
	var all int64
	l.role, l.roleFile = nil, nil
	vote := func(stack int32, n int64) {
		all += n
		s := lk.stacks.Get(stack)
		if s == nil {
			return
		}
		r, file := stackRole(s)
		if r == nil {
			return
		}
		if votes[r] += n; l.role == nil || votes[r] > votes[l.role] {
			l.role, l.roleFile = r, file
		}
	}
	for i := range l.flows.list {
		vote(l.flows.list[i].key.wait, l.flows.list[i].Count)
	}
	for _, stack := range open {
		vote(stack, 1)
	}
	if l.role != nil && 2*votes[l.role] <= all {
		l.role, l.roleFile = nil, nil
	}
	l.inRole.of, l.inRole.all = votes[l.role], all
}

// inRole is how many of all waits for a futex with a role are in functions of that.
type inRole struct{ of, all int64 }

const (
	// mostInRole is how many waits in a hundred must be in functions of a role for the row
	// to need no word on the others.
	mostInRole = 95

	hintMixed = "%d %% of the waits at the futexes of the %s are in its functions: threads wait there for other things, too, and -v has the code"
)

// mixed returns a hint at a row whose threads wait for more than its role says, "" if none do.
func mixed(rows []*Lock) string {
	for _, row := range rows {
		var sum inRole
		for _, l := range row.parts {
			sum.of, sum.all = sum.of+l.inRole.of, sum.all+l.inRole.all
		}
		if row.Each && row.Role != "" && sum.of*100 < sum.all*mostInRole {
			return fmt.Sprintf(hintMixed, sum.of*100/sum.all, row.Role)
		}
	}
	return ""
}
