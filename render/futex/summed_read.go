//go:build !device

package futex

import (
	"bytes"

	"ustack/filemap/resolve"
	"ustack/filemap/symbol"
	"ustack/render/stackset"
	"ustack/tracefs"
)

// summedTrace is what a trace has of a source of sums: see AppendLongWait and the others.
//
// Invariants: futexes are no more than defaultLocks, the others are in one sum; open waits are no
// more than defaultThreads.
type summedTrace struct {
	sum   *Summed // nil before the first event
	state SummedState
	times bool // there was a time
	bad   int64
}

// event takes an event that may be of a source of sums. ok is false if it is none.
func (s *summedTrace) event(h *resolve.Pending, i int, body []byte) (ok bool) {
	line, _, _ := bytes.Cut(body, []byte{'\n'}) // comments can follow
	name, rest, _ := bytes.Cut(line, []byte{' '})
	l := summedLine{rest: rest, ok: true}
	switch string(name) {
	case longEvent:
		w := l.long()
		if s.take(l.ok) {
			w.Stack = stackset.Attached(h, i).Stack
			s.sum.Add(&w)
		}
	case sumEvent:
		id := l.futex()
		c := l.sum()
		if s.take(l.ok) && s.times { // else the ring has dropped the line with their time
			s.of(id, c.Comm).Add(&c)
		}
	case othersEvent:
		c := l.sum()
		if s.take(l.ok) && s.times {
			s.state.Others.Add(&c)
		}
	case openEvent:
		w := l.open()
		if s.take(l.ok) && len(s.state.Open) < defaultThreads {
			s.state.Open = append(s.state.Open, w)
		}
	case timeEvent:
		s.time(&l)
	default:
		return false
	}
	return true
}

// take reports whether a line is good, and begins with the first one.
func (s *summedTrace) take(good bool) bool {
	if !good {
		s.bad++
	} else if s.sum == nil {
		s.sum = NewSummed(0, 0)
		s.state.Sums = make(map[FutexID]*CallSum)
	}
	return good
}

// of returns the sum that a futex of a process with a name has so far.
func (s *summedTrace) of(id FutexID, comm string) *CallSum {
	c := s.state.Sums[id]
	if c == nil && len(s.state.Sums) >= defaultLocks {
		return &s.state.Others
	}
	if c == nil {
		c = &CallSum{Comm: comm}
		s.state.Sums[id] = c
	}
	return c
}

// time takes a time that sums are of. The waits that had not ended before it are known anew.
func (s *summedTrace) time(line *summedLine) {
	var from, to, least int64
	var l SummedLoss
	line.counts(&from, &to, &least)
	line.counts(&l.Waits, &l.Records, &l.Apart, &l.Before, &l.Missed, &l.Children, &l.Gone, &l.Limited, &l.Requeues)
	if !s.take(line.ok && from <= to) {
		return
	}
	if !s.times {
		s.times, s.sum.Start = true, tracefs.Time(from)
	}
	s.state.End, s.sum.MinWait = max(s.state.End, tracefs.Time(to)), tracefs.Time(least)
	s.state.Open = s.state.Open[:0]
	s.state.Loss.Add(&l)
}

// report returns the report of the sums, if there are some and the trace has no calls: r is the
// report of those.
func (s *summedTrace) report(r *Report, v View) *Report {
	if s.sum != nil && r.Calls == 0 {
		r = s.sum.Report(&s.state, v)
		if !s.times {
			r.note("the trace has no sums of --source=bpf: it was cut before the first of them")
		}
	} else if s.sum != nil {
		r.note("the trace has futex calls, and sums of --source=bpf: the sums are left out")
	}
	if s.bad > 0 {
		r.note("lines of --source=bpf that cannot be read: %d", s.bad)
	}
	return r
}

// only reports whether there are sums, and nothing else if there are no calls.
func (s *summedTrace) only() bool { return s.sum != nil }

// Name names the functions of stacks that have no names yet.
func (s *summedTrace) Name(names symbol.Namer) {
	if s.sum != nil {
		s.sum.Name(names)
	}
}
