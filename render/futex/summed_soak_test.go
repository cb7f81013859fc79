package futex_test

import (
	"runtime"
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
