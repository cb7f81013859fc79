package futex_test

import (
	"fmt"
	"strings"
	"testing"

	"ustack/filemap"
	"ustack/filemap/symbol"
	"ustack/render/futex"
)

// asNames gives frames the function names that a list has, by offset.
type asNames []string

// Name implements symbol.Namer. What stands after "<-" is inlined in it.
func (n asNames) Name(_ *filemap.File, offset uint64, _ bool) *symbol.Name {
	inlined, function, found := strings.Cut(n[offset], "<-")
	if !found {
		function = inlined
	}
	switch {
	case function == "":
		return &symbol.Name{Reason: symbol.Stripped}
	case found:
		return &symbol.Name{Function: function, Inlined: []symbol.Call{{Function: inlined}}}
	}
	return &symbol.Name{Function: function}
}

// Skipped implements symbol.Namer.
func (n asNames) Skipped(_, _ symbol.Place) *symbol.Skipped { return nil }

// waitWith is a wait with a stack of so many frames; it goes on if ends is
// false.
func waitWith(call string, frames int, ends bool) string {
	var b strings.Builder
	line := func(us int, text string) {
		fmt.Fprintf(&b, "             t10-10      [000] ..... %5d.%06d: %s\n", 0, us, text)
	}
	line(100, call)
	line(101, "<user stack trace>")
	for i := range frames {
		fmt.Fprintf(&b, " =>  <%016x> : path=/bin/p build_id={0x1,0x2,0x3,0x4,0x5}\n", i)
	}
	if ends {
		line(900, "sys_futex -> 0x0")
	}
	return b.String()
}

// TestKindByName: the functions that wait determine the kind of a futex, unless the
// calls contradict it.
func TestKindByName(t *testing.T) {
	const (
		plain2 = "sys_futex(uaddr: 0x1000, op: 0x80, val: 2, utime: 0, uaddr2: 0, val3: 0)"
		note   = "sys_futex(uaddr: 0x1000, op: 0x80, val: 0, utime: 0, uaddr2: 0, val3: 0)"
		plain7 = "sys_futex(uaddr: 0x1000, op: 0x80, val: 7, utime: 0, uaddr2: 0, val3: 0)"
		bitset = "sys_futex(uaddr: 0x1000, op: 0x189, val: 7, utime: 0, uaddr2: 0, val3: 0xffffffff)"
		lockPI = "sys_futex(uaddr: 0x1000, op: 0x86, val: 0, utime: 0, uaddr2: 0, val3: 0)"
	)
	for _, c := range []struct {
		call  string
		names asNames
		want  futex.Kind
	}{
		{plain7, nil, futex.Unknown},
		{plain7, asNames{"main", "start"}, futex.Unknown},
		{plain7, asNames{"__lll_lock_wait", "main"}, futex.Mutex},
		{plain7, asNames{"___pthread_mutex_lock@@GLIBC_2.2.5"}, futex.Mutex},
		{plain7, asNames{"", "", "pthread_mutex_lock.part.0"}, futex.Mutex},
		{plain7, asNames{"pthread_mutex_lock_full"}, futex.Unknown},
		{plain7, asNames{"runtime.futex", "runtime.futexsleep", "runtime.lock2", "runtime.lockWithRank<-runtime.schedule"}, futex.GoLock},
		{plain7, asNames{"runtime.futex", "runtime.futexsleep", "runtime.notesleep", "runtime.mPark<-runtime.stopm"}, futex.GoPark},
		{plain7, asNames{"std::sys::pal::unix::futex::futex_wait<-std::sys::sync::mutex::futex::Mutex::lock_contended"}, futex.Mutex},
		{plain7, asNames{"syscall", "std::sys::sync::rwlock::futex::RwLock::write_contended"}, futex.RWLock},
		{plain7, asNames{"syscall", "<std::sys::sync::rwlock::futex::RwLock>::read_contended", "a::read_cfg"}, futex.RWLock},
		{plain7, asNames{"syscall", "<std::sys::sync::mutex::futex::Mutex>::lock_contended"}, futex.Mutex},
		{plain7, asNames{"syscall", "<std::sys::sync::condvar::futex::Condvar>::wait_optional_timeout"}, futex.Condvar},
		{plain7, asNames{"syscall", "<a::Wait<std::Mutex> as a::Lock>::lock_contended"}, futex.Unknown},
		{plain7, asNames{"syscall", "<a::Wait<std::Mutex>>::lock_contended"}, futex.Unknown},
		{note, asNames{"runtime.futex", "runtime.futexsleep", "runtime.other", "main"}, futex.GoPark},
		{note, asNames{"", "", "", "main"}, futex.GoPark},
		{note, asNames{"futex_wait", "turnstile", "start_thread", "clone3"}, futex.Signal}, // of a static program
		{note, asNames{"gomp_team_barrier_wait_end", "gomp_thread_start", "start_thread", "clone3"}, futex.Signal},
		{plain7, asNames{"gomp_mutex_lock_slow", "add"}, futex.Mutex},
		{plain7, asNames{"syscall", "QBasicMutex::lockInternal()", "add()"}, futex.Mutex},
		{plain7, asNames{"syscall", "QSemaphore::acquire(int)", "lim()"}, futex.Semaphore},
		{plain7, asNames{"ethr_event_twait", "", "erts_schedule", "process_main"}, futex.Signal},
		{plain7, asNames{"syscall", "partition_alloc::internal::SpinningMutex::LockSlow()"}, futex.Mutex},
		{plain7, asNames{"syscall", "My::Mutex::lock_contended(int) [clone .cold]"}, futex.Mutex},
		{bitset, asNames{"__futex_abstimed_wait_common", "pthread_cond_timedwait", "main"}, futex.Condvar},
		{bitset, asNames{"__futex_abstimed_wait_common", "__new_sem_wait_slow64.constprop.0", "main"}, futex.Semaphore},
		{bitset, asNames{"__futex_abstimed_wait_common", "__pthread_clockjoin_ex", "main"}, futex.Join},
		// A condition variable's mutex, an owner's number, seven frames away.
		{plain2, asNames{"", "pthread_cond_wait", "main"}, futex.Mutex},
		{lockPI, asNames{"pthread_cond_wait", "main"}, futex.PIMutex},
		{plain7, asNames{"a", "b", "c", "d", "e", "f", "sem_wait"}, futex.Unknown},
	} {
		for _, ends := range []bool{true, false} {
			a := analyseText(t, futex.Options{}, waitWith(c.call, max(len(c.names), 1), ends)+
				"             t11-11      [000] .....     1.000000: sys_futex -> 0x0\n")
			if c.names != nil {
				a.Name(c.names)
			}
			r := a.Report(futex.View{})
			list := append(r.Locks, r.Signals...)
			if len(list) != 1 || list[0].Kind != c.want {
				t.Errorf("%s in %q (it ends: %v): %v, want %s", c.call, c.names, ends, rows(r), c.want)
			}
		}
	}
}
