package futex_test

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"ustack/filemap"
	"ustack/filemap/resolve"
	"ustack/render/futex"
	"ustack/render/futex/report"
	"ustack/render/profile"
	"ustack/tracefs"
	"ustack/tracefs/syscalls"
)

const ms = tracefs.Time(time.Millisecond)

// stackAt returns a stack of one frame of a file.
func stackAt(f *filemap.File, offset uint64) *resolve.Stack {
	return &resolve.Stack{Frames: []tracefs.Frame{{Addr: offset, HasAddr: true, Form: tracefs.FormBuildID}},
		Attributions: []resolve.Attribution{{File: f, Offset: offset, HasOffset: true, Trust: filemap.Late}}}
}

// counted counts waits as the BPF programs do.
type counted struct {
	sum  *futex.Summed
	st   futex.SummedState
	file *filemap.File
}

func newCounted() *counted {
	return &counted{sum: futex.NewSummed(0, ms), st: futex.SummedState{End: 1000 * ms, Sums: make(map[futex.FutexID]*futex.CallSum)},
		file: filemap.NewFiles().Intern([]byte("/bin/w"), nil)}
}

// of returns the sum of a futex.
func (c *counted) of(id futex.FutexID) *futex.CallSum {
	if c.st.Sums[id] == nil {
		c.st.Sums[id] = &futex.CallSum{Comm: "w", Buckets: make([]uint64, 44)}
	}
	return c.st.Sums[id]
}

// wait counts a wait that slept.
func (c *counted) wait(id futex.FutexID, tid int32, from, d tracefs.Time, ret int64) {
	s := c.of(id)
	result := futex.Woken
	switch ret {
	case syscalls.ETIMEDOUT:
		result = futex.TimedOut
	case syscalls.ERESTARTSYS:
		result = futex.Interrupted
	}
	s.Results[result]++
	s.Slept++
	s.Time += d
	n := 0
	for t := d; t > 0; t >>= 1 {
		n++
	}
	s.Buckets[n]++
	if d >= ms {
		c.sum.Add(&futex.LongWait{Futex: id, From: from, To: from + d, TID: tid, Comm: []byte("w"), Ret: ret, Stack: stackAt(c.file, 0x100+uint64(tid))})
	}
}

