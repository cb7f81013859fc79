package report

import (
	"bytes"
	"strings"
	"testing"

	"ustack/render/futex"
)

// rankedReport is a report with a convoy and an inversion.
func rankedReport(kind futex.Kind) *futex.Report {
	l := &futex.Lock{Rank: 1, Address: 0x1000, Kind: kind, Sum: futex.Sum{Waits: 40, Time: 10e6}, Slept: 40,
		Convoys: &futex.Convoys{Count: 2, HandOvers: 40, Time: 4e6, Waits: 5e6, Held: 400e3, HandOver: 800e3, Longest: futex.Convoy{From: 1e9, To: 1e9 + 3e6, HandOvers: 30, Threads: 5}}}
	who := func(tid, prio int32) futex.Prioritized { return futex.Prioritized{TID: tid, Comm: "t\x1b", Prio: prio} }
	return &futex.Report{Calls: 80, End: 1e9, Scheduled: true, Locks: []*futex.Lock{l}, LockCount: 1, Contended: l.Sum, All: l.Sum,
		Inversions: []futex.Inversion{{Lock: l, Waiter: who(12, -1), Owner: who(13, 119), Middle: who(14, 98), Time: 31e6, Waits: 2}}}
}

// TestConvoyText: a convoy and an inversion are in the answer, with what to do, and in the
// whole text.
func TestConvoyText(t *testing.T) {
	const inversion = "Priority inversion: a lock's owner did not run, because of a third thread\n" +
		"    31.0 ms  t\\033-12 (deadline) waited for #1, whose owner\n" +
		"             t\\033-13 (nice -1) was off its CPU for t\\033-14 (rtprio 1)\n" +
		"  A mutex with PTHREAD_PRIO_INHERIT lets the owner run meanwhile.\n"
	for kind, advice := range map[futex.Kind]string{
		futex.Mutex:   "20.0 us to hand it over: do more in a hold, or spin first",
		futex.PIMutex: "20.0 us to hand it over: do more in a hold, or do without PI",
	} {
		for _, brief := range []bool{true, false} {
			var out bytes.Buffer
			if err := Text(&out, rankedReport(kind), Options{Top: 5, Brief: brief}); err != nil {
				t.Fatal(err)
			}
			for _, want := range []string{inversion, advice, "40 hand-overs in 2 convoys, 50 % of the wait; held 10.0 us each"} {
				if !strings.Contains(out.String(), want) {
					t.Errorf("%q is not in\n%s", want, out.String())
				}
			}
			if !brief && !strings.Contains(out.String(), "longest 3.00 ms, from 1.000000: 30 hand-overs among 5 threads, the queue never empty") {
				t.Errorf("no longest convoy in\n%s", out.String())
			}
		}
	}
}

// TestPathText: the answer says that the order is by the critical path, and why.
func TestPathText(t *testing.T) {
	r := rankedReport(futex.Mutex)
	loud := &futex.Lock{Rank: 2, Address: 0x2000, Kind: futex.Mutex, Sum: futex.Sum{Waits: 80, Time: 20e6}, Slept: 80, OnPath: 1e6}
	r.Locks, r.LockCount = append(r.Locks, loud), 2
	r.Locks[0].OnPath, r.PathTime, r.Loudest = 60e6, 100e6, loud
	var out bytes.Buffer
	if err := Text(&out, r, Options{Top: 5, Brief: true}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"the order is by the\n  critical path\n", "Most: mutex 0x1000", "  run time    60 % of the critical path; of #2, waited for longest, 1 %\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in\n%s", want, out.String())
		}
	}
}

// TestConvoyHeld: where the lock is held for longer than handing it over takes, other things help.
func TestConvoyHeld(t *testing.T) {
	r := rankedReport(futex.Mutex)
	r.Locks[0].Convoys.Held = 900e3
	if got := convoyAdvice(r.Locks[0]); got != "fewer threads, or several locks" {
		t.Error(got)
	}
	r.Locks[0].Convoys = nil
	if got := convoy(&text{r: r}, r.Locks[0]); got != nil {
		t.Error(got)
	}
}

// TestConvoyJSON: the document has both.
func TestConvoyJSON(t *testing.T) {
	var out bytes.Buffer
	if err := JSON(&out, rankedReport(futex.Mutex)); err != nil {
		t.Fatal(err)
	}
	got := strings.Join(strings.Fields(out.String()), "")
	for _, want := range []string{
		`"convoys":{"count":2,"hand_overs":40,"total_ns":4000000,"waits_ns":5000000,"held_ns":400000,"hand_over_ns":800000,"longest":{"from_ns":1000000000,"to_ns":1003000000,"hand_overs":30,"threads":5}}`,
		`"priority_inversions":[{"address":"0x1000","waiter":{"tid":12,"comm":"t\u001b","prio":-1},"owner":{"tid":13,"comm":"t\u001b","prio":119},"ran":{"tid":14,"comm":"t\u001b","prio":98},"total_ns":31000000,"waits":2}]`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in\n%s", want, got)
		}
	}
}
