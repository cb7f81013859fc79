//go:build !device && (amd64 || arm64)

package sums

import (
	"cmp"
	"slices"

	"ustack/filemap/procmap"
	"ustack/render/futex"
	"ustack/tracefs/bpffutex"
)

// now returns what has been counted until now, with the waits that have not ended.
func (s *session) now(before map[futex.FutexID]*futex.CallSum) (*futex.SummedState, error) {
	st, err := s.state(before)
	if err == nil {
		err = s.waiting(st)
	}
	return st, err
}

// state returns what has been counted until now. Sums that are as they were before are those that
// were returned then: most of many are. The programs count a call step by step, and a sum may be
// read in between: all of it is compared.
func (s *session) state(before map[futex.FutexID]*futex.CallSum) (*futex.SummedState, error) {
	st := &futex.SummedState{End: cmp.Or(s.stopped, s.clock.mono()), Variable: s.static.variable, Sums: make(map[futex.FutexID]*futex.CallSum, len(before))}
	err := s.source.Sums(func(f bpffutex.Futex, sum *bpffutex.Sum) error {
		id := s.to.id(&f)
		now, c := callSum(sum), before[id]
		if c == nil || !c.Equal(&now) {
			one := now
			one.Buckets = slices.Clone(now.Buckets) // the source uses its own again
			c = &one
		}
		st.Sums[id] = c
		return nil
	})
	if err != nil {
		return nil, err
	}
	others, err := s.source.Others()
	if err != nil {
		return nil, err
	}
	st.Others = callSum(&others)
	l, err := s.source.Loss()
	if err != nil {
		return nil, err
	}
	st.Loss = futex.SummedLoss{Waits: int64(l.Waits), Records: int64(l.Records), Apart: int64(l.Apart), Before: int64(l.Before), Missed: int64(l.Missed), Children: int64(l.Children), Gone: s.room.count, Requeues: int64(l.Requeues)}
	return st, nil
}

// waiting adds the waits that have not ended.
func (s *session) waiting(st *futex.SummedState) error {
	names := procmap.FilesOf(s.files.reader)
	return s.source.Waiting(func(w bpffutex.Waiting) {
		if w.Broken || w.From > st.End {
			return
		}
		o := futex.OpenWait{Futex: s.to.id(&w.Futex), TID: w.TID, From: w.From, Val: w.Val, Cmd: w.Cmd, Timeout: w.Timeout}
		if stat, err := names.ThreadStat(int(w.TGID), int(w.TID)); err == nil {
			o.Comm = stat.TaskComm()
		}
		st.Open = append(st.Open, o)
	})
}

// callSum returns a sum as the report takes it. Its buckets are those of s.
func callSum(s *bpffutex.Sum) futex.CallSum {
	r, v := &s.Results, &s.Values
	c := futex.CallSum{
		Wakes: int64(s.Wakes), Woken: int64(s.Woken), Slept: int64(s.Slept), Time: s.Time, Buckets: s.Buckets[:],
		Zero: int64(v.Zero), Two: int64(v.Two), Three: int64(v.Three), Owner: int64(v.Owner), Count: int64(v.Count),
		Plain: s.Seen.Plain, Bitset: s.Seen.Bitset, PI: s.Seen.PI, Requeue: s.Seen.Requeue, Realtime: s.Seen.Realtime, Endless: s.Seen.Endless,
		Timeout: s.Seen.Timeout, NoTimeout: s.Seen.NoTimeout, Several: s.Seen.Several, Comm: string(s.Comm),
	}
	for i, n := range [...]uint64{r.Woken, r.Changed, r.TimedOut, r.Interrupted, r.Requeued, r.Failed} {
		c.Results[i] = int64(n)
	}
	return c
}
