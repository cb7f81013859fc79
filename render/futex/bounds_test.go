package futex_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"ustack/render/futex"
	"ustack/render/futex/report"
	"ustack/tracefs"
)

// TestOthers: what there is no room for is summed up, not lost.
func TestOthers(t *testing.T) {
	var b strings.Builder
	const locks, each = 200, 3
	at := 0
	for range each {
		for i := range locks {
			fmt.Fprintf(&b, "%d/%d 0 %d sys_futex(uaddr: %#x, op: 0x80, val: 2, utime: 0x1, uaddr2: 0, val3: 0)\n", 10+i%7, 10, at, 0x1000+16*i)
			fmt.Fprintf(&b, "%d/%d 0 %d sys_futex -> 0xffffffffffffff92\n", 10+i%7, 10, at+10)
			at += 20
		}
	}
	text := script(b.String())
	for _, opt := range []futex.Options{{}, {Locks: 16}, {Threads: 4}, {Locks: 1, Threads: 1, Stacks: 1}} {
		r := analyseText(t, opt, text).Report(futex.View{})
		if r.All.Waits != locks*each || r.All.Time != locks*each*10_000 {
			t.Errorf("%+v: %d waits, %d ns, want %d and %d", opt, r.All.Waits, r.All.Time, locks*each, locks*each*10_000)
		}
		if opt.Locks > 0 {
			if r.OtherLocks == nil && r.OtherSignals == nil || len(r.Locks)+len(r.Signals) > opt.Locks || len(r.Notes) == 0 {
				t.Errorf("%+v: %d locks, others %v", opt, len(r.Locks)+len(r.Signals), r.OtherLocks)
			}
			for _, l := range append(r.Locks, r.Signals...) {
				if l.Waits < each && !l.Partial {
					t.Errorf("%#x has %d waits of %d, and does not say so", l.Address, l.Waits, each)
				}
			}
		}
	}
}

// TestAllWait: threads that all wait, more than there is room for.
func TestAllWait(t *testing.T) {
	var b strings.Builder
	for i := range 100 {
		fmt.Fprintf(&b, "%d 0 %d sys_futex(uaddr: %#x, op: 0x80, val: 2, utime: 0, uaddr2: 0, val3: 0)\n", 10+i, i, 0x1000+16*i)
	}
	for _, opt := range []futex.Options{{Locks: 10}, {Threads: 10}} {
		r := analyseText(t, opt, script(b.String())).Report(futex.View{})
		if r.Loss.Forgotten == 0 || r.Loss.Bounded {
			t.Errorf("%+v: %d threads forgotten, bounds %v", opt, r.Loss.Forgotten, r.Loss.Bounded)
		}
	}
}

// FuzzAnalysis reads anything that may call itself a trace.
func FuzzAnalysis(f *testing.F) {
	f.Add([]byte(script("10/10 0 100 "+waitCall+"\nCPU:0 [LOST 3 EVENTS]\n11/10 1 300 "+wakeCall+"\n11/10 1 310 sys_futex -> 0x1\n10/10 0 350 sys_futex -> 0x0\n")), uint8(2))
	f.Add([]byte(script("10 0 100 sys_futex(uaddr: 0x3000, op: 0x84, val: 1, utime: 0x7fffffff, uaddr2: 0x4000)\n10 0 90 sys_futex -> 0x2\n11 0 1 sys_restart_syscall()\n")), uint8(0))
	f.Add([]byte(script("10 0 100 "+waitCall+"\n11 1 200 sys_futex(uaddr: 0x1000, op: 0x84, val: 0, utime: 0x7fffffff, uaddr2: 0x1000)\n11 1 210 sys_futex -> 0x7fffffff\n10 0 300 sys_futex -> 0x0\n")), uint8(0))
	f.Add([]byte(traceText(f, "stock/tgid")[:20000]), uint8(9))
	f.Fuzz(func(t *testing.T, text []byte, room uint8) {
		if bytes.ContainsAny(text[:min(len(text), 10)], "\x1f\x28\x17") || len(text) > 1<<16 {
			return // compressed
		}
		a := tryText(futex.Options{Locks: int(room), Stacks: int(room), Threads: int(room)}, string(text))
		if a == nil {
			return
		}
		r := a.Report(futex.View{})
		if r.End-r.Start > 1<<40 {
			return // sums may not fit their type
		}
		for _, s := range []futex.Sum{r.All, r.Contended, r.Signalled} {
			if s.Low < 0 || s.Low > s.Time+s.OpenTime || r.Loss.Bounded && s.High < s.Time+s.OpenTime {
				t.Errorf("%+v", s)
			}
		}
		var out, again bytes.Buffer
		if err := report.JSON(&out, r); err != nil || !json.Valid(out.Bytes()) {
			t.Errorf("JSON: %v", err)
		}
		if err := report.Text(&again, r, report.Options{Top: 2}); err != nil {
			t.Error(err)
		}
		for i, c := range again.Bytes() {
			if c < ' ' && c != '\n' || c == 0x7f {
				t.Errorf("control character %#x at %d", c, i)
			}
		}
	})
}

func TestTicks(t *testing.T) {
	text := "               a-10      [000] .....            100: " + waitCall + "\n" +
		"               a-10      [000] .....            150: sys_futex -> 0xffffffffffffff92\n"
	r := analyseText(t, futex.Options{}, text).Report(futex.View{})
	if !r.Ticks || r.All.Time != tracefs.Time(50) {
		t.Errorf("%v %+v", r.Ticks, r.All)
	}
}

// TestThreadTimes: what threads lost at locks is all of it, at locks that became others,
// in waits that go on, and in a herd of which not each one is kept apart.
func TestThreadTimes(t *testing.T) {
	var b strings.Builder
	at := 0
	for i := range 400 { // locks, then threads, that are too many
		addr, tid := 0x1000+16*min(i, 200), 10+max(i-200, i%7)
		fmt.Fprintf(&b, "%d/10 0 %d sys_futex(uaddr: %#x, op: 0x80, val: 2, utime: 0x1, uaddr2: 0, val3: 0)\n", tid, at, addr)
		fmt.Fprintf(&b, "%d/10 0 %d sys_futex -> 0xffffffffffffff92\n", tid, at+10)
		at += 20
	}
	fmt.Fprintf(&b, "9/10 0 %d %s\n10/10 0 %d sys_close(fd: 0)\n", at, waitCall, at+50)
	for _, locks := range []int{0, 16} {
		r := analyseText(t, futex.Options{Locks: locks}, script(b.String())).Report(futex.View{})
		sum := r.ThreadRest
		for _, th := range r.Threads {
			sum.Count += th.Count
			sum.Time += th.Time
		}
		if all := r.Contended; sum.Count != all.Waits || sum.Time != all.Time+all.OpenTime || r.ThreadRest.Count == 0 {
			t.Errorf("%d locks: %+v and %d threads make %+v, want %+v", locks, r.ThreadRest, len(r.Threads), sum, all)
		}
		i := slices.IndexFunc(r.Threads, func(x futex.ThreadTime) bool { return x.TID == 9 })
		if i < 0 || r.Threads[i].Time != 50_000 {
			t.Errorf("%d locks: who waits has lost %+v", locks, r.Threads)
		}
		for _, l := range r.Locks {
			if most := l.Rest.Most(); most.Count > l.Waits || most.Time > l.Time {
				t.Errorf("%#x lacks %+v of %d waits", l.Address, most, l.Waits)
			}
		}
	}
}
