package futex

import (
	"fmt"
	"testing"

	"ustack/filemap"
	"ustack/filemap/symbol"
)

// stackOf returns a stack of functions, "FILE FUNCTION" each, innermost first. Without a
// file it is compiled code.
func stackOf(frames ...[2]string) *Stack {
	s := new(Stack)
	for _, f := range frames {
		frame := Frame{Name: &symbol.Name{Function: f[1]}}
		if f[0] != "" {
			frame.File = &filemap.File{Path: f[0]}
		}
		s.Frames = append(s.Frames, frame)
	}
	return s
}

// TestCompiledRoles: compiled code has a role only if it calls the file that has compiled
// it, and what is in a file has none of compiled code.
func TestCompiledRoles(t *testing.T) {
	const acquire = "java.util.concurrent.locks.AbstractQueuedSynchronizer.acquire"
	jvm := [2]string{"/usr/lib/jvm/lib/server/libjvm.so", "Unsafe_Park"}
	for _, c := range []struct {
		stack *Stack
		want  string
	}{
		{stackOf([2]string{"/lib/libc.so.6", "futex"}, jvm, [2]string{"", "jdk.internal.misc.Unsafe.park"}, [2]string{"", acquire}), "Java lock"},
		{stackOf([2]string{"/lib/libc.so.6", "futex"}, [2]string{"/bin/app", "jit_park"}, [2]string{"", acquire}), ""},
		{stackOf([2]string{"/lib/libc.so.6", "futex"}, jvm, [2]string{"/bin/app", acquire}), ""},
		{stackOf([2]string{"/lib/libc.so.6", "futex"}, [2]string{jvm[0], acquire}), ""},
		{stackOf([2]string{"", acquire}), ""},
		{stackOf([2]string{jvm[0], "ObjectMonitor::enter(JavaThread*)"}), "Java monitor"},
		{stackOf(jvm, [2]string{"", "ObjectMonitor::enter(JavaThread*)"}), ""},
	} {
		got := ""
		if r, file := stackRole(c.stack); r != nil {
			if got = r.name; file.Path != jvm[0] {
				t.Errorf("file %s", file.Path)
			}
		}
		if got != c.want {
			t.Errorf("%+v: %q, want %q", c.stack.Frames, got, c.want)
		}
	}
}

// TestMutualRoles: threads that wait in code of locks and of other things wait for a lock
// if those that wake them wait there, too.
func TestMutualRoles(t *testing.T) {
	role := &role{name: "Java lock", each: true, mutual: true}
	file := &filemap.File{Path: "libjvm.so"}
	for _, c := range []struct {
		name  string
		waker func(i int) int32
		wakes int
		lock  bool
	}{
		{"each other", func(i int) int32 { return int32(10 + (i+1)%4) }, 40, true},
		{"each other, too few times", func(i int) int32 { return int32(10 + (i+1)%4) }, 8, false},
		{"another thread, as at a latch", func(int) int32 { return 9 }, 40, false},
		{"mostly another thread", func(i int) int32 { return int32(9 + (i+1)%2) }, 40, false},
	} {
		lk := &locks{}
		for n := range 4 {
			l := newLock()
			l.key, l.role, l.roleFile = lockKey{addr: uint64(0x1000 * n)}, role, file
			l.waiters.add(int32(10+n), Tally{Count: 10, Time: 100})
			lk.all = append(lk.all, l)
		}
		for i := range c.wakes {
			lk.all[i%4].wakers.add(c.waker(i), Tally{Count: 1, Time: 1})
		}
		if none := lk.unproven(); none[roleKey{role: role, file: file}] == c.lock {
			t.Errorf("%s: %v", c.name, none)
		}
	}
}

