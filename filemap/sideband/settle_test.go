package sideband

import (
	"errors"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ustack/filemap/procmap"
	"ustack/filemap/threadcall"
	"ustack/tracefs/perf"
)

// running are threads that run all the time: one is known to be outside of calls when it is
// found for the second time.
type running struct {
	looked map[int]int
	held   bool // they are in a call until this is unset
}

func (r *running) find(_, tid int) threadcall.Place {
	if r.looked[tid]++; r.held || r.looked[tid] < 2 {
		return threadcall.Inside
	}
	return threadcall.Elsewhere
}

// unsettledHelper is a process of several threads that was read after a loss, when none of
// them was known to be outside of calls.
func unsettledHelper(t *testing.T) (*Band, *procmap.Reader, *running, int) {
	t.Helper()
	h := startHelper(t, "thread")
	pid := h.cmd.Process.Pid
	b, r := openBand(t, Options{})
	if tids, err := r.Threads(pid); err != nil || len(tids) < 5 {
		t.Fatalf("%d threads, %v", len(tids), err)
	}
	threads := &running{looked: make(map[int]int)}
	b.underWay.find = threads.find
	b.gap(0, 1, b.Now(), b.Now())
	if err := b.Read(r, pid, 0); err != nil {
		t.Fatal(err)
	}
	wantSettled(t, b, pid, false)
	return b, r, threads, pid
}

// wantSettled compares whether the code of a process is known.
func wantSettled(t *testing.T, b *Band, pid int, want bool) {
	t.Helper()
	v := b.History.Spaces.Space(pid).At(b.Now())
	if v == nil {
		t.Fatal("the process is unknown")
	}
	if n := v.Mappings.Len(); n > 0 != want || v.Knows(page) != want {
		t.Errorf("%d mappings, all are known: %v", n, v.Knows(page))
	}
}

// TestThreadsAtOnce: the threads of a process are looked at together, so that many that run
// take no longer than one.
func TestThreadsAtOnce(t *testing.T) {
	b, r, threads, pid := unsettledHelper(t)
	if newSettler(b, r).open(pid) {
		t.Errorf("of %d threads, not all are outside when they were looked at twice", len(threads.looked))
	}
}

// TestDrainSettles: a process that Refresh did not wait for is known without a question for
// it, once its threads have been outside.
func TestDrainSettles(t *testing.T) {
	b, _, threads, pid := unsettledHelper(t)
	threads.held = true
	if _, err := b.Drain(); err != nil {
		t.Fatal(err)
	}
	if wantSettled(t, b, pid, false); b.underWay.look.IsZero() {
		// Without a Reader, which Refresh keeps, it could not.
		t.Error("its threads were not looked at")
	}
	threads.held, b.underWay.look = false, time.Time{}
	if _, err := b.Drain(); err != nil {
		t.Fatal(err)
	}
	wantSettled(t, b, pid, true)
}

// TestReadUnderWay: a question for a process that may be in an unseen call does not read it,
// and what it has mapped meanwhile counts as little as what it had.
func TestReadUnderWay(t *testing.T) {
	b, r, threads, pid := unsettledHelper(t)
	threads.held = true
	if err := b.Read(r, pid, 0); !errors.Is(err, ErrUnderWay) {
		t.Errorf("reading it: %v", err)
	}
	const at = 0x10000
	rec := perf.Record{Type: unix.PERF_RECORD_MMAP2, PID: pid, TID: pid, Time: b.Now(), Addr: at, Len: page,
		Prot: unix.PROT_READ | unix.PROT_EXEC, Name: []byte("/lib/code.so")}
	b.record(&rec)
	if v := b.History.Spaces.Space(pid).At(b.Now()); v.Find(at) != nil || v.Knows(at) {
		t.Error("what it has just mapped is known")
	}
	threads.held = false
	if err := b.Read(r, pid, 0); err != nil {
		t.Error(err)
	}
	wantSettled(t, b, pid, true)
}
