//go:build linux

package futex_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"ustack/render/futex"
)

// within reports whether a time is within 2 % of the truth, or as near as what
// the workload does between looking at the clock and making a call.
func within(got, want, calls int64) bool {
	const perCall = 50_000
	return math.Abs(float64(got-want)) <= max(0.02*float64(want), float64(perCall*calls)*0.02)
}

// nearly runs a workload and looks at the time that it waited for, again if
// need be: on a busy machine the workload is at times kept waiting between
// looking at the clock and making the call.
func nearly(t *testing.T, s setup, check func(t *testing.T, r *run) (got, want, calls int64)) {
	t.Helper()
	const tries = 4
	for try := 1; ; try++ {
		got, want, calls := check(t, traced(t, s))
		if got > want {
			t.Errorf("waited for %d ns, more than the %d that the workload saw", got, want)
		}
		if within(got, want, calls) || t.Failed() {
			t.Logf("%d ns in %d calls, log %d ns (%+.2f %%)", got, calls, want, 100*(float64(got)/float64(want)-1))
			return
		}
		if try == tries {
			t.Errorf("waited for %d ns, want %d", got, want)
			return
		}
	}
}

// TestOwnCalls compares with workloads that make the calls themselves: all
// counts are equal, and times are.
func TestOwnCalls(t *testing.T) {
	for _, mode := range []string{"herd", "timeout", "pshared"} {
		for _, sched := range []bool{false, true} {
			t.Run(mode+map[bool]string{true: "-sched"}[sched], func(t *testing.T) {
				nearly(t, setup{mode: mode, sched: sched, tgid: mode == "herd", maps: mode == "pshared"}, func(t *testing.T, r *run) (got, want, calls int64) {
					opt := futex.Options{}
					if r.dump != nil {
						opt.Mappings = r.dump
					}
					return checkCalls(t, r, analyse(t, opt, r.trace).Report(futex.View{}))
				})
			})
		}
	}
}

// checkCalls compares the report's futex that has the most waits with all
// calls of the workload's log.
func checkCalls(t *testing.T, r *run, rep *futex.Report) (got, time, n int64) {
	t.Helper()
	var results [3]int64
	for _, x := range r.truth {
		if x.kind != "wait" {
			continue
		}
		switch n++; x.result {
		case 0:
			results[futex.Woken]++
			time += x.to - x.from
		case -11:
			results[futex.Changed]++
		case -110:
			results[futex.TimedOut]++
			time += x.to - x.from
		default:
			t.Fatalf("result %d", x.result)
		}
	}
	l := biggest(rep)
	if l == nil {
		t.Fatalf("no futex in the report, %d waits in the log", n)
	}
	if [3]int64(l.Results[:3]) != results || l.Waits != n {
		t.Errorf("%d waits %v, want %d %v", l.Waits, l.Results, n, results)
	}
	if r.dump != nil && (l.File == "" || l.Local || len(l.Waiters) != 2) {
		t.Errorf("the lock of two processes is %q, waited for by %v", l.File, l.Waiters)
	}
	return int64(l.Time), time, n
}

func biggest(rep *futex.Report) *futex.Lock {
	var best *futex.Lock
	for _, list := range [][]*futex.Lock{rep.Locks, rep.Signals} {
		for _, l := range list {
			if l.Kind != futex.Join && (best == nil || l.Waits > best.Waits) {
				best = l
			}
		}
	}
	return best
}

// TestLibrary compares with what calls of the C library took.
func TestLibrary(t *testing.T) {
	for _, c := range []struct {
		mode string
		kind futex.Kind
		size uint64 // of the object
	}{
		{"mutex", futex.Mutex, 40}, {"pi", futex.PIMutex, 40}, {"rwlock", futex.RWLock, 56}, {"cond", futex.Condvar, 48}, {"sem", futex.Semaphore, 32},
	} {
		t.Run(c.mode, func(t *testing.T) {
			nearly(t, setup{mode: c.mode, tgid: true}, func(t *testing.T, r *run) (got, want, calls int64) {
				rep := analyse(t, futex.Options{}, r.trace).Report(futex.View{})
				var object uint64
				for _, x := range r.truth {
					if x.kind == "lock" {
						want += x.to - x.from
						calls++
						object = x.addr
					}
				}
				for _, list := range [][]*futex.Lock{rep.Locks, rep.Signals} {
					for _, l := range list {
						if l.Address-object >= c.size {
							continue
						}
						got += int64(l.Time)
						if l.Kind != c.kind {
							t.Errorf("%#x+%d is a %s, want %s (%v)", object, l.Address-object, l.Kind, c.kind, l.Results)
						}
						if l.Process.TGID != r.tgid || l.Process.How != futex.ByHeader {
							t.Errorf("%#x is in process %d by %s, want %d", l.Address, l.Process.TGID, l.Process.How, r.tgid)
						}
					}
				}
				return got, want, calls
			})
		})
	}
}