// TestUses: what turns make of a kind.
func TestUses(t *testing.T) {
	for _, c := range []struct {
		kind         Kind
		kept, broken int64
		want         use
	}{
		{Condvar, 10, 5, useLock}, {Condvar, 9, 0, useKind}, {Condvar, 10, 6, useKind}, {Signal, 100, 0, useLock}, {Join, 100, 0, useKind},
		{Semaphore, 0, 10, useSignal}, {Semaphore, 1, 100, useKind}, {Semaphore, 0, 9, useKind}, {Mutex, 0, 100, useKind},
	} {
		if got := (turns{kept: c.kept, broken: c.broken}).use(c.kind); got != c.want {
			t.Errorf("%s", fmt.Sprint(c, got))
		}
	}
}

// TestLibraryRoles: a lock of a library has its role in any file, by the names that C++ and
// Rust have had; a wait for a condition that the lock protects has none.
func TestLibraryRoles(t *testing.T) {
	const app = "/opt/app"
	wait := [2]string{app, "absl::lts_20240722::synchronization_internal::FutexWaiter::Wait(absl::lts_20240722::KernelTimeout)"}
	loop := [2]string{"/usr/lib/libabsl_synchronization.so.20220623", "absl::debian3::Mutex::LockSlowLoop(absl::debian3::SynchWaitParams*, int)"}
	for _, c := range []struct {
		stack *Stack
		want  string
	}{
		{stackOf(wait, [2]string{app, "absl::lts_20240722::Mutex::LockSlowLoop(int)"}, [2]string{app, "f()"}), "absl::Mutex"},
		{stackOf(wait, [2]string{app, "absl::Mutex::LockSlow(int)"}, [2]string{app, "f()"}), "absl::Mutex"},
		{stackOf(wait, loop, [2]string{app, "f()"}), "absl::Mutex"},
		{stackOf(wait, loop, [2]string{app, "absl::debian3::Mutex::AwaitCommon(absl::debian3::Condition const&)"}), ""},
		{stackOf(wait, loop, [2]string{app, "g()"}, [2]string{app, "absl::debian3::Mutex::LockWhen(absl::debian3::Condition const&)"}), ""},
		{stackOf(wait, [2]string{app, "app::Mutex::LockSlow(int)"}), ""},
		{stackOf([2]string{app, "<parking_lot::raw_mutex::RawMutex>::lock_slow"}), "parking_lot lock"},
		{stackOf([2]string{app, "parking_lot::raw_rwlock::RawRwLock::lock_shared_slow"}), "parking_lot lock"},
		{stackOf([2]string{app, "parking_lot::condvar::Condvar::wait_until_internal"}, [2]string{app, "app::lock_slow"}), ""},
	} {
		got := ""
		if r, file := stackRole(c.stack); r != nil {
			if got = r.name; file == nil {
				t.Errorf("%+v: no file", c.stack.Frames)
			}
		}
		if got != c.want {
			t.Errorf("%+v: %q, want %q", c.stack.Frames, got, c.want)
		}
	}
}

// TestRolesOfProcesses: threads of two programs wait for two locks of one library, unless
// the futexes are shared.
func TestRolesOfProcesses(t *testing.T) {
	r, file := &role{name: "lock", each: true}, &filemap.File{Path: "lib.so"}
	row := func(shared bool, p *process) roleKey {
		l := newLock()
		l.key.shared, l.proc, l.roleFile = shared, p, file
		return l.roleKey(r)
	}
	p, q := new(process), new(process)
	if row(false, p) == row(false, q) || row(true, p) != row(true, q) {
		t.Error("private futexes of two processes are one lock, or shared ones two")
	}
}

// TestMixed: a row says so if its threads wait for more than its role says.
func TestMixed(t *testing.T) {
	row := func(of, all int64) []*Lock {
		l := newLock()
		l.inRole = inRole{of, all}
		return []*Lock{{Role: "Java lock", Each: true, parts: []*lock{l, l}}}
	}
	if got := mixed(row(60, 100)); got == "" || got[:4] != "60 %" {
		t.Errorf("%q", got)
	}
	if got := mixed(row(96, 100)); got != "" {
		t.Errorf("%q", got)
	}
}
