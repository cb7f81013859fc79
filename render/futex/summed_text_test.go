//go:build !device

package futex

import (
	"bytes"
	"math"
	"reflect"
	"testing"

	"ustack/filemap/resolve"
	"ustack/tracefs/syscalls"
)

// textExamples are a line of each kind.
func textExamples() (wait LongWait, open OpenWait, id FutexID, sum CallSum, loss SummedLoss) {
	id = FutexID{Addr: 0x7f0000000040, Memory: 1<<63 + 5, Born: 12345, TGID: 77, Shared: true}
	wait = LongWait{Futex: id, From: 1000, To: 21000, TID: 78, Comm: []byte("a b=c\n"), Ret: syscalls.ETIMEDOUT}
	open = OpenWait{Futex: id, TID: 79, Comm: "x", From: 9, Val: 1 << 31, Cmd: syscalls.WaitBitset, Timeout: true}
	sum = CallSum{Results: [Open]int64{1, 2, 3, 4, 5, 6}, Wakes: 7, Woken: 8, Slept: 9, Time: 10, Buckets: []uint64{0, 0, 5, 0, 4}, Zero: 1, Two: 2, Three: 3, Owner: 4, Count: 5,
		Bitset: true, Several: true, Comm: "woken=1 comm=x"}
	return wait, open, id, sum, SummedLoss{1, 2, 3, 4, 5, 6, 7, 8, 9}
}

// TestSummedText: what is written is read as it was.
func TestSummedText(t *testing.T) {
	wait, open, id, sum, loss := textExamples()
	var s summedTrace
	for i, line := range [][]byte{AppendSummedTime(nil, 5, 500, 10, &loss), AppendLongWait(nil, &wait), AppendSum(nil, &id, &sum), AppendOthers(nil, &sum), AppendOpenWait(nil, &open)} {
		if !s.event(&resolve.Pending{}, 0, append(line, "\n# a comment\n"...)) || s.bad > 0 {
			t.Fatalf("line %d is not read: %q", i, line)
		}
	}
	if got := s.state.Sums[id]; got == nil || !reflect.DeepEqual(*got, sum) {
		t.Errorf("the sum is %+v, not %+v", got, sum)
	}
	others := sum
	if others.Comm = ""; !reflect.DeepEqual(s.state.Others, others) {
		t.Errorf("the others are %+v, not %+v", s.state.Others, others)
	}
	if len(s.state.Open) != 1 || s.state.Open[0] != open {
		t.Errorf("open: %+v, not %+v", s.state.Open, open)
	}
	if s.state.Loss != loss || s.sum.Start != 5 || s.state.End != 500 || s.sum.MinWait != 10 {
		t.Errorf("%+v from %d to %d, waits of %d", s.state.Loss, s.sum.Start, s.state.End, s.sum.MinWait)
	}
	longs := s.sum.longest
	if len(longs) != 1 || longs[0].Comm != string(wait.Comm) || longs[0].TID != wait.TID || longs[0].Time != 20000 || longs[0].Result != TimedOut {
		t.Errorf("long waits: %+v", longs[0])
	}
}

// TestSummedSince: the differences of sums, added up, are the last sum.
func TestSummedSince(t *testing.T) {
	_, _, _, first, loss := textExamples()
	second := first
	second.Buckets = append([]uint64(nil), first.Buckets...)
	second.Add(&CallSum{Results: [Open]int64{3}, Wakes: 1, Slept: 3, Time: 30, Buckets: []uint64{0, 0, 0, 0, 0, 3}, PI: true})
	d, calls := second.Since(&first)
	if calls != 4 || d.Time != 30 || d.Buckets[5] != 3 {
		t.Errorf("%d calls, %+v", calls, d)
	}
	all := CallSum{Comm: first.Comm}
	all.Add(&first)
	all.Add(&d)
	if !reflect.DeepEqual(all, second) {
		t.Errorf("%+v, not %+v", all, second)
	}
	more := loss
	more.Add(&loss)
	if more.Since(&loss) != loss {
		t.Errorf("%+v", more)
	}
}

// TestSummedHuge: lines of a trace can have the largest numbers, several times; no sum of them
// becomes negative.
func TestSummedHuge(t *testing.T) {
	wait, open, id, sum, loss := textExamples()
	const most = math.MaxInt64
	for _, n := range sum.counts() {
		*n = most
	}
	for i := range sum.Results {
		sum.Results[i] = most
	}
	sum.Time, wait.From, wait.To, open.From = most, 0, most, 0
	sum.Buckets = []uint64{0, most, most}
	other := id
	other.Addr += 64
	var s summedTrace
	for range 3 {
		for _, line := range [][]byte{AppendSummedTime(nil, 0, most, 10, &loss), AppendLongWait(nil, &wait), AppendSum(nil, &id, &sum), AppendSum(nil, &other, &sum), AppendOthers(nil, &sum),
			AppendOpenWait(nil, &open), AppendOpenWait(nil, &open)} {
			if !s.event(&resolve.Pending{}, 0, line) || s.bad > 0 {
				t.Fatalf("not read: %q", line)
			}
		}
	}
	r := s.report(&Report{}, View{Top: 10})
	for _, sum := range []*Sum{&r.All, &r.Contended, &r.Signalled} {
		if sum.Waits < 0 || sum.Time < 0 || sum.OpenTime < 0 || sum.Low < 0 || sum.High < 0 {
			t.Errorf("negative: %+v", *sum)
		}
	}
	if r.Calls < 0 || r.All.Waits != most || r.All.Time != most {
		t.Errorf("%d calls, %d waits, %d", r.Calls, r.All.Waits, r.All.Time)
	}
	for _, th := range r.Threads {
		if th.Count < 0 || th.Time < 0 {
			t.Errorf("negative: %+v", th)
		}
	}
	for _, l := range append(r.Locks, r.Signals...) {
		if l.Waits != most || l.Sum.Time != most || l.Mean < 0 || l.P99 < 0 || l.Max < 0 || l.High < 0 || l.Wakes != most {
			t.Errorf("negative: %+v", l.Sum)
		}
		for _, x := range l.WaitStacks {
			if x.Count < 0 || x.Time < 0 {
				t.Errorf("negative: %+v", x)
			}
		}
	}
}

// FuzzSummedText: no line makes the reader fail, numbers stay in bounds, and a line that is read
// is written again as one that is read the same.
func FuzzSummedText(f *testing.F) {
	wait, open, id, sum, loss := textExamples()
	for _, line := range [][]byte{AppendSummedTime(nil, 5, 500, 10, &loss), AppendLongWait(nil, &wait), AppendSum(nil, &id, &sum), AppendOthers(nil, &sum), AppendOpenWait(nil, &open), []byte(sumEvent), []byte(longEvent + " futex=0x")} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		var s, again summedTrace
		s.event(&resolve.Pending{}, 0, line)
		if s.sum == nil {
			return
		}
		s.report(&Report{}, View{})
		for id, c := range s.state.Sums {
			text := AppendSum(nil, &id, c)
			again.event(&resolve.Pending{}, 0, text)
			if got := again.state.Sums[id]; again.bad > 0 || got == nil || !bytes.Equal(AppendSum(nil, &id, got), text) {
				t.Fatalf("%q of %q is read as %+v", text, line, got)
			}
		}
	})
}
