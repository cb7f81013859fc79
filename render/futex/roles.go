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
}

// roles are of PostgreSQL (src/backend/storage/lmgr/lwlock.c), of CPython
// (Python/ceval_gil.c, up to 3.11 ceval_gil.h), of OpenJDK
// (src/hotspot/share/runtime/objectMonitor.cpp) and of MariaDB
// (storage/innobase/lock/lock0lock.cc, sql/mdl.cc).
var roles = [...]role{
	{[]string{"postgres"}, []string{"LWLockAcquire", "LWLockAcquireOrWait", "LWLockWaitForVar"}, "LWLock", true},
	{[]string{"python3", "libpython3"}, []string{"take_gil"}, "GIL", false},
	{[]string{"libjvm.so"}, []string{"ObjectMonitor::enter", "ObjectMonitor::EnterI", "ObjectMonitor::ReenterI"}, "Java monitor", true},
	{[]string{"mariadbd", "mysqld"}, []string{"lock_wait"}, "InnoDB row lock", true},
	{[]string{"mariadbd", "mysqld"}, []string{"MDL_wait::timed_wait"}, "metadata lock", true},
}

// roleFrames is how far from the system call the function of a role is.
const roleFrames = 10

// role returns what a thread with a stack wants, and the file that has the function.
func stackRole(s *Stack) (*role, *filemap.File) {
	for i := range s.Frames[:min(len(s.Frames), roleFrames)] {
		f := &s.Frames[i]
		if f.Name == nil || f.Name.Reason != symbol.NoReason || f.File == nil {
			continue
		}
		for k := range f.Name.Inlined {
			if r := roleOf(f.File, f.Name.Inlined[k].Function); r != nil {
				return r, f.File
			}
		}
		if r := roleOf(f.File, f.Name.Function); r != nil {
			return r, f.File
		}
	}
	return nil, nil
}

// roleOf returns the role of a function of a file, nil if it has none.
func roleOf(file *filemap.File, function string) *role {
	name, _, _ := strings.Cut(function, "(")
	for _, part := range compilerParts {
		name, _, _ = strings.Cut(name, part)
	}
	for i := range roles {
		r := &roles[i]
		if slices.Contains(r.functions, name) && isOf(file, r.files) {
			return r
		}
	}
	return nil
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
