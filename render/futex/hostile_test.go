package futex_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"ustack/render/futex"
)

// hostile makes traces that take much memory, or many steps for an event, unless both
// are bounded.
type hostile struct {
	b  strings.Builder
	at int
}

func (h *hostile) event(tid int, format string, args ...any) {
	h.at++
	fmt.Fprintf(&h.b, "%16s-%-7d (%7d) [000] ..... %5d.%06d: %s\n", "a", tid, 10, h.at/1_000_000, h.at%1_000_000, fmt.Sprintf(format, args...))
}

func (h *hostile) wait(tid, addr int) {
	h.event(tid, "sys_futex(uaddr: %#x, op: 0x80, val: 2, utime: 0, uaddr2: 0, val3: 0)", addr)
}

func (h *hostile) wake(tid, addr int) {
	h.event(tid, "sys_futex(uaddr: %#x, op: 0x81, val: 1, utime: 0, uaddr2: 0, val3: 0)", addr)
}

func (h *hostile) requeue(tid, from, to int) {
	h.event(tid, "sys_futex(uaddr: %#x, op: 0x84, val: 0, utime: 0x7fffffff, uaddr2: %#x, val3: 2)", from, to)
}

func (h *hostile) off(tid int, state string) {
	h.event(tid, "sched_switch: prev_comm=a prev_pid=%d prev_prio=120 prev_state=%s ==> next_comm=swapper/0 next_pid=0 next_prio=120", tid, state)
}

func (h *hostile) result(tid, n int) { h.event(tid, "sys_futex -> %#x", n) }

// passBy makes threads that each wait for a moment at a futex of their own, or at one.
func (h *hostile) passBy(n, apart int) {
	for i := range n {
		h.wait(1_000_000+i, 0x1000000+i*apart)
		h.result(1_000_000+i, 0)
	}
}

// stay makes threads that wait on and on.
func (h *hostile) stay(n, apart int) {
	for i := range n {
		h.wait(100+i, 0x1000+i*apart)
	}
}

// TestInUse: threads and locks that are in use go, too, if they leave room for hardly
// any other; else each new one would look through all of them.
func TestInUse(t *testing.T) {
	for _, opt := range []futex.Options{{Threads: 64}, {Locks: 64}} {
		for _, stay := range []int{32, 63} {
			var h hostile
			h.stay(stay, 8)
			h.passBy(200, 8)
			r := analyseText(t, opt, h.b.String()).Report(futex.View{})
			if kept := len(r.Blocked) == stay; kept != (stay == 32) {
				t.Errorf("%+v: %d of %d wait", opt, len(r.Blocked), stay)
			}
		}
	}
}

// TestStays: the wait that makes others go does not go itself.
func TestStays(t *testing.T) {
	const locks = 64
	var h hostile
	h.stay(locks+1, 8)
	r := analyseText(t, futex.Options{Locks: locks}, h.b.String()).Report(futex.View{})
	if len(r.Blocked) != 1 || r.Blocked[0].TID != 100+locks || r.Loss.Forgotten != locks {
		t.Errorf("%d wait, %d were forgotten", len(r.Blocked), r.Loss.Forgotten)
	}
}

// TestWakesInUse: calls that have not returned are dropped, too, at futexes without
// waiters. From then on the possible wakers of a thread are unknown.
func TestWakesInUse(t *testing.T) {
	for _, wakes := range []int{10, 100} {
		var b strings.Builder
		for i := range wakes {
			fmt.Fprintf(&b, "%d 0 %d sys_futex(uaddr: %#x, op: 0x81, val: 1, utime: 0, uaddr2: 0, val3: 0)\n", 100+i, i, 0x10000+8*i)
		}
		b.WriteString("50 0 1000 " + waitCall + "\n51 1 6000 " + wakeCall + "\n51 1 6010 sys_futex -> 0x1\n50 0 6020 sys_futex -> 0x0\n")
		r := analyseText(t, futex.Options{Locks: 16}, script(b.String())).Report(futex.View{})
		if len(r.Locks) != 1 || (r.Locks[0].Process.Threads == 2) != (wakes == 10) {
			t.Errorf("%d calls have not returned: %d locks, %+v", wakes, len(r.Locks), r.Locks[0].Process)
		}
	}
}

// TestMoved: a waiter that is moved from futex to futex is followed for a while.
func TestMoved(t *testing.T) {
	const waiters, moves = 10, 1000
	var h hostile
	h.stay(waiters, 0)
	for i := range moves {
		h.requeue(7, 0x1000+i%2*8, 0x1008-i%2*8)
		h.result(7, waiters)
	}
	r := analyseText(t, futex.Options{}, h.b.String()).Report(futex.View{})
	var moved int64
	for _, l := range append(r.Locks, r.Signals...) {
		moved += l.Results[futex.Requeued]
	}
	if moved < waiters || moved > waiters*32 {
		t.Errorf("%d waiters were moved %d times", waiters, moved)
	}
}

// TestWakesGone: calls that wake are kept no longer than there are waiters.
func TestWakesGone(t *testing.T) {
	const futexes, wakes, most = 500, 64, 4 << 20
	var h hostile
	for i := range futexes {
		h.wait(8, 0x1000+8*i)
		for range wakes {
			h.wake(9, 0x1000+8*i)
			h.result(9, 0)
		}
		h.result(8, 0)
	}
	text := h.b.String()
	before := heap()
	a := analyseText(t, futex.Options{}, text)
	if used := heap() - before; used > most {
		t.Errorf("%d bytes are kept of %d calls that are over", used, futexes*wakes)
	}
	runtime.KeepAlive(a)
	runtime.KeepAlive(text)
}

