package futex_test

import (
	"fmt"
	"strings"
	"testing"

	"ustack/render/futex"
)

// calls writes a trace of waits and wakeups at a condition variable, as script has it.
type taking struct {
	b strings.Builder
	t int
}

func (x *taking) line(tid int, what string) {
	x.t += 10
	fmt.Fprintf(&x.b, "            prog-%d      [%03d] .....     1.%06d: sys_futex%s\n", tid, tid%4, x.t, what)
}

func (x *taking) enter(tid, addr, op, val int) {
	x.line(tid, fmt.Sprintf("(uaddr: 0x%x, op: 0x%x, val: %d, utime: 0, uaddr2: 0, val3: 0xffffffff)", addr, op, val))
}

func (x *taking) exit(tid, result int) { x.line(tid, fmt.Sprintf(" -> 0x%x", uint64(int64(result)))) }

const (
	waitBitset = 0x189 // FUTEX_WAIT_BITSET_PRIVATE | FUTEX_CLOCK_REALTIME
	wakeOp     = 0x81
	condAddr   = 0x1028 // its two words are here and 4 bytes further
)

// inTurn: threads 10, 11, 12 have it in turn; each waits at the word that is due.
func inTurn(rounds int) string {
	x := new(taking)
	x.enter(11, condAddr, waitBitset, 0)
	for i := range rounds {
		has, next, word := 10+i%3, 10+(i+1)%3, condAddr+4*(i/4%2)
		after := condAddr + 4*((i+1)/4%2)
		x.enter(has, word, wakeOp, 1)
		x.exit(next, 0)
		x.exit(has, 1)
		x.enter(10+(i+2)%3, after, waitBitset, 0)
	}
	return x.b.String()
}

// stolen: as inTurn, but each wait times out beside the wakeup, and the thread that was
// woken finds the lock taken by one whose wait had timed out: Python's GIL on a machine with
// fewer CPUs than threads.
func stolen(rounds int) string {
	x := new(taking)
	at := map[int]int{}
	wait := func(tid, round int) {
		at[tid] = condAddr + 4*(round/4%2)
		x.line(tid, fmt.Sprintf("(uaddr: 0x%x, op: 0x%x, val: 0, utime: 0x7fff0000, uaddr2: 0, val3: 0xffffffff)", at[tid], waitBitset))
	}
	for _, tid := range []int{11, 12, 13} {
		wait(tid, 0)
	}
	has := 10
	for i := range rounds {
		woken := 10 + (has-9+i%2)%4
		thief := woken // none, once in four rounds
		if i%4 != 0 {
			thief = 10 + (has-8-i%2)%4
			x.exit(thief, -110)
		}
		x.enter(has, at[woken], wakeOp, 1)
		x.exit(woken, 0)
		x.exit(has, 1)
		if thief != woken {
			wait(woken, i)
		}
		wait(has, i)
		has = thief
	}
	return x.b.String()
}

// workers: threads that are woken for work signal others of work that they have made, while
// others work.
func workers(rounds int) string {
	x := new(taking)
	for _, tid := range []int{10, 11, 12, 13} {
		x.enter(tid, condAddr, waitBitset, 0)
	}
	for _, tid := range []int{10, 11} {
		x.exit(tid, 0)
	}
	for i := range rounds {
		from, to := 10+i%4, 10+(i+2)%4
		x.enter(from, condAddr, wakeOp, 1)
		x.exit(to, 0)
		x.exit(from, 1)
		x.enter(from, condAddr, waitBitset, 0)
	}
	return x.b.String()
}

// queue: thread 9 signals, 10 and 11 are woken and come again.
func queue(rounds int) string {
	x := new(taking)
	for i := range rounds {
		to := 10 + i%2
		x.enter(to, condAddr, waitBitset, 0)
		x.enter(9, condAddr, wakeOp, 1)
		x.exit(to, 0)
		x.exit(9, 1)
	}
	return x.b.String()
}

// TestTurns: a condition variable that threads have in turn is a lock, a queue is none;
// with too few turns, neither is known.
func TestTurns(t *testing.T) {
	for _, c := range []struct {
		name, text string
		lock       bool
	}{{"turns", inTurn(60), true}, {"few turns", inTurn(8), false}, {"queue", queue(60), false},
		{"stolen turns", stolen(60), true}, {"few stolen turns", stolen(8), false}, {"workers", workers(60), false}} {
		for _, by := range []futex.By{futex.ByObject, futex.BySite, futex.ByKind} {
			r := analyseText(t, futex.Options{}, "# tracer: nop\n"+c.text).Report(futex.View{By: by})
			if r.All.Waits == 0 {
				t.Fatalf("%s by %s: no waits", c.name, by)
			}
			if got := len(r.Locks) == 1 && r.Locks[0].Role == "lock" && r.Locks[0].Kind == futex.Condvar && len(r.Signals) == 0; got != c.lock {
				t.Errorf("%s by %s: %d locks, %d others: %+v", c.name, by, len(r.Locks), len(r.Signals), r.All)
			}
		}
	}
}

// TestSemaphoreSignals: a semaphore whose posters never wait there is a signal, one that
// its takers post is a lock.
func TestSemaphoreSignals(t *testing.T) {
	const addr = 0x2000
	for _, signal := range []bool{true, false} {
		x := new(taking)
		for i := range 40 {
			to, from := 10+i%2, 9
			if !signal {
				from = 10 + (i+1)%2
			}
			x.enter(to, addr, waitBitset, 0)
			x.enter(from, addr, wakeOp, 1)
			x.exit(to, 0)
			x.exit(from, 1)
		}
		r := analyseText(t, futex.Options{}, "# tracer: nop\n"+x.b.String()).Report(futex.View{})
		if (len(r.Locks) == 1) == signal || len(r.Locks)+len(r.Signals) != 1 {
			t.Errorf("signal %v: %d locks, %d others", signal, len(r.Locks), len(r.Signals))
		}
		for _, l := range append(r.Locks, r.Signals...) {
			if l.Kind != futex.Semaphore {
				t.Errorf("%s, want a semaphore", l.Kind)
			}
		}
	}
}
