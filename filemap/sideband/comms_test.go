package sideband

import (
	"fmt"
	"os"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"ustack/filemap/procmap"
	"ustack/filemap/space"
	"ustack/tracefs"
	"ustack/tracefs/perf/perftest"
)

// emptyProc reads processes where there are none.
func emptyProc(t *testing.T) *procmap.Reader {
	t.Helper()
	r, err := procmap.NewReader(procmap.Options{Stat: true})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestComms: the name of a thread at a time is the recorded one, and nothing else.
func TestComms(t *testing.T) {
	ring := fakeRing(0, 1<<14)
	b := fakeBand(ring)
	r := emptyProc(t)
	now := uint64(b.Now())
	at := func(ago int) uint64 { return now - uint64(ago)*1000 }
	const first, second, third, fourth = 1 << 29, 1<<29 + 1, 1<<29 + 2, 1<<29 + 3 // no threads of this machine
	ring.write(
		rawComm(first, first, 0, "one", at(90), 0),
		rawTask(unix.PERF_RECORD_FORK, second, first, second, first, at(80), 0),
		rawTask(unix.PERF_RECORD_FORK, second, second, third, second, at(70), 0),
		rawComm(first, first, 0, "two", at(60), 0),
		rawComm(second, third, 0, "", at(50), 0),
		rawComm(second, second, unix.PERF_RECORD_MISC_COMM_EXEC, "executed", at(40), 0),
		rawTask(unix.PERF_RECORD_FORK, first, 1, first, 1<<29+9, at(30), 0), // another one of that number, made by an unknown thread
	)
	for _, test := range []struct {
		tid, ago, until int
		comm            string
		known           bool
	}{
		{first, 95, 90, "", false}, {first, 90, 60, "one", true}, {first, 61, 60, "one", true}, {first, 60, 30, "two", true},
		{first, 20, -1, "", false},
		{second, 81, 80, "", false}, {second, 80, 40, "one", true}, {second, 50, 40, "one", true}, {second, 40, -1, "executed", true},
		{third, 70, 50, "one", true}, {third, 50, -1, "", true},
		{1<<29 + 5, 10, -1, "", false},
	} {
		comm, until, ok := b.Comm(r, test.tid, tracefs.Time(at(test.ago)))
		if comm != test.comm || ok != test.known || test.until >= 0 && uint64(until) != at(test.until) || test.until < 0 && until != b.drained+1 {
			t.Errorf("%d %d µs ago is %q until %d µs ago (%v), want %+v", test.tid, test.ago, comm, (now-uint64(until))/1000, ok, test)
		}
	}
	b.comms.expire(tracefs.Time(at(45)), func(tid int) bool { return tid != third })
	for tid, want := range map[int]int{first: 2, second: 2, third: 0} {
		if n := len(b.comms.byTID[tid]); n != want {
			t.Errorf("%d names of %d are left, want %d", n, tid, want)
		}
	}
	if comm, _, ok := b.Comm(r, second, tracefs.Time(at(44))); comm != "one" || !ok {
		t.Errorf("after forgetting what was before: %q, %v", comm, ok)
	}
	// What is lost may have been another name, also of a thread of which the same
	// batch has an older one.
	ring.write(rawComm(fourth, fourth, 0, "older", at(8), 0), raw(unix.PERF_RECORD_LOST, 0, at(5), 0, perftest.U64(1, 7)))
	if _, err := b.Drain(); err != nil {
		t.Fatal(err)
	}
	for tid, ago := range map[int]int{second: 10, fourth: 3} {
		if comm, _, ok := b.Comm(r, tid, tracefs.Time(at(ago))); ok {
			t.Errorf("after a loss %d is %q", tid, comm)
		}
	}
}

// TestCommAsked: the name of a thread that was there before is read once, and holds
// from the beginning if there is no record of another one.
func TestCommAsked(t *testing.T) {
	ring := fakeRing(0, 1<<14)
	b := fakeBand(ring)
	r := emptyProc(t)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	tid := unix.Gettid()
	rename(t, "asked")
	start := b.Now()
	for range 2 {
		if comm, _, ok := b.Comm(r, tid, start); comm != "asked" || !ok {
			t.Errorf("%q, %v", comm, ok)
		}
		rename(t, "later") // which the fake ring does not have
	}
	now := uint64(b.Now())
	other := make(chan int)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		rename(t, "another")
		other <- unix.Gettid()
		<-other
	}()
	child := <-other
	ring.write(rawTask(unix.PERF_RECORD_FORK, os.Getpid(), os.Getpid(), child, tid, now, 0))
	if comm, _, ok := b.Comm(r, child, tracefs.Time(now)); comm != "another" || !ok {
		t.Errorf("a thread that was made since: %q, %v", comm, ok)
	}
	if comm, _, ok := b.Comm(r, child, tracefs.Time(now-1)); ok {
		t.Errorf("before it was made it was %q", comm)
	}
	other <- 0
}

// rename gives this thread a name.
func rename(t *testing.T, comm string) {
	if err := os.WriteFile(fmt.Sprintf("/proc/self/task/%d/comm", unix.Gettid()), []byte(comm), 0); err != nil {
		t.Error(err)
	}
}

// TestLiveComms: what threads call themselves is known as of each time, of those
// that were there before, too.
func TestLiveComms(t *testing.T) {
	type when struct {
		tid      int
		comm     string
		from, to tracefs.Time
	}
	var all []when
	r := emptyProc(t)
	done := make(chan []when)
	there, begin := make(chan struct{}), make(chan struct{})
	thread := func(first string) {
		runtime.LockOSThread() // and never unlocks it: the thread ends
		var said []when
		tid := unix.Gettid()
		rename(t, first)
		there <- struct{}{}
		<-begin
		for i := range 20 {
			comm := fmt.Sprintf("%s %d", first, i)
			rename(t, comm)
			from := space.Monotonic()
			said = append(said, when{tid, comm, from, 0})
			said[i].to = space.Monotonic()
		}
		done <- said
	}
	go thread("before")
	<-there
	b, _ := openBand(t, Options{})
	opened := b.Now()
	go thread("after")
	<-there
	close(begin)
	for range 2 {
		said := <-done
		if said[0].comm == "before 0" {
			all = append(all, when{said[0].tid, "", opened, opened}) // it was changed before it could be asked
		}
		all = append(all, said...)
	}
	for _, w := range all {
		for _, at := range []tracefs.Time{w.from, w.to} {
			if comm, until, ok := b.Comm(r, w.tid, at); comm != w.comm || ok != (w.comm != "") || until <= at {
				t.Errorf("%d at %d was %q until %d (%v), want %q", w.tid, at, comm, until, ok, w.comm)
			}
		}
	}
}