// TestNumberedLocks: the logs of calls have no locks that were too many to keep apart.
func TestNumberedLocks(t *testing.T) {
	const locks, most = 20_000, 4 << 20
	var h hostile
	h.passBy(locks, 8)
	text := h.b.String()
	bounded := futex.Options{Threads: 256, Locks: 256}
	kept := func(opt futex.Options) int64 {
		before := heap()
		a := analyseText(t, opt, text)
		defer runtime.KeepAlive(a)
		return heap() - before
	}
	without := kept(bounded)
	for _, opt := range []futex.Options{{Impact: futex.ImpactView{On: true}}, {Calls: true}} {
		opt.Threads, opt.Locks = bounded.Threads, bounded.Locks
		if more := kept(opt) - without; more > most {
			t.Errorf("%+v: %d bytes more are kept of %d locks, want %d at most", opt, more, locks, most)
		}
	}
	runtime.KeepAlive(text)
}

// heap is how much memory is in use.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// BenchmarkHostile reads traces in which as much as possible is in use.
//
//	go test -run '^$' -bench Hostile ./render/futex
func BenchmarkHostile(b *testing.B) {
	for name, make := range map[string]func(*hostile){
		"threads": func(h *hostile) { h.stay(65500, 0); h.passBy(100_000, 0) },
		"locks":   func(h *hostile) { h.stay(8190, 8); h.passBy(100_000, 8) },
		"waits":   func(h *hostile) { h.stay(200_000, 8) },
		"wakes": func(h *hostile) {
			for i := range 200_000 {
				h.wake(100+i, 0x1000+8*i)
			}
		},
		"moves": func(h *hostile) {
			h.stay(1000, 0)
			for i := range 50_000 {
				h.requeue(7, 0x1000+i%2*8, 0x1008-i%2*8)
				h.result(7, 1000)
			}
		},
	} {
		var h hostile
		make(&h)
		text := h.b.String()
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				analyseText(b, futex.Options{}, text).Report(futex.View{})
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(h.at), "ns/event")
		})
	}
}

// TestPassBy: a thread that is seen once takes few pieces of memory.
func TestPassBy(t *testing.T) {
	const threads, most = 20_000, 8
	var h hostile
	h.passBy(threads, 8)
	text := h.b.String()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	analyseText(t, futex.Options{Threads: 256, Locks: 256}, text)
	runtime.ReadMemStats(&after)
	if n := float64(after.Mallocs-before.Mallocs) / threads; n > most {
		t.Errorf("%.1f pieces of memory for each thread, want %d at most", n, most)
	} else {
		t.Logf("%.1f pieces of memory for each thread", n)
	}
}

// BenchmarkThreads compares what an event costs with few and with many threads, in
// time of the CPU: of one process, where it is not known of which one they are, and of
// threads that end after one call.
//
//	go test -run '^$' -bench Threads ./render/futex
func BenchmarkThreads(b *testing.B) {
	const events = 2_000_000
	for _, c := range []struct {
		pid  string
		ends bool
	}{{pid: "(     10)"}, {}, {"(     10)", true}} {
		var each [2]float64
		for i, threads := range []int{1000, 1_000_000} {
			var h hostile
			for k := range events / 2 {
				tid := 1000 + k%threads
				h.wait(tid, 0x1000000+k%16*64)
				h.result(tid, 0)
				if c.ends {
					h.event(tid, "sched_switch: prev_comm=a prev_pid=%d prev_prio=120 prev_state=X ==> next_comm=swapper/0 next_pid=0 next_prio=120", tid)
				}
			}
			text := strings.ReplaceAll(h.b.String(), "(     10)", c.pid)
			b.Run(fmt.Sprintf("%d/known=%t/ends=%t", threads, c.pid != "", c.ends), func(b *testing.B) {
				used := cpuTime(b)
				for b.Loop() {
					analyseText(b, futex.Options{}, text)
				}
				each[i] = float64(cpuTime(b)-used) / float64(b.N) / events
				b.ReportMetric(each[i], "cpu-ns/event")
				if i == 1 && each[0] > 0 {
					b.ReportMetric(each[1]/each[0], "times")
				}
			})
		}
	}
}

// cpuTime is how long this program has been running on any CPU, in nanoseconds.
func cpuTime(b *testing.B) int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &t); err != nil {
		b.Fatal(err)
	}
	return t.Nano()
}

// TestPastGoes: a report leaves nothing in memory of calls that are over, of what threads did,
// and of locks that have become parts of others; WaitCalls leaves less.
func TestPastGoes(t *testing.T) {
	const locks, mostOfReport, mostOfCalls = 3000, 7 << 20, 3 << 20
	var h hostile
	for i := range locks {
		waiter, owner, addr := 100+i%50, 200+i%50, 0x1000+8*i
		h.wait(waiter, addr)
		h.off(waiter, "S")
		for range 8 {
			h.off(owner, "R")
			h.off(owner, "S")
			h.wake(owner, addr)
			h.result(owner, 0)
		}
		h.wake(owner, addr)
		h.result(owner, 1)
		h.result(waiter, 0)
	}
	text := h.b.String()
	before := heap()
	a := analyseText(t, futex.Options{Calls: true, Locks: 256}, text)
	r := a.Report(futex.View{})
	r.Locks, r.Signals, r.Longest, r.Chains, r.Roots, r.LongHolds = nil, nil, nil, nil, nil, nil
	reported := heap() - before
	a.KeepCalls()
	calls := heap() - before
	if reported > mostOfReport || calls > mostOfCalls {
		t.Errorf("%d bytes are kept by a report, %d by KeepCalls", reported, calls)
	}
	runtime.KeepAlive(a)
	runtime.KeepAlive(text)
}
