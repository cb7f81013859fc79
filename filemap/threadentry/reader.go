// Package threadentry finds out which functions threads have begun with, for stacks
// that lack one. The C library keeps it in the memory of the thread, where it is
// read while the thread runs: nothing is stopped.
package threadentry

import (
	"time"

	"ustack/filemap/callsite"
	"ustack/filemap/space"
	"ustack/tracefs"
)

// machine answers questions about threads.
type machine interface {
	// now is the time of the trace.
	now() tracefs.Time
	// list returns the address of a thread's robust list, as it was registered with the
	// kernel.
	list(tid int) (head uint64, err error)
	// memory reads memory of a thread into two places.
	memory(tid int, a uint64, toA []byte, b uint64, toB []byte) error
	// began is when the thread began that has a number now: not before earliest,
	// and it has had the number at latest.
	began(tid int) (earliest, latest tracefs.Time, err error)
}

// Reader reads with which functions threads began. It is for one goroutine.
type Reader struct {
	machine
	lives   Lives // nil if unknown
	threads map[int]*thread
	budget  budget
}

// Lives has the reports of the kernel on when threads began and ended.
type Lives interface {
	// Life is when the thread began that had a number at a time, and when it ended,
	// space.Forever if it has not; ok is false if it is not known for sure, and of
	// threads that may have executed another program since.
	Life(tid int, t tracefs.Time) (born, ended tracefs.Time, ok bool)
	// Settle lets them know all that has happened by now.
	Settle() error
}

// thread is the last thread that was read with a number.
type thread struct {
	site callsite.Start
	addr uint64 // of the function
	// From from to to the thread that began with the function had the number, and
	// all its life if its birth was reported.
	from, to, born tracefs.Time
	looked         tracefs.Time // when it was last tried to find out
}

// maxThreads bounds the threads that are kept.
const maxThreads = 1 << 14

// stamp is how exact the times of stacks are.
const stamp = tracefs.Time(time.Microsecond)

// Start returns the address of the function with which the thread began that
// had a number at a time; site is the call of it on the thread's stack. ok is
// false if the thread has ended, or nothing proves which function it is.
//
// It is that very thread: the one that is read began before, and still has the
// number. So what was read holds for all stacks until then, or for all of its life
// if that was reported: it is not read for each.
func (r *Reader) Start(tid int, t tracefs.Time, site *callsite.Start) (addr uint64, ok bool) {
	th := r.threads[tid]
	if th == nil {
		if r.threads == nil || len(r.threads) >= maxThreads {
			r.threads = make(map[int]*thread)
		}
		th = new(thread)
		r.threads[tid] = th
	}
	if t+stamp > th.looked && !r.lived(tid, th, t) {
		r.look(tid, t, site, th)
	}
	known := t-stamp >= th.from && t+stamp <= th.to || r.lived(tid, th, t)
	return th.addr, known && th.addr != 0 && th.site == *site
}

// lived reports whether the thread had the number at a time, by the reports of its
// life.
func (r *Reader) lived(tid int, th *thread, t tracefs.Time) bool {
	if th.born == 0 {
		return false
	}
	born, ended, ok := r.lives.Life(tid, t)
	return ok && born == th.born && t-stamp >= born && t+stamp < ended
}

// look reads the thread as it is now.
func (r *Reader) look(tid int, t tracefs.Time, site *callsite.Start, th *thread) {
	now := r.now()
	if !r.budget.take(now) {
		return
	}
	th.looked = now
	addr, ok := r.read(tid, site)
	if !ok {
		return // what was so before was so
	}
	earliest, from, err := r.began(tid)
	if err != nil {
		return
	}
	same := th.addr == addr && th.site == *site
	if from <= now && from <= th.to {
		if same {
			th.to = now
			return
		}
		// The same thread, but not the same program.
		*th = thread{site: *site, addr: addr, from: now, to: now, looked: now}
		return
	}
	born := r.bornAt(tid, now)
	if born < earliest || born > from {
		born = 0
	}
	if born == 0 && from > now {
		return // it may have begun since
	}
	*th = thread{site: *site, addr: addr, born: born, from: from, to: now, looked: now}
}

// bornAt returns when the thread began that has had a number since a time, and
// still has it; 0 if that was not reported.
func (r *Reader) bornAt(tid int, now tracefs.Time) tracefs.Time {
	if r.lives == nil || r.lives.Settle() != nil {
		return 0
	}
	born, ended, ok := r.lives.Life(tid, now)
	if !ok || ended != space.Forever {
		return 0
	}
	return born
}

// read reads with which function the thread began that has a number now.
func (r *Reader) read(tid int, site *callsite.Start) (addr uint64, ok bool) {
	head, err := r.list(tid)
	if err != nil || head == 0 {
		return 0, false
	}
	self := head - uint64(site.Head)
	var block [24]byte
	var pointer [8]byte
	if r.memory(tid, self, block[:], self+uint64(site.Pointer), pointer[:]) != nil {
		return 0, false
	}
	// A thread that ends takes its list back before it gives its memory away
	// (mm_release in kernel/fork.c).
	again, err := r.list(tid)
	if err != nil || again != head || !isThread(block[:], self) {
		return 0, false
	}
	addr = word(pointer[:])
	return addr, addr != 0
}

// isThread reports whether what is at an address is the beginning of a thread of
// glibc's on x86-64: tcbhead_t of sysdeps/x86_64/nptl/tls.h, with tcb and self.
func isThread(b []byte, at uint64) bool { return word(b) == at && word(b[16:]) == at }

// budget bounds how often threads are asked: mostly each needs it once for all
// stacks of a moment, but there may be very many.
type budget struct {
	left int
	at   tracefs.Time
}

const (
	mostAtOnce = 1000
	each       = tracefs.Time(500 * time.Microsecond)
)

// take takes one, if there is one.
func (b *budget) take(now tracefs.Time) bool {
	if n := (now - b.at) / each; n > 0 {
		b.left = int(min(tracefs.Time(b.left)+n, mostAtOnce))
		b.at = now
	}
	if b.left == 0 {
		return false
	}
	b.left--
	return true
}
