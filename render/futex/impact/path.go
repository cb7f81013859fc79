package impact

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"ustack/tracefs"
	"ustack/tracefs/sorting"
)

// Path is the critical path between two times. Its parts are its length: the time in
// which the thread that it is on ran, was runnable, was blocked until an interrupt came
// (a timer, a device), and what the trace does not know.
type Path struct {
	From, To                            tracefs.Time
	Running, Runnable, Blocked, Unknown tracefs.Time
	// Jumps is how often it goes from a waiter to its waker, Last the thread at its end.
	Jumps int
	Last  int32
	Locks []LockPart // the largest first
}

// LockPart is a lock's part of the path: what its owner did there while the next thread
// of the path waited for it, or in a hold that the trace knows.
type LockPart struct {
	Lock int32 // its number in the Log
	Time tracefs.Time
}

// ErrNoSwitches means that the trace has no sched_switch.
var ErrNoSwitches = errors.New("the trace has no sched_switch: enable sched_switch and sched_waking")

// Find returns the critical path between two places: times as a trace prints them, or
// texts of markers; empty for the first and the last.
func Find(l *Log, from, to string, isLock func(int32) bool) (*Path, error) {
	a := read(l, isLock)
	if !a.switches {
		return nil, ErrNoSwitches
	}
	start, _, err := l.place(from, a.start, a.start)
	if err != nil {
		return nil, err
	}
	end, tid, err := l.place(to, start, a.end)
	if err != nil {
		return nil, err
	}
	if end <= start {
		return nil, fmt.Errorf("--to %q is not after --from %q", to, from)
	}
	return a.path(start, end, tid), nil
}

// place understands where a path begins or ends, and returns which thread is there, 0
// if that is not said.
func (l *Log) place(text string, after, otherwise tracefs.Time) (tracefs.Time, int32, error) {
	if text == "" {
		return otherwise, 0, nil
	}
	for i := range l.list {
		if e := &l.list[i]; e.kind == marker && e.at >= after && strings.Contains(l.texts[e.b], text) {
			return e.at, e.a, nil
		}
	}
	seconds, rest, _ := strings.Cut(text, ".")
	s, err := strconv.ParseUint(seconds, 10, 32)
	ns, err2 := strconv.ParseUint((rest + "000000000")[:9], 10, 32)
	if err := errors.Join(err, err2); err != nil || len(rest) > 9 {
		return 0, 0, fmt.Errorf("%q is neither a time of the trace nor the text of a marker", text)
	}
	return tracefs.Time(s)*1e9 + tracefs.Time(ns), 0, nil
}

// walk goes along the path, backward.
type walk struct {
	*activity
	p     *Path
	th    *thread
	waits []wanted // innermost last
	sums  map[int32]tracefs.Time
}

// wanted is the lock that the next thread of the path waits for, since a time.
type wanted struct {
	lock int32
	from tracefs.Time
}

// path finds the critical path. It ends on a thread, 0 for the one that uses futexes and
// ran last.
func (a *activity) path(from, to tracefs.Time, tid int32) *Path {
	w := &walk{activity: a, p: &Path{From: from, To: to}, sums: make(map[int32]tracefs.Time), th: a.threads[tid]}
	t := to
	if w.th == nil {
		w.th = a.last(from, to)
	}
	if w.th != nil {
		w.p.Last = w.th.tid
	}
	for t > from {
		if w.th == nil {
			w.add(&w.p.Unknown, from, t)
			break
		}
		t = w.step(t)
	}
	for lock, d := range w.sums {
		w.p.Locks = append(w.p.Locks, LockPart{lock, d})
	}
	sorting.Func(w.p.Locks, func(x, y LockPart) int { return cmp.Or(cmp.Compare(y.Time, x.Time), cmp.Compare(x.Lock, y.Lock)) })
	return w.p
}

// last returns the thread with futex calls that ran last.
func (a *activity) last(from, to tracefs.Time) (last *thread) {
	at := from
	for _, th := range a.order {
		if len(th.calls) == 0 {
			continue
		}
		for i := th.at(to); i >= 0; i-- {
			if s := th.segment(i); s.state == running {
				if end := min(s.to, to); end > at {
					at, last = end, th
				}
				break
			}
		}
	}
	return last
}

// step adds the segment that ends at a time, and returns where it begins.
func (w *walk) step(t tracefs.Time) tracefs.Time {
	i := w.th.at(t)
	if i < 0 {
		parent := w.threads[w.th.parent]
		if parent == nil || len(w.th.list) == 0 || w.th.list[0].from < t {
			w.add(&w.p.Unknown, w.p.From, t)
			return w.p.From
		}
		w.th = parent
		w.p.Jumps++
		if i = w.th.at(t); i < 0 {
			w.add(&w.p.Unknown, w.p.From, t)
			return w.p.From
		}
	}
	s := w.th.segment(i)
	from := max(s.from, w.p.From)
	switch {
	case s.state == running:
		w.add(&w.p.Running, from, t)
	case s.state == runnable:
		w.add(&w.p.Runnable, from, t)
	case s.state == blocked && s.waker == 0:
		w.add(&w.p.Blocked, from, t)
	case s.state == blocked && s.to == t && w.known(s.waker, t):
		if s.lock >= 0 {
			w.waits = append(w.waits, wanted{s.lock, s.from})
		}
		w.th = w.threads[s.waker]
		w.p.Jumps++
		return w.step(t)
	default:
		w.add(&w.p.Unknown, from, t)
	}
	return from
}

// known reports whether a thread was on a CPU up to a time, as it must be to wake
// another. It keeps the path from going in circles.
func (w *walk) known(tid int32, t tracefs.Time) bool {
	th := w.threads[tid]
	if th == nil || th == w.th {
		return false
	}
	i := th.at(t)
	if i < 0 {
		return false
	}
	s := th.segment(i)
	if s.state == running {
		return true
	}
	// That it came on its CPU is not in the trace: waking is the first that shows it. What
	// was before has a length, and no jump leads away from it at once.
	return i+1 < len(th.list) && th.list[i+1].from == t && th.list[i+1].state() == running && (s.state != blocked || s.waker <= 0)
}

// add adds a part of the path, and charges it to the lock that it is for.
func (w *walk) add(part *tracefs.Time, from, to tracefs.Time) {
	*part += to - from
	if part == &w.p.Unknown {
		return
	}
	for to > from {
		for n := len(w.waits); n > 0 && w.waits[n-1].from >= to; n-- {
			w.waits = w.waits[:n-1]
		}
		lock, at := int32(-1), from
		if n := len(w.waits); n > 0 {
			lock, at = w.waits[n-1].lock, max(from, w.waits[n-1].from)
		} else {
			l, since := w.th.holding(to)
			lock, at = l, max(from, since)
		}
		if lock >= 0 {
			w.sums[lock] += to - at
		}
		to = at
	}
}
