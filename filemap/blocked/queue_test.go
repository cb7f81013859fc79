package blocked

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ustack/tracefs"
	"ustack/tracefs/perf"
)

func monotonic() tracefs.Time { return perf.Now(unix.CLOCK_MONOTONIC) }

// await returns the result of an Ask.
func await(t *testing.T, a *Ask) (*Stack, error) {
	t.Helper()
	for from := time.Now(); time.Since(from) < 20*time.Second; time.Sleep(50 * time.Microsecond) {
		if s, done, err := a.Result(); done {
			return s, err
		}
	}
	t.Fatal("no result")
	return nil, nil
}

// TestQueueReads: a stack is read when it is due and not before, again if the thread ran,
// and not if it is not wanted any more.
func TestQueueReads(t *testing.T) {
	var running atomic.Int32
	seen := make(chan int, 100)
	q := NewQueue(QueueOptions{Now: monotonic, Read: func(tid, size int) (*Stack, error) {
		seen <- tid
		if tid == 2 && running.Add(-1) >= 0 {
			return nil, ErrRunning
		}
		return &Stack{TID: tid, From: monotonic(), Memory: make([]byte, size)}, nil
	}})
	defer q.Close()
	due := monotonic() + 20e6
	first := q.Ask(1, due)
	q.Ask(9, due).Cancel()
	running.Store(tries - 1)
	second := q.Ask(2, due)
	if s, err := await(t, first); err != nil || s.TID != 1 || s.From < due || len(s.Memory) != firstSize {
		t.Errorf("got %+v, %v", s, err)
	}
	if s, err := await(t, second); err != nil || s.TID != 2 {
		t.Errorf("a thread that ran for a while: %+v, %v", s, err)
	}
	running.Store(tries)
	if _, err := await(t, q.Ask(2, due)); !errors.Is(err, ErrRunning) {
		t.Errorf("a thread that runs: %v", err)
	}
	for range len(seen) {
		if tid := <-seen; tid == 9 {
			t.Error("what was not wanted any more was read")
		}
	}
	q.Grow(firstSize)
	q.Grow(firstSize) // by a stack that was read before
	if s, err := await(t, q.Ask(1, due)); err != nil || len(s.Memory) != 2*firstSize {
		t.Errorf("got %+v, %v", s, err)
	}
}

// TestQueueBounds: so many threads are looked at, and so much is read, and no more.
func TestQueueBounds(t *testing.T) {
	var reads, bytes int
	q := &Queue{opt: QueueOptions{Now: monotonic}, reads: maxReads / burst, bytes: maxBytes / burst, filled: 1}
	const seconds, each = 5, 50 // as many looks a millisecond
	for ms := range tracefs.Time(seconds * 1000) {
		for range each {
			if q.may(1+ms*1e6, firstSize) {
				reads++
			}
		}
	}
	if most := maxReads*seconds + maxReads/burst; reads > most || reads < most*9/10 {
		t.Errorf("%d stacks in %d s, where %d may be read", reads, seconds, most)
	}
	q.filled, q.bytes = 1, 0
	for ms := range tracefs.Time(seconds * 1000) {
		for range each {
			if q.may(1+ms*1e6, mostSize) {
				bytes += mostSize
			}
		}
	}
	if most := maxBytes*seconds + maxBytes/burst; bytes > most || bytes < most*9/10 {
		t.Errorf("%d bytes in %d s, where %d may be read", bytes, seconds, most)
	}
	hangs := make(chan bool)
	full := NewQueue(QueueOptions{Now: monotonic, Read: func(int, int) (*Stack, error) {
		<-hangs
		return nil, ErrEnded
	}})
	defer full.Close()
	defer close(hangs)
	var last *Ask
	for range maxAsks + 2 { // one may be at hand
		last = full.Ask(1, 1)
	}
	if _, err := await(t, last); !errors.Is(err, ErrBusy) {
		t.Errorf("more than %d asks: %v", maxAsks, err)
	}
}
