//go:build linux

package futex_test

import (
	"slices"
	"testing"

	"ustack/render/futex"
	"ustack/tracefs"
	"ustack/tracefs/capturetest"
)

// owned is what waits for a lock were spent on, by the workload's own log.
type owned struct {
	whole, ran, runnable, off, handed tracefs.Time
	waits                             int
	on                                map[string]tracefs.Time
	// futexes is set if the program has waits of its own that its log lacks: Go's runtime
	// has goroutines change their threads.
	futexes bool
}

func overlap(a, b *record) tracefs.Time {
	return tracefs.Time(max(min(a.to, b.to)-max(a.from, b.from), 0))
}

// heldIn returns the futexes that were held, by a log, the last one first.
func heldIn(truth []record) (addrs []uint64) {
	for i := len(truth) - 1; i >= 0; i-- {
		if truth[i].kind == "hold" && !slices.Contains(addrs, truth[i].addr) {
			addrs = append(addrs, truth[i].addr)
		}
	}
	return addrs
}

// ownedIn adds up what the owners did during the waits of a log for a futex.
func ownedIn(truth []record, addr uint64) (o owned) {
	o.on = make(map[string]tracefs.Time)
	for i := range truth {
		w := &truth[i]
		if w.kind != "wait" || w.addr != addr || w.result != 0 {
			continue
		}
		whole := tracefs.Time(w.to - w.from)
		o.whole += whole
		o.waits++
		o.handed += whole
		for j := range truth {
			if h := &truth[j]; h.kind == "hold" && h.addr == addr && h.tid != w.tid && overlap(h, w) > 0 {
				o.handed -= overlap(h, w)
				o.ran += overlap(h, w)
				o.hold(truth, h, w)
			}
		}
	}
	return o
}

// hold moves what the owner did not run during a wait while it held the lock.
func (o *owned) hold(truth []record, h, w *record) {
	part := record{from: max(h.from, w.from), to: min(h.to, w.to)}
	for i := range truth {
		x := &truth[i]
		if x.tid != h.tid {
			continue
		}
		d := overlap(x, &part)
		switch x.kind {
		case "gap":
			o.ran -= d
			o.runnable += d
		case "off":
			d -= tracefs.Time(float64(x.result) * float64(d) / float64(max(x.to-x.from, 1)))
			o.ran -= d
			o.off += d
			o.on[[...]string{"works", "sleep", "fdatasync", "read", "futex"}[x.addr-1]] += d
		}
	}
}

// near reports whether two times differ by at most 3 % of the whole.
func (o *owned) near(got, want tracefs.Time) bool {
	return max(got, want)-min(got, want) <= o.whole*3/100
}

// named reports whether what owners were blocked on is what they did. What is woken is
// runnable; the log has one with the other.
func (o *owned) named(t *testing.T, s *futex.Split) bool {
	t.Helper()
	got := make(map[string]tracefs.Time)
	for _, on := range s.On {
		name := on.What.String()
		if on.What == futex.BlockedCall {
			name = on.Call
		}
		if on.What == futex.BlockedIO {
			name = "fdatasync" // of a thread whose first call of futex is still to come
		}
		got[name] += on.Time
		if _, known := o.on[name]; !known && on.What != futex.BlockedElsewhere && on.What != futex.BlockedOutside && on.Call != "write" && !(o.futexes && on.What == futex.BlockedFutex) {
			t.Errorf("blocked on %s, which no owner was", name)
		}
	}
	t.Logf("blocked on %v, want %v", got, o.on)
	late := max(s.Runnable-o.runnable, 0)
	for name, want := range o.on {
		if slack := o.whole * 3 / 100; got[name] > want+slack || got[name] < want-slack-late {
			return false
		}
	}
	return true
}

// TestSplitLive: what waits are split into is what the workload says of itself, within
// 3 %, where all threads have a CPU and where they have not. The workload says it by its
// own clock, which needs a machine that does nothing else.
func TestSplitLive(t *testing.T) {
	capturetest.NeedLong(t)
	for _, mode := range []string{"owner", "owner-busy"} {
		t.Run(mode, func(t *testing.T) {
			const tries = 4 // a busy machine keeps threads waiting that have been woken
			for try := 1; ; try++ {
				if splitLive(t, mode, try == tries) || t.Failed() {
					return
				}
			}
		})
	}
}

func splitLive(t *testing.T, mode string, last bool) bool {
	t.Helper()
	r := traced(t, setup{mode: mode, sched: true, tgid: true, raw: true})
	rep := analyse(t, futex.Options{}, r.trace).Report(futex.View{})
	addr := heldIn(r.truth)[0]
	want := ownedIn(r.truth, addr)
	for _, l := range rep.Locks {
		if l.Address != addr {
			continue
		}
		ok := want.fits(t, l)
		if last && !ok {
			t.Errorf("split into %+v, want %+v", l.Split, want)
		}
		return ok
	}
	t.Fatalf("futex %#x is not in the report", addr)
	return false
}

// fits reports whether a lock's waits are split as the log says.
func (o *owned) fits(t *testing.T, l *futex.Lock) bool {
	t.Helper()
	s := l.Split
	if s == nil || s.Whole() != l.Time || s.Unknown < 0 {
		t.Fatalf("%+v of %d", s, l.Time)
	}
	named := o.named(t, s)
	t.Logf("%#x: got  %+v\nwant %+v", l.Address, s, o)
	// What is woken is runnable; the log has one with the other.
	return o.near(s.Ran, o.ran) && o.near(s.Runnable+s.Blocked, o.runnable+o.off) && o.near(s.HandOver, o.handed) && o.near(s.Unknown, 0) && named
}
