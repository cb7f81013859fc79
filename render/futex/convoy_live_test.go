//go:build linux

package futex_test

import (
	"cmp"
	"slices"
	"testing"

	"ustack/render/futex"
)

// between returns a lock's records of some kinds in a workload's log that overlap a time, by
// their beginning.
func between(truth []record, addr uint64, from, to int64, kinds ...string) (list []record) {
	for i := range truth {
		if x := &truth[i]; x.addr == addr && slices.Contains(kinds, x.kind) && x.to >= from && x.from <= to {
			list = append(list, *x)
		}
	}
	slices.SortFunc(list, func(x, y record) int { return cmp.Compare(x.from, y.from) })
	return list
}

// checkLogConvoys: all the time of a convoy threads wait by the log, and the threads hold the
// lock as often as it is handed over.
func checkLogConvoys(t *testing.T, truth []record, rep *futex.Report) {
	t.Helper()
	const clock = 2000 // the text of a trace has microseconds
	for _, l := range rep.Locks {
		c := l.Convoys
		if c == nil {
			continue
		}
		from, to := int64(c.Longest.From), int64(c.Longest.To)
		t.Logf("%#x, convoys: %+v", l.Address, c)
		waits, at := between(truth, l.Address, from, to, "wait", "lock"), from+clock
		if len(waits) == 0 {
			continue // a lock of the C library
		}
		for _, w := range waits {
			if w.from > at {
				t.Errorf("from %d no thread waits until %d", at, w.from)
			}
			at = max(at, w.to)
		}
		if at < to-clock {
			t.Errorf("from %d no thread waits until %d", at, to)
		}
		holds, held := int64(0), int64(0)
		for _, h := range between(truth, l.Address, from, to, "hold") {
			if released(truth, &h) >= from-clock && h.to <= to+clock {
				holds++
				held += h.to - max(h.from, from)
			}
		}
		if holds < c.Longest.HandOvers || c.Count == 1 && held > 500_000*holds {
			t.Errorf("%d holds for %d ns in all by the log", holds, held)
		}
	}
}

// released returns when a thread had released a lock at the latest: its log has the end of a hold
// before the call that does so, and that by itself.
func released(truth []record, h *record) int64 {
	var next *record
	for i := range truth {
		if x := &truth[i]; (x.kind == "free" || x.kind == "hold") && x.tid == h.tid && x.addr == h.addr && x.from >= h.to && (next == nil || x.from < next.from) {
			next = x
		}
	}
	if next == nil || next.kind == "hold" {
		return h.to // the log does not have the call
	}
	return next.to
}

// checkLogInversions: the threads of inversions are those which the log has for them, and
// these are not missed. The log has when the third one ran.
func checkLogInversions(t *testing.T, truth []record, rep *futex.Report) {
	t.Helper()
	ran := make(map[int32]bool)
	for i := range truth {
		if truth[i].kind == "ran" {
			ran[truth[i].tid] = true
		}
	}
	var found int64
	for _, x := range rep.Inversions {
		t.Logf("inversion: %+v, middle %+v, owner %+v, %d us in %d waits", x.Waiter, x.Middle, x.Owner, x.Time/1000, x.Waits)
		if x.Waiter.Prio != 99-10 || x.Owner.Prio < 100 || x.Middle.Prio <= x.Waiter.Prio || x.Middle.Prio >= 100 {
			t.Errorf("%+v", x)
		}
		if ran[x.Middle.TID] {
			found += x.Waits
		} else if x.Middle.Prio == 99-5 {
			t.Errorf("thread %d did not run in between by the log: %+v", x.Middle.TID, x)
		}
	}
	if n := invertedIn(truth); found == 0 && n >= 5 {
		t.Errorf("no inversion, by the log %d", n)
	}
}

// invertedIn is how often a thread waited by a log while another one held the lock and a third
// one ran, for half a millisecond at least.
func invertedIn(truth []record) (n int) {
	for i := range truth {
		ran := &truth[i]
		if ran.kind != "ran" {
			continue
		}
		for j := range truth {
			w := &truth[j]
			if w.kind != "wait" || w.result != 0 {
				continue
			}
			for k := range truth {
				if h := &truth[k]; h.kind == "hold" && h.addr == w.addr && h.tid != w.tid && min(w.to, h.to, ran.to)-max(w.from, h.from, ran.from) > 500_000 {
					n++
				}
			}
		}
	}
	return n
}
