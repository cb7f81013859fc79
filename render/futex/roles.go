package futex

import (
	"strings"

	"ustack/filemap"
	"ustack/filemap/symbol"
)

// role is a lock of a program's own, made of futexes that are something else to the C
// library.
type role struct {
	function string // only threads that want the lock wait in it
	name     string
	// each: a thread waits at a futex of its own, whichever of these locks it wants.
	each bool
}

// roles are the functions of PostgreSQL (src/backend/storage/lmgr/lwlock.c), of CPython
// (Python/ceval_gil.c, up to 3.11 ceval_gil.h), of OpenJDK
// (src/hotspot/share/runtime/objectMonitor.cpp) and of MariaDB
// (storage/innobase/lock/lock0lock.cc, sql/mdl.cc).
var roles = [...]role{
	{"LWLockAcquire", "LWLock", true}, {"LWLockAcquireOrWait", "LWLock", true}, {"LWLockWaitForVar", "LWLock", true},
	{"take_gil", "GIL", false},
	{"ObjectMonitor::enter", "Java monitor", true}, {"ObjectMonitor::EnterI", "Java monitor", true}, {"ObjectMonitor::ReenterI", "Java monitor", true},
	{"lock_wait", "InnoDB row lock", true}, {"MDL_wait::timed_wait", "metadata lock", true},
}

// roleFrames is how far from the system call the function of a role is.
const roleFrames = 10

// role returns what a thread with a stack wants, and the file that has the function.
func (s *Stack) role() (*role, *filemap.File) {
	for i := range s.Frames[:min(len(s.Frames), roleFrames)] {
		f := &s.Frames[i]
		if f.Name == nil || f.Name.Reason != symbol.NoReason || f.File == nil {
			continue
		}
		for k := range f.Name.Inlined {
			if r := roleOf(f.Name.Inlined[k].Function); r != nil {
				return r, f.File
			}
		}
		if r := roleOf(f.Name.Function); r != nil {
			return r, f.File
		}
	}
	return nil, nil
}

// roleOf returns the role of a function, nil if it has none.
func roleOf(function string) *role {
	name, _, _ := strings.Cut(function, "(")
	for _, part := range compilerParts {
		name, _, _ = strings.Cut(name, part)
	}
	for i := range roles {
		if name == roles[i].function {
			return &roles[i]
		}
	}
	return nil
}

// nameRole finds the role of a futex by the functions of most of its waits. open are the
// stacks of waits that have not ended.
func (lk *locks) nameRole(l *lock, open []int32) {
	votes := make(map[string]int64)
	var all int64
	l.role, l.roleFile = nil, nil
	vote := func(stack int32, n int64) {
		all += n
		s := lk.stacks.get(stack)
		if s == nil {
			return
		}
		r, file := s.role()
		if r == nil {
			return
		}
		if votes[r.name] += n; l.role == nil || votes[r.name] > votes[l.role.name] {
			l.role, l.roleFile = r, file
		}
	}
	for i := range l.flows.list {
		vote(l.flows.list[i].key.wait, l.flows.list[i].Count)
	}
	for _, stack := range open {
		vote(stack, 1)
	}
	if l.role != nil && 2*votes[l.role.name] <= all {
		l.role, l.roleFile = nil, nil
	}
}
