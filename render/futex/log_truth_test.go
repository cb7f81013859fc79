//go:build linux

package futex_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"ustack/render/futex"
	"ustack/tracefs"
	"ustack/tracefs/capturetest"
)

// others are shapes in C++ and Go, which log all that owners did.
var others = []string{
	"cpp-owner", "cpp-convoy", "cpp-rests", "cpp-stores", "cpp-deep", "cpp-queue", "cpp-shared", "cpp-atomic", "cpp-semaphore",
	"go-owner", "go-convoy", "go-rests", "go-stores", "go-crowded", "go-deep",
}

// split are shapes whose waits are split as the log says. In the others a thread often takes a
// lock that a woken one is on its way to, and releases it without a call of futex, which no
// trace shows, or it is preempted where it takes it: that is hand-over by the report, or
// unknown. Of their waits less is known than the log says, but not more.
var split = []string{"cpp-owner", "cpp-rests", "go-owner", "go-rests"}

// TestLanguages compares reports of C++ and Go programs with what these say themselves: how
// waits are split, within 3 %, or else that no part is more than they say; who was waited for
// in the end, 95 % of the time of which that is known; and no owner with high confidence is a
// wrong one.
func TestLanguages(t *testing.T) {
	capturetest.NeedLong(t)
	for _, mode := range others {
		t.Run(mode, func(t *testing.T) {
			// Where other programs run, a thread has a lock before its log says so, or after that, for
			// longer than the split may differ.
			const tries, most = 6, 50 * time.Millisecond
			for try := 1; ; try++ {
				before, r := usageNow(t), traced(t, setup{mode: mode, sched: true, tgid: true, raw: true})
				busy := before.others(t)
				switch {
				case busy <= most && sameAsLog(t, mode, r), t.Failed():
					return
				case try < tries:
				case busy > most:
					t.Skipf("*** SKIPPED: other programs ran for %v meanwhile", busy)
				default:
					t.Fatal("the waits are split otherwise than by the log")
				}
			}
		})
	}
}

// sameAsLog reports whether the waits of all locks of a workload are split as its log says.
// Whatever is wrong with high confidence is an error.
func sameAsLog(t *testing.T, mode string, r *run) (same bool) {
	t.Helper()
	rep := analyse(t, futex.Options{}, r.trace).Report(futex.View{})
	if rep.Loss.Any() {
		t.Logf("records were lost: %+v", rep.Loss)
		return false
	}
	log := workLog{truth: r.truth}
	log.nest()
	if mode != "cpp-queue" { // its log lacks how a condition variable takes the mutex again
		checkLogConvoys(t, r.truth, rep)
	}
	checkLogOwners(t, &log, rep)
	same = true
	found := false
	for _, l := range rep.Locks {
		addr, ok := inLog(r.truth, l)
		found = found || ok
		if !ok || l.Split == nil || mode == "cpp-semaphore" {
			continue
		}
		want := ownedIn(log.truth, addr)
		want.futexes = strings.HasPrefix(mode, "go-")
		if slices.Contains(split, mode) {
			same = want.fits(t, l) && same
		} else if want.exceeded(l.Split) {
			t.Errorf("%#x: got %+v\nmore than %+v", l.Address, l.Split, want)
		}
	}
	if !found {
		t.Errorf("no lock of the log is in the report: %q", rows(rep))
	}
	checkLogRoots(t, &log, rep)
	return same
}

// inLog returns the address by which a log has a lock of the report: its futex is somewhere
// in there. ok is false if it has not.
func inLog(truth []record, l *futex.Lock) (addr uint64, ok bool) {
	size := uint64(4)
	if l.Kind == futex.RWLock {
		size = 56
	}
	for _, addr := range heldIn(truth) {
		if l.Address-addr < size {
			return addr, true
		}
	}
	return 0, false
}

// exceeded reports whether owners are said to have done more than by the log, which looks at
// the clock before calls and after them: many of the waits are as short as that takes.
func (o *owned) exceeded(s *futex.Split) bool {
	const ends = 50_000
	slack := o.whole*3/100 + tracefs.Time(ends*o.waits)
	return s.Ran > o.ran+slack || s.Runnable+s.Blocked > o.runnable+o.off+slack
}

// workLog is what a workload says.
type workLog struct{ truth []record }

// nest adds what owners did with other locks: they waited for them, and were not on a CPU as
// they released them to a thread that took it.
func (g *workLog) nest() {
	const futexes, long = 5, 20_000
	for _, x := range g.truth {
		var add record
		switch {
		case x.kind == "wait":
			add = record{"off", futexes, x.tid, x.from, x.to, 0}
		case x.kind == "free" && x.to-x.from > long:
			add = record{"gap", 0, x.tid, x.from, x.to, 0}
		}
		if add.kind != "" && slices.ContainsFunc(g.truth, func(h record) bool {
			return h.kind == "hold" && h.tid == x.tid && h.addr != x.addr && h.from <= x.from && h.to >= x.to
		}) {
			g.truth = append(g.truth, add)
		}
	}
}

