package sideband

import (
	"testing"

	"golang.org/x/sys/unix"

	"ustack/tracefs"
	"ustack/tracefs/perf"
)

// TestFlightRace: what a thread puts where another one takes something away is unknown while
// that call goes on, and after it; what it puts elsewhere, or before, or after, is known.
func TestFlightRace(t *testing.T) {
	fixed := []uint64{codeAt + 8*page, codeSize, codeSize, unix.MREMAP_MAYMOVE | unix.MREMAP_FIXED, codeAt}
	for name, c := range map[string]struct {
		do    func(s *steps)
		known bool
	}{
		"while another thread unmaps": {func(s *steps) {
			s.calls(unmapping, parent, other, codeAt, codeSize)
			s.code(parent, parent, codeAt)
		}, false},
		"and that has returned since": {func(s *steps) {
			s.calls(unmapping, parent, other, codeAt, codeSize)
			s.code(parent, parent, codeAt)
			s.calls(unmapReturned, parent, other, 0)
		}, false},
		"or has failed": {func(s *steps) {
			s.calls(unmapping, parent, other, codeAt, codeSize)
			s.code(parent, parent, codeAt)
			s.calls(unmapReturned, parent, other, ^uint64(unix.ENOMEM)+1)
		}, false},
		"when that had returned": {func(s *steps) {
			s.calls(unmapping, parent, other, codeAt, codeSize)
			s.calls(unmapReturned, parent, other, 0)
			s.code(parent, parent, codeAt)
		}, true},
		"when that had called something else": {func(s *steps) {
			s.calls(unmapping, parent, other, codeAt, codeSize)
			s.calls(unmapping, parent, other, codeAt+8*page, codeSize)
			s.code(parent, parent, codeAt)
		}, true},
		"while it unmaps something beside": {func(s *steps) {
			s.calls(unmapping, parent, other, codeAt-codeSize, codeSize)
			s.code(parent, parent, codeAt)
		}, true},
		"by the thread that unmaps": {func(s *steps) {
			s.calls(unmapping, parent, other, codeAt, codeSize)
			s.code(parent, other, codeAt)
		}, true},
		"while another process unmaps": {func(s *steps) {
			s.fork(heir, parent)
			s.calls(unmapping, heir, heir, codeAt, codeSize)
			s.code(parent, parent, codeAt)
		}, true},
		"while one that shares the memory does": {func(s *steps) {
			s.share(sharer, parent)
			s.calls(unmapping, sharer, sharer, codeAt, codeSize)
			s.code(parent, parent, codeAt)
		}, false},
		"while another thread maps data": {func(s *steps) {
			s.calls(mapOver, parent, other, codeAt, codeSize, unix.MAP_FIXED|unix.MAP_ANONYMOUS)
			s.code(parent, parent, codeAt)
		}, false},
		"while the heap shrinks": {func(s *steps) {
			s.calls(heapEnd, parent, parent, codeAt+codeSize)
			s.calls(heapEnd, parent, other, codeAt)
			s.code(parent, parent, codeAt)
		}, false},
		"by mremap": {func(s *steps) {
			s.code(parent, parent, codeAt+8*page)
			s.calls(moving, parent, parent, fixed...)
			s.calls(moved, parent, parent, codeAt)
		}, true},
		"by mremap while another thread unmaps": {func(s *steps) {
			s.code(parent, parent, codeAt+8*page)
			s.calls(unmapping, parent, other, codeAt, codeSize)
			s.calls(moving, parent, parent, fixed...)
			s.calls(unmapReturned, parent, other, 0)
			s.calls(moved, parent, parent, codeAt)
		}, false},
		"while another thread moves something there": {func(s *steps) {
			s.code(parent, parent, codeAt+8*page)
			s.calls(moving, parent, other, fixed...)
			s.code(parent, parent, codeAt)
			s.calls(moved, parent, other, codeAt)
		}, false},
	} {
		b, s := newSteps()
		b.calls.heaps.began(parent)
		c.do(s)
		if d, err := b.Drain(); err != nil || d.Malformed+int(d.Lost+d.Unseen) > 0 {
			t.Fatalf("%s: %+v, %v", name, d, err)
		}
		now := tracefs.Time(s.t + 1)
		p, ok := b.History.Lookup(parent, codeAt+0x10, now)
		if ok != c.known || p.Late {
			t.Errorf("%s: it is known %v, %+v, want %v", name, ok, p, c.known)
		}
		if v := b.History.Spaces.Space(parent).At(now); !ok && v.Knows(codeAt+0x10) {
			t.Errorf("%s: it is known not to be there", name)
		}
	}
}

// TestFlightsForgotten: when calls are forgotten, what they race with is unsure.
func TestFlightsForgotten(t *testing.T) {
	for _, n := range []int{maxFlights, maxFlights + 1} {
		b, s := newSteps()
		s.code(parent, parent, codeAt)
		for i := range n {
			s.calls(unmapping, parent, 1000+i, codeAt+8*page, page)
		}
		d, err := b.Drain()
		if err != nil || d.Unsure != (n > maxFlights) {
			t.Errorf("%d calls: unsure %v, %v", n, d.Unsure, err)
		}
	}
}

// TestFlightDuringReading: a call that began before a process was read, and returned while it
// was, has taken something away from what was found.
func TestFlightDuringReading(t *testing.T) {
	b, s := newSteps()
	s.code(parent, parent, codeAt)
	s.calls(unmapping, parent, other, codeAt, codeSize)
	drain(t, b)
	b.watch = watch{pid: parent, since: tracefs.Time(s.t + 1)}
	b.record(&perf.Record{Type: unix.PERF_RECORD_SAMPLE, PID: parent, TID: other, Time: tracefs.Time(s.t + 2)})
	if want := (taken{codeAt, codeAt + codeSize}); len(b.watch.taken) != 1 || b.watch.taken[0] != want {
		t.Errorf("it has taken %+v, want %+v", b.watch.taken, want)
	}
}