// TestSummed: counts and times are exact, each kind is found, and what is not known is said.
func TestSummed(t *testing.T) {
	c := newCounted()
	mutex, sem := futex.FutexID{Addr: 0x1000, TGID: 7, Memory: 1, Born: 1}, futex.FutexID{Addr: 0x2000, TGID: 7, Memory: 1, Born: 1}
	pi, several := futex.FutexID{Addr: 0x3000, TGID: 7, Memory: 1, Born: 1}, futex.FutexID{Addr: futex.Several, TGID: 7, Memory: 1, Born: 1}
	c.wait(mutex, 8, 10*ms, 20*ms, 0)
	c.wait(mutex, 9, 20*ms, 30*ms, 0)
	c.wait(mutex, 9, 60*ms, ms/10, 0)
	m := c.of(mutex)
	m.Results[futex.Changed] = 5
	m.Two, m.Plain, m.NoTimeout, m.Wakes, m.Woken = 8, true, true, 11, 3
	c.wait(sem, 8, 100*ms, 200*ms, syscalls.ETIMEDOUT)
	s := c.of(sem)
	s.Zero, s.Plain, s.Timeout = 1, true, true
	c.wait(pi, 8, 400*ms, 2*ms, 0)
	c.of(pi).PI, c.of(pi).Zero = true, 1
	c.wait(several, 8, 500*ms, 3*ms, 0)
	c.st.Open = []futex.OpenWait{{Futex: mutex, TID: 10, Comm: "late", From: 900 * ms, Val: 2}}
	r := c.sum.Report(&c.st, futex.View{})
	if len(r.Locks) != 2 || len(r.Signals) != 1 || r.Locks[0].Kind != futex.Mutex || r.Locks[1].Kind != futex.PIMutex || r.Signals[0].Kind != futex.NotLock {
		t.Fatalf("locks %+v, signals %+v", r.Locks, r.Signals)
	}
	l := r.Locks[0]
	if l.Waits != 9 || l.Slept != 3 || l.Time != 50*ms+ms/10 || l.Open != 1 || l.OpenTime != 100*ms || l.Max != 30*ms || l.Wakes != 11 || l.Woken != 3 ||
		l.Results != [...]int64{futex.Woken: 3, futex.Changed: 5, futex.Open: 1} || l.Process.TGID != 7 || l.Process.Comm != "w" {
		t.Errorf("%+v", l)
	}
	var stacks int64
	var time tracefs.Time
	for _, s := range l.WaitStacks {
		stacks, time = stacks+s.Count, time+s.Time
		if (s.Stack == nil) != (s.None != "") {
			t.Errorf("stack %+v", s)
		}
	}
	if len(l.WaitStacks) != 3 || stacks != l.Slept || time != l.Time {
		t.Errorf("%d stacks of %d waits, %d ns, want 3, 3, %d", len(l.WaitStacks), stacks, time, l.Time)
	}
	if len(r.Longest) != 3 || r.Longest[0].TID != 9 || r.Longest[0].Time != 30*ms || len(r.Blocked) != 1 || r.Blocked[0].Comm != "late" {
		t.Errorf("longest %+v, blocked %+v", r.Longest, r.Blocked)
	}
	if r.Waitv.Waits != 1 || r.Waitv.Time != 3*ms || r.Calls != 8+11+1+1+1 || r.Contended.Time != 52*ms+ms/10 || r.Signalled.Time != 200*ms {
		t.Errorf("waitv %+v, %d calls, contended %+v, others %+v", r.Waitv, r.Calls, r.Contended, r.Signalled)
	}
	if r.ThreadCount != 2 || r.Verdict.LockUp() {
		t.Errorf("%d threads, verdict %+v", r.ThreadCount, r.Verdict)
	}
	text := write(t, r)
	for _, want := range []string{"by --source=bpf", "Whether threads hang is not known", "5 changed"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if strings.Contains(text, "released by") || strings.Contains(text, "released at") || strings.Contains(text, "held by") {
		t.Errorf("owners or releases in\n%s", text)
	}
}

// write writes a report in all forms, and returns the text.
func write(t *testing.T, r *futex.Report) string {
	t.Helper()
	var text, doc, folded bytes.Buffer
	if err := report.Text(&text, r, report.Options{}); err != nil {
		t.Fatal(err)
	}
	if err := report.Text(&text, r, report.Options{Brief: true, Top: 5}); err != nil {
		t.Fatal(err)
	}
	if err := report.JSON(&doc, r); err != nil || !json.Valid(doc.Bytes()) {
		t.Fatalf("%v in %s", err, &doc)
	}
	f, err := profile.ParseFormat("folded")
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Write(&folded, report.Profile(r)); err != nil {
		t.Fatal(err)
	}
	return text.String()
}

// TestSummedQuantiles: a quantile is no less than the true one and less than twice that, and
// exact where all waits are long.
func TestSummedQuantiles(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for round := range 200 {
		c := newCounted()
		id := futex.FutexID{Addr: 0x1000, TGID: 7}
		var all []tracefs.Time
		n := 1 + rnd.IntN(300)
		long := round%2 == 0
		for range n {
			d := tracefs.Time(1) << rnd.IntN(30)
			d += tracefs.Time(rnd.Int64N(int64(d)))
			if long {
				d += ms
			}
			all = append(all, d)
			c.wait(id, 8, 0, d, 0)
		}
		slices.Sort(all)
		l := c.sum.Report(&c.st, futex.View{}).Locks[0]
		var sum tracefs.Time
		for _, d := range all {
			sum += d
		}
		p50 := all[(n+1)/2-1]
		// The classes of what is known exactly are less than 7 % apart.
		if limit := 2 * p50; l.P50 < p50 || l.P50 >= limit || long && float64(l.P50) > 1.07*float64(p50) {
			t.Errorf("round %d: p50 %d, want %d", round, l.P50, p50)
		}
		if most := all[n-1]; l.Max < most || l.Max > 2*most || most >= ms && l.Max != most {
			t.Errorf("round %d: max %d, want %d", round, l.Max, most)
		}
		if l.Time != sum || l.Slept != int64(n) || l.Mean != sum/tracefs.Time(n) {
			t.Errorf("round %d: %d in %d waits, want %d in %d", round, l.Time, l.Slept, sum, n)
		}
		var in int64
		for _, b := range l.Histogram {
			in += b.Count
		}
		if in != int64(n) {
			t.Errorf("round %d: %d waits in the histogram, want %d", round, in, n)
		}
	}
}

// TestSummedLoss: what is missing is said, each by itself, and the futexes that were too many
// are a row of their own.
func TestSummedLoss(t *testing.T) {
	c := newCounted()
	c.wait(futex.FutexID{Addr: 0x1000, TGID: 7}, 8, 0, 2*ms, 0)
	c.st.Others = futex.CallSum{Slept: 4, Time: 9 * ms, Buckets: make([]uint64, 44)}
	c.st.Others.Results[futex.Woken] = 4
	c.st.Loss = futex.SummedLoss{Waits: 11, Records: 12, Apart: 13, Before: 14, Missed: 15, Children: 16}
	r := c.sum.Report(&c.st, futex.View{})
	text := write(t, r)
	for _, want := range []string{"11 waits are missing", "12 waits are counted and have no stack", "13 calls are of futexes", "14 waits began before", "15 entries or returns", "16 processes"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if o := r.OtherSignals; o == nil || o.Waits != 4 || o.Time != 9*ms || r.All.Time != 11*ms {
		t.Errorf("others %+v, all %+v", o, r.All)
	}
	if r := c.sum.Report(&c.st, futex.View{PIDs: []int32{9}}); len(r.Locks)+len(r.Signals) > 0 || r.OtherSignals != nil {
		t.Errorf("locks of another process: %+v", r)
	}
}

// TestSummedKinds: a word beside another one is a condition variable's, and the kind of a futex
// shows in waits that have not ended.
func TestSummedKinds(t *testing.T) {
	c := newCounted()
	half := futex.FutexID{Addr: 0x1028, TGID: 7}
	alone, other := half, half
	alone.Addr, other.Addr = 0x2028, half.Addr^4
	for _, id := range []futex.FutexID{half, alone, other} {
		for range 5 {
			c.wait(id, 8, 0, ms, 0)
		}
		s := c.of(id)
		s.Zero, s.Bitset, s.NoTimeout, s.Wakes, s.Woken = 5, true, true, 5, 5
	}
	mutex, park := futex.FutexID{Addr: 0x3000, TGID: 7}, futex.FutexID{Addr: 0x4000, TGID: 7}
	c.st.Open = []futex.OpenWait{{Futex: mutex, TID: 8, From: 900 * ms, Val: 2, Cmd: syscalls.Wait}, {Futex: park, TID: 9, From: 900 * ms, Cmd: syscalls.Wait}}
	r := c.sum.Report(&c.st, futex.View{})
	want := map[uint64]futex.Kind{half.Addr: futex.Condvar, other.Addr: futex.Condvar, alone.Addr: futex.Semaphore, mutex.Addr: futex.Mutex, park.Addr: futex.Signal}
	for _, l := range slices.Concat(r.Locks, r.Signals) {
		if l.Kind != want[l.Address] {
			t.Errorf("%#x is %s, want %s", l.Address, l.Kind, want[l.Address])
		}
		delete(want, l.Address)
	}
	if len(want) > 0 {
		t.Errorf("no rows of %v", want)
	}
}

// TestSummedPrograms: an address is another futex in another process, after an exec, and of
// another process with the same number.
func TestSummedPrograms(t *testing.T) {
	c := newCounted()
	for i, id := range []futex.FutexID{
		{Addr: 0x1000, TGID: 7, Memory: 1, Born: 1}, {Addr: 0x1000, TGID: 7, Memory: 2, Born: 1}, {Addr: 0x1000, TGID: 7, Memory: 1, Born: 3},
		{Addr: 0x1000, TGID: 8, Memory: 1, Born: 1}, {Addr: 0x1000, TGID: 7, Memory: 1, Born: 1, Shared: true},
	} {
		c.wait(id, 8, 0, tracefs.Time(i+2)*ms, 0)
	}
	r := c.sum.Report(&c.st, futex.View{})
	var times []tracefs.Time
	for _, l := range slices.Concat(r.Locks, r.Signals) {
		times = append(times, l.Time)
	}
	slices.Sort(times)
	if !slices.Equal(times, []tracefs.Time{2 * ms, 3 * ms, 4 * ms, 5 * ms, 6 * ms}) {
		t.Errorf("times %v", times)
	}
}
