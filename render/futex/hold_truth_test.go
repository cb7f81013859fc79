//go:build linux

package futex_test

import (
	"testing"

	"ustack/render/futex"
	"ustack/tracefs"
)

// logged is how long a thread held a lock by its own log: at least from when it had it until
// it was about to release it, at most from when it had not until it had released it.
// back is how long before that it was back from its last wait, by its own clock.
type logged struct{ low, high, back tracefs.Time }

// holdIn returns what the log says of a hold of the report. ok is false if the log has no
// such hold: the C library has locks of its own.
func holdIn(truth []record, h *futex.Hold) (l logged, ok bool) {
	const clock = 2000 // the text of a trace has microseconds
	var in, free *record
	for i := range truth {
		x := &truth[i]
		if x.tid != h.TID || x.addr != h.Lock.Address {
			continue
		}
		switch {
		case x.kind == "free" && x.from <= int64(h.To)+clock && x.to >= int64(h.To)-clock:
			free = x
		case x.to > int64(h.To)+clock:
		case x.kind == "hold" && (in == nil || x.to > in.to):
			in = x
		}
	}
	if in == nil || free == nil {
		return l, false
	}
	begin, back := int64(0), int64(0)
	for i := range truth {
		x := &truth[i]
		if x.tid != h.TID || x.addr != h.Lock.Address || x.kind == "hold" || x == free {
			continue
		}
		if x.to > in.from {
			continue
		}
		if back = max(back, x.to); x.kind == "free" {
			begin = max(begin, x.to)
		} else { // it may have been back long before it looked at the clock
			begin = max(begin, x.from)
		}
	}
	return logged{tracefs.Time(in.to - in.from), tracefs.Time(free.to - begin), tracefs.Time(free.to - back)}, true
}

// shapes are programs that do different things with a lock.
var shapes = []string{"herd", "owner", "owner-busy", "mutex", "pi", "shape-convoy", "shape-turns", "shape-rests", "shape-stores", "shape-deep",
	"shape-crowded", "shape-barging", "shape-pool", "shape-first", "shape-fair", "shape-inverts"}

// TestShapes compares how long threads held locks with what they say themselves: the bounds
// hold of each, and where both have a number, it is the same within 3 % and 200 us of most.
// Not of all: a hypervisor may take the CPU between the return of a wait and the instruction
// that takes the lock, which no trace shows.
func TestShapes(t *testing.T) {
	const clock, ends = 2000, 40_000 // where it took the lock and released it, up to 20 us each
	for _, mode := range shapes {
		t.Run(mode, func(t *testing.T) {
			r := traced(t, setup{mode: mode, sched: true, tgid: true, raw: true})
			rep := analyse(t, futex.Options{}, r.trace).Report(futex.View{})
			if rep.Loss.Any() {
				t.Skipf("records were lost: %+v", rep.Loss)
			}
			checkLogConvoys(t, r.truth, rep)
			checkLogInversions(t, r.truth, rep)
			var known, exact, near, apart int
			for _, h := range rep.LongHolds {
				want, ok := holdIn(r.truth, h)
				if !ok {
					continue
				}
				known++
				late := tracefs.Time(clock)
				if h.Exact {
					late += ends
				}
				if h.Low > want.high+late || h.High >= 0 && h.High < want.low-clock {
					t.Errorf("thread %d held %#x until %d for %d to %d, exact %v; by its log for %d to %d", h.TID, h.Lock.Address, h.To, h.Low, h.High, h.Exact, want.low, want.high)
				}
				slack := want.low*3/100 + 200_000
				if h.Exact {
					exact++
				}
				switch {
				case !h.Exact || want.back-want.low > slack:
				case max(h.Low-want.low, want.low-h.Low) <= slack:
					near++
				default:
					apart++
				}
			}
			t.Logf("%d of the %d longest holds are in the log; of %d the length is known: %d within 3 %% and 200 us of a number in the log, %d not", known, len(rep.LongHolds), exact, near, apart)
			if apart > near {
				t.Errorf("%d lengths differ", apart)
			}
			if known == 0 && waitedFor(r.truth) {
				t.Error("threads waited by the log, and no hold is known")
			}
		})
	}
}

// waitedFor reports whether a thread waited for long for something that another one held.
func waitedFor(truth []record) bool {
	for i := range truth {
		w := &truth[i]
		if w.kind != "wait" || w.result != 0 || w.to-w.from < 1e6 {
			continue
		}
		for j := range truth {
			if h := &truth[j]; h.kind == "hold" && h.addr == w.addr && h.tid != w.tid && h.from < w.to-5e5 && h.to > w.from+5e5 {
				return true
			}
		}
	}
	return false
}
