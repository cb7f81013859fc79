package futex

import (
	"testing"

	"ustack/tracefs"
)

// comesAndGoes has threads run for 1000, off and on for a while, and end. It returns when.
func comesAndGoes(a *activity, t tracefs.Time, first, n int32) tracefs.Time {
	const rounds = 50
	for tid := first; tid < first+n; tid++ {
		for range rounds {
			a.switched(0, 'R', tid, 0, noStack, t)
			a.switched(tid, 'D', 0, 0, noStack, t+1000)
			a.waking(tid, t+1500)
			t += 2000
		}
		a.switched(0, 'R', tid, 0, noStack, t)
		a.switched(tid, 'X', 0, 0, noStack, t+1000)
		t += 2000
	}
	return t
}

// ranUntil is how long a thread ran, as far as that is kept.
func ranUntil(a *activity, tid int32, to tracefs.Time) (sum tracefs.Time) {
	a.during(tid, 0, to, func(m *moment, _, d tracefs.Time) {
		if m.cause == causeRuns {
			sum += d
		}
	})
	return sum
}

// TestGoneThreads: what a thread did that has ended is kept while a wait lasts that began
// before, and no longer.
func TestGoneThreads(t *testing.T) {
	a := New(Options{})
	act := &a.activity
	begin := func(tid int32, at tracefs.Time) *wait {
		w := &wait{th: a.tasks.thread(tid), val: 2, began: at, counts: true}
		w.th.in, w.th.wait = true, w
		act.begins(w)
		return w
	}
	w := begin(1, 10)
	const many = 500 // of which what they did fits into maxMoments, with as many more
	at := comesAndGoes(act, 100, 10, many)
	for tid := int32(10); tid < 10+many; tid++ {
		if got := ranUntil(act, tid, at); got != 50*1000 { // what it did before its first switch is not trusted
			t.Fatalf("thread %d ran for %d while another waits, want 50000", tid, got)
		}
	}
	if room := roomOf(act); room > act.count+act.count/8 {
		t.Errorf("%d moments have room for %d", act.count, room)
	}
	w.th.in, w.th.wait = false, nil
	act.ended(w)
	begin(2, at) // waits for what comes
	at = comesAndGoes(act, at+100, 10+many, many)
	if err := act.check(); err != nil {
		t.Fatal(err)
	}
	if ranUntil(act, 9+2*many, at) != 50*1000 {
		t.Error("what the last thread did is gone, while another waits")
	}
	for tid := int32(10); tid < 10+many; tid++ {
		if n := len(act.lines[tid].list); n > 1 {
			t.Fatalf("thread %d has ended before all waits, and has %d moments", tid, n)
		}
	}
}

// roomOf is for how many moments there is memory.
func roomOf(a *activity) (n int) {
	for _, tl := range a.lines {
		n += cap(tl.list)
	}
	return n
}

// TestReusedNumber: what a thread does whose number was another one's stays.
func TestReusedNumber(t *testing.T) {
	a := New(Options{})
	act := &a.activity
	w := &wait{th: a.tasks.thread(1), val: 2, began: 10, counts: true}
	w.th.in, w.th.wait = true, w
	act.begins(w)
	at := comesAndGoes(act, 100, 10, 1)
	at = comesAndGoes(act, at, 10, 1)
	if got := ranUntil(act, 10, at); got != 101*1000 {
		t.Errorf("number 10 ran for %d, want 101000", got)
	}
	act.switched(0, 'R', 10, 0, noStack, at)
	comesAndGoes(act, at+100, 20, 2*someGone)
	if err := act.check(); err != nil || act.lines[10].ended || act.lines[10].gone {
		t.Errorf("number 10 is one of a thread that has ended: %v", err)
	}
}

// TestFoldedLocks: locks that have become others are kept by no process, and by no thread
// that has ended.
func TestFoldedLocks(t *testing.T) {
	a := New(Options{Locks: 16})
	one, two := a.tasks.thread(1), a.tasks.thread(2)
	for i := range uint64(15) {
		key := lockKey{0x1000 + 0x40*i, true}
		l := a.locks.lock(one, key, 1)
		a.locks.unite(l, a.locks.lock(two, key, 1))
		for k := range tracefs.Time(maxTaken) {
			one.takes(taken{lock: l, key: key, at: k})
		}
	}
	a.tasks.ended(one, 2)
	for i := range uint64(17) {
		a.locks.lock(two, lockKey{0x9000 + 0x40*i, false}, 3)
	}
	for _, th := range []*thread{one, two} {
		th.proc.find().locks.each(func(key lockKey, l *lock) {
			if a.locks.folded(l.find()) {
				t.Errorf("the process of thread %d has a lock at %#x that is another's part", th.tid, key.addr)
			}
		})
	}
	if len(one.took) != 0 || a.locks.others[0].parent != nil || !a.locks.evicted {
		t.Errorf("thread 1 has ended and took %d locks; folded: %v", len(one.took), a.locks.evicted)
	}
	if err := a.locks.check(); err != nil {
		t.Error(err)
	}
}
