// Mirror takes locks by a schedule, as mirror.c does, and writes Go's own profile of them
// to the file that its argument names.
//
// Each line of standard input is a use of a lock: the number of its thread, when that comes
// for the lock, until when the lock is held (both in microseconds since the start), the
// number of the lock, and the number of the function that releases it. Whichever thread has
// the lock for the n-th time holds it as the n-th line of the lock says, so that it does not
// matter who is first. Times are absolute: what comes late once makes nothing else late.
//
// A line of the output is a use as it was: thread, lock, function, and in nanoseconds since
// the start when the thread wanted the lock, got it, was about to release it and had
// released it.
package main

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"runtime/pprof"
	"sync"
	"time"
)

// use is a use of a lock.
type use struct {
	thread, start, until, lock, site int
	want, got, let, done             time.Duration
}

const (
	maxLocks = 16
	lead     = 50 * time.Millisecond // until the schedule begins
)

// run is the locks, what is done with each, how often each was used, and the beginning of
// the schedule.
type run struct {
	locks [maxLocks]sync.Mutex
	holds [maxLocks][]*use
	used  [maxLocks]int
	zero  time.Time
}

func (r *run) sleepUntil(us int) {
	time.Sleep(time.Until(r.zero.Add(time.Duration(us) * time.Microsecond)))
}

// take takes a lock when it is time, and returns how it is to be held.
func (r *run) take(u *use) *use {
	r.sleepUntil(u.start)
	want := time.Since(r.zero)
	r.locks[u.lock].Lock()
	h := r.holds[u.lock][r.used[u.lock]]
	r.used[u.lock]++
	h.thread, h.want, h.got = u.thread, want, time.Since(r.zero)
	return h
}

// hold holds a lock and releases it.
//
//go:noinline
func (r *run) hold(h *use) {
	r.sleepUntil(h.until)
	h.let = time.Since(r.zero)
	r.locks[h.lock].Unlock()
	h.done = time.Since(r.zero)
}

// The functions do the same. Their names tell them apart in a stack.

//go:noinline
func site0(r *run, h *use) { r.hold(h) }

//go:noinline
func site1(r *run, h *use) { r.hold(h) }

//go:noinline
func site2(r *run, h *use) { r.hold(h) }

//go:noinline
func site3(r *run, h *use) { r.hold(h) }

//go:noinline
func site4(r *run, h *use) { r.hold(h) }

func main() {
	runtime.SetMutexProfileFraction(1)
	sites := [...]func(*run, *use){site0, site1, site2, site3, site4}
	threads := make(map[int][]use)
	r := new(run)
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		u := new(use)
		if _, err := fmt.Sscan(in.Text(), &u.thread, &u.start, &u.until, &u.lock, &u.site); err != nil {
			fail(err)
		}
		threads[u.thread] = append(threads[u.thread], *u)
		r.holds[u.lock] = append(r.holds[u.lock], u)
	}
	r.zero = time.Now().Add(lead)
	var all sync.WaitGroup
	for _, uses := range threads {
		all.Go(func() {
			for i := range uses {
				h := r.take(&uses[i])
				sites[h.site](r, h)
			}
		})
	}
	all.Wait()
	for _, holds := range r.holds {
		for _, u := range holds {
			fmt.Println(u.thread, u.lock, u.site, u.want.Nanoseconds(), u.got.Nanoseconds(), u.let.Nanoseconds(), u.done.Nanoseconds())
		}
	}
	file, err := os.Create(os.Args[1])
	if err != nil {
		fail(err)
	}
	if err := pprof.Lookup("mutex").WriteTo(file, 0); err != nil {
		fail(err)
	}
	if err := file.Close(); err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