// at returns the record of a kind of a lock that a time is in, nil if there is none. tid is of
// which thread, 0 for any.
func (g *workLog) at(kind string, addr uint64, tid int32, t int64) *record {
	for i := range g.truth {
		if x := &g.truth[i]; x.kind == kind && (addr == 0 || x.addr == addr) && (tid == 0 || x.tid == tid) && x.from <= t && t < x.to {
			return x
		}
	}
	return nil
}

// roots returns for how long threads were at the end of the chain from a lock, and for how
// long they owned it.
func (g *workLog) roots(addr uint64, from, to int64) (roots, owners map[int32]tracefs.Time) {
	roots, owners = make(map[int32]tracefs.Time), make(map[int32]tracefs.Time)
	cuts := []int64{from, to}
	for _, x := range g.truth {
		for _, c := range []int64{x.from, x.to} {
			if c > from && c < to {
				cuts = append(cuts, c)
			}
		}
	}
	slices.Sort(cuts)
	for i := range len(cuts) - 1 {
		t, d := (cuts[i]+cuts[i+1])/2, tracefs.Time(cuts[i+1]-cuts[i])
		h := g.at("hold", addr, 0, t)
		if h == nil {
			continue
		}
		owners[h.tid] += d
		for depth := 0; h != nil && depth < 8; depth++ {
			w := g.at("wait", 0, h.tid, t)
			next := (*record)(nil)
			if w != nil {
				next = g.at("hold", w.addr, 0, t)
			}
			if next == nil { // it has been woken, if it waits
				roots[h.tid] += d
			}
			h = next
		}
	}
	return roots, owners
}

// may returns for how long a thread can have owned a lock: by its log, and between that and when
// others did so by theirs. It looks at the clock once it has the lock, and before it releases it.
func (g *workLog) may(addr uint64, tid int32, from, to int64) (d tracefs.Time) {
	for i := range g.truth {
		h := &g.truth[i]
		if h.kind != "hold" || h.addr != addr || h.tid != tid {
			continue
		}
		first, last := int64(0), released(g.truth, h)
		for j := range g.truth {
			if x := &g.truth[j]; x.kind == "hold" && x.addr == addr && x != h && x.to <= h.from {
				first = max(first, x.to)
			}
		}
		d += tracefs.Time(max(min(last, to)-max(first, from), 0))
	}
	return d
}

// logSlack is by how much a time may differ from the log's, which has the time before a call
// and after it: an owner is one before its log says so, and until its call has released.
const logSlack = tracefs.Time(200e3)

// checkLogOwners: who is said with high confidence to have held a lock did so, and for long.
func checkLogOwners(t *testing.T, g *workLog, rep *futex.Report) {
	t.Helper()
	sure := 0
	for _, w := range rep.Longest {
		addr, ok := inLog(g.truth, w.Lock)
		if !w.Holder.Sure || !ok {
			continue
		}
		sure++
		_, owners := g.roots(addr, int64(w.From), int64(w.From+w.Time))
		most := tracefs.Time(0)
		for _, d := range owners {
			most = max(most, d)
		}
		if g.may(addr, w.Holder.TID, int64(w.From), int64(w.From+w.Time))+logSlack+w.Time/20 < most {
			t.Errorf("thread %d waited for %d from %d; the owner is said to be %d, by the log it is %v", w.TID, w.Time, w.From, w.Holder.TID, owners)
		}
	}
	t.Logf("of %d waits %d have an owner with high confidence", len(rep.Longest), sure)
}

// checkLogRoots: 95 % of the time that has a root has the one of the log.
func checkLogRoots(t *testing.T, g *workLog, rep *futex.Report) {
	t.Helper()
	var all, said, right tracefs.Time
	for _, w := range rep.Longest {
		addr, ok := inLog(g.truth, w.Lock)
		if w.Split == nil || !ok {
			continue
		}
		roots, _ := g.roots(addr, int64(w.From), int64(w.From+w.Time))
		by := make(map[int32]tracefs.Time)
		for _, x := range w.Split.Roots {
			by[x.TID] += x.Time
		}
		silent := w.Time - w.Split.HandOver // of this the log has no root
		for _, d := range roots {
			all += d
			silent -= d
		}
		for tid, d := range by {
			said += d
			right += min(d, roots[tid]+max(silent, 0))
		}
	}
	t.Logf("roots: %d us by the log, %d said, %d of these right", all/1000, said/1000, right/1000)
	if right*100 < said*95 {
		t.Errorf("%d of %d ns of roots are right", right, said)
	}
}
