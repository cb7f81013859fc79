package futex

import (
	"testing"

	"ustack/tracefs"
)

// remaps are the mappings of processes of one thread each. Thread 1 has mapped file A, and B
// from a time on; thread 2 has B; thread 3 has memory of its own, and A from then on.
type remaps struct{ from tracefs.Time }

func (*remaps) Process(tid int32) (int32, bool) { return tid, true }

func (r *remaps) SharedFile(tid int32, t tracefs.Time, _ bool, addr uint64) (id, path string, offset uint64, ok bool) {
	switch {
	case tid == 3 && t < r.from:
		return "", "", 0, true
	case tid == 3, tid == 1 && t < r.from:
		return "0:1:1", "/dev/shm/A", addr & 0xfff, true
	}
	return "0:1:2", "/dev/shm/B", addr & 0xfff, true
}

// TestRemapped: a process that maps another file where it had a lock has the lock of that file
// there, once it has been asked again.
func TestRemapped(t *testing.T) {
	const later = 10 * askAgain
	a := New(Options{Mappings: &remaps{later}})
	one, two, three := a.tasks.thread(1), a.tasks.thread(2), a.tasks.thread(3)
	here, there := lockKey{0x1010, true}, lockKey{0x2010, true}
	old, other := a.locks.lock(one, here, 1), a.locks.lock(two, there, 2)
	own := a.locks.lock(three, here, 3)
	if !own.local || a.locks.lock(three, here, 2*askAgain) != own || a.locks.lock(one, here, 2*askAgain) != old {
		t.Fatal("locks differ though nothing was mapped")
	}
	old.owner, one.took = one.tid, []taken{{lock: old}}
	l := a.locks.lock(one, here, later+1)
	if _, took := one.dropLock(old); l != other || old.owner != 0 || took {
		t.Errorf("the lock is in %+v, want %+v", l.file, other.file)
	}
	if l := a.locks.lock(three, here, later+1); l != old || l.path != "/dev/shm/A" {
		t.Errorf("the lock is in %+v, want %+v", l.file, old.file)
	}
	if err := a.locks.check(); err != nil {
		t.Error(err)
	}
	a.locks.mappings = &remaps{3 * later}
	if l := a.locks.lock(one, here, 2*later); l != old || l.gone {
		t.Errorf("the lock is in %+v again, want %+v", l.file, old.file)
	}
	if err := a.locks.check(); err != nil {
		t.Error(err)
	}
}

// TestRemappedWoken: a wakeup between locks in two files makes them not one: both processes
// are asked again at once, and the thread is no owner of the lock that it is thought to have
// waited for.
func TestRemappedWoken(t *testing.T) {
	const now = 3 * askAgain / 2
	a := New(Options{Mappings: &remaps{now}})
	one, two := a.tasks.thread(1), a.tasks.thread(2)
	here, there := lockKey{0x1010, true}, lockKey{0x2010, true}
	l, k := a.locks.lock(one, here, askAgain), a.locks.lock(two, there, askAgain)
	if a.locks.lock(one, here, now) != l {
		t.Fatal("the process is asked without a reason")
	}
	one.futex.Addr = here.addr
	w := &wait{th: one, lock: l, end: now}
	if !a.locks.contradicted(w, &wake{th: two, lock: k, key: there}) {
		t.Error("nothing contradicts a wakeup in another file")
	}
	a.locks.provenSame(&span{th: one, lock: l, waker: k})
	if l.find() == k.find() {
		t.Error("locks in two files are one")
	}
	if got := a.locks.lock(one, here, now+1); got != k {
		t.Errorf("the lock is in %+v, want %+v", got.file, k.file)
	}
	if err := a.locks.check(); err != nil {
		t.Error(err)
	}
}

// TestFileAtTwoPaths: one file has one lock, whatever its path is for who maps it.
func TestFileAtTwoPaths(t *testing.T) {
	a := New(Options{Mappings: &twoPaths{}})
	key := lockKey{0x1010, true}
	if a.locks.lock(a.tasks.thread(1), key, 1) != a.locks.lock(a.tasks.thread(2), key, 2) {
		t.Error("a file at two paths has two locks")
	}
}

type twoPaths struct{ remaps }

func (*twoPaths) SharedFile(tid int32, _ tracefs.Time, _ bool, addr uint64) (id, path string, offset uint64, ok bool) {
	return "0:1:1", "/mnt" + string(rune('0'+tid)) + "/A", addr & 0xfff, true
}