func TestJoin(t *testing.T) {
	for _, sched := range []bool{false, true} {
		r := traced(t, setup{mode: "join", tgid: true, sched: sched})
		rep := analyse(t, futex.Options{}, r.trace).Report(futex.View{})
		want, short := 0, 0 // of a short one it is not known whether the thread had ended
		for _, x := range r.truth {
			switch {
			case x.kind != "join":
			case x.to-x.from > 1e6:
				want++
			default:
				short++
			}
		}
		if n := len(rep.Signals); n < want || n > want+short || len(rep.Locks) != 0 {
			t.Fatalf("%d joins and %d locks, want %d, or %d more, and 0", n, len(rep.Locks), want, short)
		}
		for i, l := range rep.Signals {
			if l.Kind != futex.Join || l.Results[futex.Woken] != 1 {
				t.Errorf("%d: %s %v", i, l.Kind, l.Results)
			}
			if len(l.WakerTIDs) != 0 {
				t.Errorf("%d: woken by %v, but no call did", i, l.WakerTIDs)
			}
		}
	}
}

// TestRequeue moves waiters from one futex to another: of four, one is woken
// at the first, and three wait there for 10 ms and at the second for 5, 10 and
// 15 ms.
func TestRequeue(t *testing.T) {
	nearly(t, setup{mode: "requeue", tgid: true}, func(t *testing.T, r *run) (got, want, calls int64) {
		return checkRequeue(t, r, analyse(t, futex.Options{}, r.trace).Report(futex.View{}))
	})
}

func checkRequeue(t *testing.T, r *run, rep *futex.Report) (got, whole, calls int64) {
	t.Helper()
	for _, x := range r.truth {
		if x.kind == "wait" {
			whole += x.to - x.from
		}
	}
	var first, second *futex.Lock
	for _, l := range append(rep.Locks, rep.Signals...) {
		switch {
		case l.Kind == futex.Join:
		case l.Results[futex.Requeued] > 0:
			first = l
		default:
			second = l
		}
	}
	if first == nil || second == nil {
		t.Fatal("there are not two futexes")
	}
	const rounds = 5
	if first.Results[futex.Woken] != rounds || first.Results[futex.Requeued] != 3*rounds || second.Results[futex.Woken] != 3*rounds {
		t.Errorf("results %v and %v", first.Results, second.Results)
	}
	if first.Kind != futex.Condvar {
		t.Errorf("the first is a %s", first.Kind)
	}
	if mean := time.Duration(second.Mean); mean < 10*time.Millisecond {
		t.Errorf("the second was waited for for %v on average, want 10ms at least", mean)
	}
	return int64(first.Time + second.Time), whole, 4 * rounds
}

// TestSignals: three restarts of a wait, one that a signal ends, and one that
// goes on by restart_syscall.
func TestSignals(t *testing.T) {
	const tries = 4 // a thread may get its CPU late on a busy machine
	for try := 1; ; try++ {
		got, want := signalled(t)
		// The process was stopped for 50 ms, or tried to: that is no waiting.
		const stopped = 50e6
		if got > want {
			t.Errorf("waited for %d ns, more than %d", got, want)
		}
		if got >= want-stopped-want/50 || t.Failed() {
			return
		}
		if try == tries {
			t.Errorf("waited for %d ns, want %d", got, want)
			return
		}
	}
}

// signalled is how long threads have waited that signals broke in upon, by the trace
// and by themselves.
func signalled(t *testing.T) (got, want int64) {
	t.Helper()
	r := traced(t, setup{mode: "signal", tgid: true})
	rep := analyse(t, futex.Options{}, r.trace).Report(futex.View{})
	var results [4]int64
	ours := make(map[uint64]bool) // the C library has locks of its own
	for _, x := range r.truth {
		ours[x.addr] = true
	}
	for _, l := range append(rep.Locks, rep.Signals...) {
		if !ours[l.Address] {
			continue
		}
		for i := range results {
			results[i] += l.Results[i]
		}
		got += int64(l.Time)
	}
	for _, x := range r.truth {
		if x.kind == "wait" {
			want += x.to - x.from
		}
	}
	if results != [4]int64{futex.Woken: 1, futex.TimedOut: 1, futex.Interrupted: 1} {
		t.Errorf("results %v, want one wait woken, one timed out, one interrupted: %q", results, rows(rep))
	}
	return got, want
}

