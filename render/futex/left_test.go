package futex

import (
	"fmt"
	"testing"

	"ustack/tracefs"
)

// turning are the mappings of processes of two threads each, 1 and 2, 3 and 4. The first one
// maps another file, one of two, at each time.
type turning struct{}

func (turning) Process(tid int32) (int32, bool) { return tid - 1 + tid&1, true }

func (turning) SharedFile(tid int32, t tracefs.Time, _ bool, addr uint64) (id, path string, offset uint64, ok bool) {
	name := "A"
	if tid == 1 && t/askAgain%2 > 0 {
		name = "B"
	}
	return name, "/dev/shm/" + name, addr & 0xfff, true
}

// TestLeftLooksAtNoOthers: a process that maps another file where it has a lock costs the same
// whatever threads there are: those are not looked through, the process of this one is none.
func TestLeftLooksAtNoOthers(t *testing.T) {
	a := New(Options{Mappings: turning{}})
	one, key := a.tasks.thread(1), lockKey{0x1010, true}
	l := a.locks.lock(one, key, 0)
	a.tasks.threads.put(&thread{tid: 7})
	if a.locks.lock(one, key, askAgain) == l {
		t.Error("the lock is in the file that was mapped before")
	}
}

// took reports whether a thread is known to have a lock, which it took by a call that began at
// a time.
func took(th *thread, l *lock, began tracefs.Time) bool {
	th.takes(taken{lock: l, key: l.key, began: began, at: began})
	_, ok := th.dropLock(l)
	return ok
}

// TestLeft: a lock that a process has left is unknown of all its threads, of calls before then,
// and of no other process's.
func TestLeft(t *testing.T) {
	a := New(Options{Mappings: turning{}})
	one, two, three, key := a.tasks.thread(1), a.tasks.thread(2), a.tasks.thread(3), lockKey{0x1010, true}
	l := a.locks.lock(one, key, 0)
	if l != a.locks.lock(three, key, 0) {
		t.Fatal("a file has two locks")
	}
	own := a.locks.lock(two, lockKey{0x1010, false}, 1)
	if !took(two, l, 2) {
		t.Error("a lock that was not left is unknown")
	}
	m := a.locks.lock(one, key, askAgain)
	if took(one, l, 2) || took(two, l, 2) || !took(three, l, 2) || !took(two, own, 2) || !took(two, m, 2) {
		t.Error("it is known of a thread of the process, or not of another, or of another lock")
	}
	if a.locks.lock(one, key, 2*askAgain) != l || took(two, l, askAgain) || !took(two, l, 2*askAgain+1) || took(two, m, 2) {
		t.Error("a lock that was mapped again is not what it was")
	}
}

// TestLeftMany: of more locks than are kept, each may have been left.
func TestLeftMany(t *testing.T) {
	a := New(Options{Mappings: turning{}})
	one, two := a.tasks.thread(1), a.tasks.thread(2)
	var all []*lock
	for i := range maxLefts + 2 {
		all = append(all, a.locks.lock(one, lockKey{0x1000 + 0x10*uint64(i), true}, 0))
	}
	now := askAgain
	for i := range all {
		a.locks.lock(one, lockKey{0x1000 + 0x10*uint64(i), true}, now)
		now += 2 * askAgain
	}
	for i, l := range all {
		if took(two, l, 2) {
			t.Errorf("lock %d was left and is known", i)
		}
		if !took(two, l, now) {
			t.Errorf("lock %d was taken later and is unknown", i)
		}
	}
	if err := a.held.check(); err != nil {
		t.Error(err)
	}
	if a.tasks.forgetLocks(func(*lock) bool { return true }); len(one.proc.find().lefts.list) > 0 || took(two, all[0], 2) {
		t.Error("locks that are gone are kept, or are known")
	}
}

// TestLeftUnited: what was left is so of processes, and of locks, that prove to be one.
func TestLeftUnited(t *testing.T) {
	a := New(Options{Mappings: turning{}})
	one, three, key := a.tasks.thread(1), a.tasks.thread(3), lockKey{0x1010, true}
	l := a.locks.lock(one, key, 0)
	a.locks.lock(one, key, askAgain)
	a.tasks.unite(three.proc, one.proc)
	m := newLock()
	m.key, m.proc = key, three.proc.find()
	a.locks.unite(m, l)
	if root := l.find(); took(three, root, 2) || took(one, root, 2) || !took(three, root, askAgain+1) {
		t.Error("a lock that was left is known, or another is not")
	}
}

// BenchmarkLeft is what a process costs that maps another file where it has a lock each time
// that it is asked, 1,600 times a second, beside so many threads.
func BenchmarkLeft(b *testing.B) {
	for _, threads := range []int32{1, 1000, 10000, 100000} {
		b.Run(fmt.Sprint(threads), func(b *testing.B) {
			a := New(Options{Mappings: turning{}, Threads: int(threads)})
			for tid := range threads {
				a.tasks.thread(tid + 1)
			}
			th, t := a.tasks.thread(1), tracefs.Time(0)
			for b.Loop() {
				a.locks.lock(th, lockKey{0x1010, true}, t)
				t += askAgain
			}
		})
	}
}
