package futex_test

import (
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"ustack/render/futex"
	"ustack/tracefs"
	"ustack/tracefs/capturetest"
	"ustack/tracefs/syscalls"
)

// TestSummedSoak: two simulated days of programs that begin and end, each with locks, threads and
// stacks of its own: the second day takes no more memory than the first one.
func TestSummedSoak(t *testing.T) {
	capturetest.NeedLong(t)
	const (
		every    = tracefs.Time(10 * time.Second) // a process begins
		hour     = tracefs.Time(time.Hour)
		threads  = 10
		futexes  = 16
		waits    = 40
		alive    = 64 // processes that the kernel still counts
		most     = 64 << 20
		slack    = 256 << 10
		reported = 30 * 60 * tracefs.Time(time.Second)
	)
	c := newCounted()
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	var first uint64
	tid := int32(100)
	for n, now := int32(0), tracefs.Time(0); now < 48*hour; n, now = n+1, now+every {
		id := futex.FutexID{TGID: n, Memory: uint64(n) + 1, Born: uint64(now) + 1}
		for i := range waits {
			id.Addr = 0x1000 + 64*uint64(i%futexes)
			d := ms/2 + tracefs.Time(i)*ms
			c.wait(id, tid+int32(i%threads), now+tracefs.Time(i)*ms, d, [...]int64{0, syscalls.ETIMEDOUT}[i%2])
		}
		tid += threads
		for i := range uint64(futexes) {
			delete(c.st.Sums, futex.FutexID{Addr: 0x1000 + 64*i, TGID: n - alive, Memory: uint64(n-alive) + 1, Born: uint64(now-alive*every) + 1})
		}
		if now%reported == 0 {
			c.st.End = now + every
			if r := c.sum.Report(&c.st, futex.View{}); len(c.st.Sums) != min(int(n)+1, alive)*futexes || r.Calls == 0 {
				t.Fatalf("after %v: %d sums, %d calls", time.Duration(now), len(c.st.Sums), r.Calls)
			}
		}
		if now == 24*hour {
			first = heap() - before
		}
	}
	second := heap() - before
	t.Logf("%d threads: %d KiB after a day, %d after two", tid, first>>10, second>>10)
	if first > most || second > first+slack {
		t.Errorf("%d bytes after a day, %d after two", first, second)
	}
	runtime.KeepAlive(c)
}

// TestSummedForget: what a futex leaves that has made room is in the sum of the others, and its
// waits are not listed.
func TestSummedForget(t *testing.T) {
	c := newCounted()
	gone, stays := futex.FutexID{Addr: 0x1000, TGID: 7, Memory: 1, Born: 1}, futex.FutexID{Addr: 0x2000, TGID: 8, Memory: 2, Born: 2}
	for i := range tracefs.Time(4) {
		c.wait(gone, 7, i*100*ms, 50*ms+i*ms, 0)
		c.wait(stays, 8, i*100*ms, 20*ms+i*ms, syscalls.ETIMEDOUT)
	}
	before := c.sum.Report(&c.st, futex.View{})
	c.st.Others.Add(c.st.Sums[gone])
	c.st.Others.Add(&futex.CallSum{})
	c.st.Loss.Gone++
	delete(c.st.Sums, gone)
	c.sum.Forget(gone)
	c.sum.Forget(gone)
	r := c.sum.Report(&c.st, futex.View{})
	if r.All.Waits != before.All.Waits || r.All.Time != before.All.Time {
		t.Errorf("%+v, before %+v", r.All, before.All)
	}
	if o := r.OtherSignals; o == nil || o.Waits != 4 || o.Time != 206*ms || o.Results[futex.Woken] != 4 || o.P99 < 50*ms {
		t.Errorf("others: %+v", r.OtherSignals)
	}
	for _, w := range append(r.Longest, before.Longest...) {
		if w.Lock == nil || w.TID == 7 && w.Lock.Address != gone.Addr {
			t.Errorf("longest: %+v", w)
		}
	}
	if !slices.ContainsFunc(r.Notes, func(n string) bool { return strings.HasPrefix(n, "1 futexes of processes that have ended") }) {
		t.Errorf("notes: %q", r.Notes)
	}
}