// TestHolder holds what is claimed with high confidence against who held the
// mutex most of the wait.
func TestHolder(t *testing.T) {
	var sures, rights int
	for _, s := range []setup{{mode: "herd", tgid: true}, {mode: "mutex", tgid: true}, {mode: "mutex", tgid: true, sched: true}, {mode: "pi", tgid: true}, {mode: "herd", sched: true}} {
		r := traced(t, s)
		rep := analyse(t, futex.Options{}, r.trace).Report(futex.View{MinWait: 1e6})
		var sure, right, all int
		why := make(map[string]int)
		for _, w := range rep.Longest {
			all++
			if !w.Holder.Sure {
				why[w.Holder.Why]++
				continue
			}
			sure++
			held := make(map[int32]int64)
			for _, x := range r.truth {
				if x.kind == "hold" {
					held[x.tid] += max(min(x.to, int64(w.From+w.Time))-max(x.from, int64(w.From)), 0)
				}
			}
			best := int32(0)
			for tid, d := range held {
				if best == 0 || d > held[best] {
					best = tid
				}
			}
			if best == w.Holder.TID {
				right++
			}
		}
		checkSegments(t, r, rep)
		t.Logf("%+v: %d waits over 1 ms, %d with high confidence, %d of them right, others: %v", s, all, sure, right, why)
		sures += sure
		rights += right
	}
	if sures < 50 || rights*10 < sures*9 {
		t.Errorf("%d of %d sure holders are right", rights, sures)
	}
}

// checkSegments holds who had the mutex during each part of the longest waits
// against the log.
func checkSegments(t *testing.T, r *run, rep *futex.Report) {
	t.Helper()
	var all, right int
	for _, w := range rep.Longest {
		if !w.Holder.Sure && w.Holder.Why != "several threads held it for about as long" {
			continue
		}
		for _, s := range w.Segments {
			var best, own int64
			for _, x := range r.truth {
				if x.kind == "hold" {
					held := min(x.to, int64(s.To)) - max(x.from, int64(s.From))
					if best = max(best, held); x.tid == s.TID {
						own = max(own, held)
					}
				}
			}
			all++
			if own == best {
				right++
			}
		}
	}
	t.Logf("%d parts of waits, %d right", all, right)
	if all == 0 || right*10 < all*9 {
		t.Errorf("%d of %d parts of waits are right", right, all)
	}
}

// TestVerdicts seeds lock-ups. Where the trace cannot show why, the verdict
// must say so.
func TestVerdicts(t *testing.T) {
	for _, c := range []struct {
		mode string
		want []futex.VerdictKind
	}{
		{"abba", []futex.VerdictKind{futex.CannotTell}},
		{"abba-seen", []futex.VerdictKind{futex.Deadlock}},
		{"lost", []futex.VerdictKind{futex.LostWakeUp}},
		{"dead", []futex.VerdictKind{futex.DeadOwner}},
		{"stuck-join", []futex.VerdictKind{futex.ThreadExit}},
	} {
		for _, sched := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/sched=%v", c.mode, sched), func(t *testing.T) {
				t.Parallel() // that all hangs is waited for
				var rep *futex.Report
				// On a busy machine it takes a while until all hangs. Without
				// the scheduler's events it may stay unseen.
				for _, after := range []time.Duration{600 * time.Millisecond, 3 * time.Second, 10 * time.Second} {
					r := traced(t, setup{mode: c.mode, sched: sched, tgid: true, kill: after})
					rep = analyse(t, futex.Options{}, r.trace).Report(futex.View{})
					if rep.Verdict.Kind == c.want[0] || rep.Verdict.Kind == futex.CannotTell && !sched {
						break
					}
				}
				v := rep.Verdict
				t.Logf("%+v", v)
				if v.Kind == futex.CannotTell && (!sched || c.mode == "abba") {
					return
				}
				if v.Kind != c.want[0] {
					t.Errorf("%s, want %s", v.Kind, c.want[0])
				}
			})
		}
	}
}
