package futex

import (
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
	// programs can have functions of such names.
	files []string
	// functions are those in which only threads wait that want the lock.
	functions []string
	name      string
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
// (storage/innobase/lock/lock0lock.cc, sql/mdl.cc).
var roles = [...]role{
	{files: []string{"postgres"}, functions: []string{"LWLockAcquire", "LWLockAcquireOrWait", "LWLockWaitForVar"}, name: "LWLock", each: true},
	{files: []string{"python3", "libpython3"}, functions: []string{"take_gil"}, name: "GIL"},
	{files: []string{"libjvm.so"}, functions: []string{"ObjectMonitor::enter", "ObjectMonitor::EnterI", "ObjectMonitor::ReenterI"}, name: "Java monitor", each: true},
	{files: []string{"libjvm.so"}, functions: []string{"java.util.concurrent.locks.AbstractQueuedSynchronizer.acquire",
		"java.util.concurrent.locks.AbstractQueuedSynchronizer.acquireQueued", "java.util.concurrent.locks.AbstractQueuedSynchronizer.doAcquireShared"},
		name: "Java lock", each: true, compiled: true, mutual: true},
	{files: []string{"mariadbd", "mysqld"}, functions: []string{"lock_wait"}, name: "InnoDB row lock", each: true},
	{files: []string{"mariadbd", "mysqld"}, functions: []string{"MDL_wait::timed_wait"}, name: "metadata lock", each: true},
}

// roleFrames is how far from the system call the function of a role is.
const roleFrames = 10

// stackRole returns what a thread with a stack wants, and the file that has the function,
// or that has compiled it.
func stackRole(s *Stack) (*role, *filemap.File) {
	var called *filemap.File // by the frame
	for i := range s.Frames[:min(len(s.Frames), roleFrames)] {
		f := &s.Frames[i]
		if f.File != nil {
			called = f.File
		}
		if f.Name == nil || f.Name.Reason != symbol.NoReason || called == nil {
			continue
		}
		for k := range f.Name.Inlined {
			if r := roleOf(called, f.File == nil, f.Name.Inlined[k].Function); r != nil {
				return r, called
			}
		}
		if r := roleOf(called, f.File == nil, f.Name.Function); r != nil {
			return r, called
		}
	}
	return nil, nil
}

// roleOf returns the role of a function of a file, nil if it has none.
func roleOf(file *filemap.File, compiled bool, function string) *role {
	name := symbol.Path(function)
	for i := range roles {
		r := &roles[i]
		if r.compiled == compiled && slices.Contains(r.functions, name) && isOf(file, r.files) {
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
		key := roleKey{l.role, l.roleFile}
		w := all[key]
		if w == nil {
			w = &whose{make(map[int32]bool), make(map[int32]int64)}
			all[key] = w
		}
		for _, p := range l.waiters.list {
			w.waiters[p.key] = true
		}
		for _, p := range l.wakers.list {
			w.wakes[p.key] += p.Count
		}
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
}
