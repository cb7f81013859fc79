package futex

import (
	"slices"

	"ustack/tracefs"
)

// span is a part of a thread's life between two of its system call records.
// If records were lost meanwhile, anything can have happened in it; that is
// known only when the CPU that lost them has its next record. Until then
// spans wait.
type span struct {
	th       *thread
	from, to tracefs.Time
	kind     spanKind
	// lock and time are what the span was counted as.
	lock *lock
	time tracefs.Time
	// waker is the waker's lock: evidence that both locks are one, if nothing
	// was lost.
	waker *lock
}

type spanKind uint8

const (
	// spanFree: from a return to the next entry.
	spanFree spanKind = iota
	// spanCall: from an entry to its return.
	spanCall
	// spanSure: the same, and the kernel's cookie proves that they are a pair.
	spanSure
	// spanBroken: from an entry to an entry, or from a return to a return.
	spanBroken
)

// maxSpans bounds how many spans wait; when an idle CPU keeps too many, the
// oldest are settled as if nothing had been lost.
const maxSpans = 1 << 16

// spans is a queue of spans in the order in which they ended.
type spans struct {
	list    []span
	head    int
	settled tracefs.Time // spans that ended before this have been settled
	late    bool         // a gap was found that reaches back before that
	known   bool         // all gaps are known beforehand
}

// disturbed notes a gap that begins at from.
func (s *spans) disturbed(from tracefs.Time) {
	if from < s.settled {
		s.late = true
	}
}

// span adds a span.
func (ls *losses) span(s span) {
	s.to = max(s.to, s.from) // clocks of CPUs differ
	q := &ls.spans
	if len(q.list)-q.head >= maxSpans {
		ls.settleFirst(maxSpans / 8)
	}
	if len(q.list) == cap(q.list) && q.head > len(q.list)/2 {
		n := copy(q.list, q.list[q.head:])
		clear(q.list[n:])
		q.list, q.head = q.list[:n], 0
	}
	q.list = append(q.list, s)
}

// settle assesses the spans that ended before a time: no later gap begins
// earlier.
func (ls *losses) settle(before tracefs.Time) {
	q := &ls.spans
	for q.head < len(q.list) && (q.list[q.head].to < before || q.known) {
		ls.assess(&q.list[q.head])
		q.list[q.head] = span{}
		q.head++
	}
	if q.head == len(q.list) {
		q.list, q.head = q.list[:0], 0
	}
	q.settled = max(q.settled, before)
	ls.settled(before)
}

// settleFirst assesses the n oldest spans.
func (ls *losses) settleFirst(n int) {
	q := &ls.spans
	for ; n > 0 && q.head < len(q.list); n-- {
		s := &q.list[q.head]
		q.settled = max(q.settled, s.to)
		ls.assess(s)
		*s = span{}
		q.head++
	}
}

// assessment splits a span into certain and doubtful time: how long the thread
// can have waited unseen in it, and how much of that was counted.
type assessment struct {
	hides         bool
	hide, counted tracefs.Time
	broken        bool // a call of unknown end or beginning
	doubt         bool // what was counted may have been something else
}

// assess assesses a span.
func assess(g *Gaps, s *span) assessment {
	first, last, gap := g.Within(s.from, s.to)
	switch {
	case s.kind == spanBroken:
		// All of it may have been waiting.
		return assessment{broken: true, hide: s.to - s.from}
	case s.kind == spanSure || !gap:
		return assessment{}
	case s.kind == spanFree:
		// Whole waits can be hidden between the first and the last loss.
		return assessment{hides: true, hide: last - first}
	}
	// Another call may return here.
	return assessment{hides: true, hide: s.to - s.from, counted: s.time, doubt: true}
}

// assess counts the certain part of a span, once no gap can reach it any more.
func (ls *losses) assess(s *span) {
	j := assess(&ls.Gaps, s)
	switch {
	case j.broken:
		ls.unknownWait(s.th, j.hide)
	case j.hides:
		ls.hide(s.th, j.hide, j.counted)
		if j.doubt && s.lock != nil {
			s.lock.find().doubt += s.time
		}
	case s.waker != nil:
		ls.sameLock(s)
	}
}

// hide notes how long a thread can have waited unseen, of which a part was
// counted as something else. At least one record must have been lost for that.
func (ls *losses) hide(th *thread, d, counted tracefs.Time) {
	d = max(d, counted, 0)
	th.hidden += d
	ls.hidden.add(d - counted)
}

// hidden is the time that loss can hide: all of it, and the largest parts, the
// smallest of those first.
type hidden struct {
	all  tracefs.Time
	most []tracefs.Time
}

const maxHidden = 1 << 12

// by returns how much n lost records can hide: each part takes one at least.
func (h *hidden) by(n uint64, unknown bool) tracefs.Time {
	if unknown || n >= uint64(len(h.most)) {
		return h.all
	}
	sorted := slices.Clone(h.most)
	slices.Sort(sorted)
	var sum tracefs.Time
	for _, d := range sorted[len(sorted)-int(n):] {
		sum += d
	}
	return sum
}

// Len implements heap.Interface.
func (h *hidden) Len() int { return len(h.most) }

// Less implements heap.Interface.
func (h *hidden) Less(i, k int) bool { return h.most[i] < h.most[k] }

// Swap implements heap.Interface.
func (h *hidden) Swap(i, k int) { h.most[i], h.most[k] = h.most[k], h.most[i] }

// Push implements heap.Interface.
func (h *hidden) Push(x any) { h.most = append(h.most, x.(tracefs.Time)) }

// Pop implements heap.Interface.
func (h *hidden) Pop() any {
	x := h.most[len(h.most)-1]
	h.most = h.most[:len(h.most)-1]
	return x
}
