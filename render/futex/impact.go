package futex

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"

	"ustack/filemap/resolve"
	"ustack/render/futex/impact"
	"ustack/tracefs"
	"ustack/tracefs/sched"
	"ustack/tracefs/sorting"
	"ustack/tracefs/syscalls"
)

// impactLog fills a Log for package impact, whose locks have numbers.
type impactLog struct {
	log     *impact.Log // nil if it is not wanted
	locks   numbering   // nil for ones that were not known when they were released
	unknown map[threadKey]int32
	view    ImpactView
	whole   *impact.Path // of the whole trace, nil if it was not looked for
	path    *impact.Path // that the view is of, nil if there is none, for which err is why
	err     error
	// forOrder is set if it is wanted only as far as it is whole.
	forOrder bool
}

// threadKey is a futex as a thread has it.
type threadKey struct {
	th  *thread
	key lockKey
}

func newImpactLog(opt Options, lk *locks) impactLog {
	g := impactLog{unknown: make(map[threadKey]int32), locks: numbering{locks: lk}}
	switch {
	case opt.Impact.On:
		g.log, g.view = impact.NewLog(0), opt.Impact
	case opt.Order:
		g.log, g.forOrder = impact.NewLog(orderEntries), true
	default:
		return impactLog{}
	}
	return g
}

// drop forgets a log that is wanted for the order of locks only and cannot give it: it lacks
// something, or has no switches.
func (g *impactLog) drop() {
	const some = 1 << 12 // entries that have a switch if any have
	if g.forOrder && (g.log.Lacks() || g.log.Len() == some && !g.log.Switches()) {
		*g = impactLog{}
	}
}

// number returns the number of a lock, which may become another's part later; -1 if it has none
// and the log has no room for what it is used for.
func (g *impactLog) number(l *lock) int32 {
	if l.inLog == 0 && !g.log.Full() {
		l.inLog = g.locks.add(l) + 1
	}
	return l.inLog - 1
}

// maxUnknown bounds the futexes that threads release and are not known to wait for.
const maxUnknown = 1 << 14

// later returns the number of a futex whose lock is known at the end, perhaps; -1 if
// there are too many.
func (g *impactLog) later(at threadKey) int32 {
	n, ok := g.unknown[at]
	if !ok {
		if len(g.unknown) >= maxUnknown || g.log.Full() {
			return -1
		}
		n = g.locks.add(nil)
		g.unknown[at] = n
	}
	return n
}

// isLock reports whether one thread at a time holds what has a number.
func (g *impactLog) isLock(n int32) bool {
	return g.locks.list[n] != nil && g.locks.list[n].kind().exclusive()
}

// settle finds the locks that have become one: each has the number of the first.
func (g *impactLog) settle() {
	for at, n := range g.unknown {
		g.locks.list[n] = g.locks.locks.known(at.th, at.key)
	}
	first := make(map[*lock]int32)
	names := make([]int32, len(g.locks.list))
	for n, l := range g.locks.list {
		names[n] = -1
		if l == nil {
			continue
		}
		g.locks.list[n] = l.find()
		if _, ok := first[l.find()]; !ok {
			first[l.find()] = int32(n)
		}
		names[n] = first[l.find()]
	}
	g.log.Rename(func(n int32) int32 {
		if n < 0 {
			return n
		}
		return names[n]
	})
}

// call takes a call of a thread, which c has taken.
func (g *impactLog) call(c *calls, rec *tracefs.Record, t tracefs.Time) {
	if g.log == nil {
		return
	}
	if g.drop(); g.log == nil {
		return
	}
	th := c.tasks.threadOf(rec.TID)
	if c.sys.Exit {
		if th != nil && th.waitInLog {
			th.waitInLog = false
			g.log.Returns(t, rec.TID, c.sys.HasResult && (c.sys.Result >= 0 || c.sys.Result == syscalls.EAGAIN))
		}
		return
	}
	switch {
	case th == nil:
	case th.wait != nil && th.wait.lock != nil:
		th.waitInLog = true
		g.log.Waits(t, rec.TID, g.number(th.wait.lock.find()))
	case th.wake != nil && th.wake.lock != nil:
		g.log.Wakes(t, rec.TID, g.number(th.wake.lock.find()))
	case th.wake != nil:
		g.log.Wakes(t, rec.TID, g.later(threadKey{th, th.wake.key}))
	}
}

// sched takes a scheduler event.
func (g *impactLog) sched(h *resolve.Pending, rec *tracefs.Record, e *sched.Event) {
	if g.log == nil {
		return
	}
	switch t := h.Time(rec); e.Kind {
	case sched.Switch:
		g.log.Switch(t, rec.CPU, rec.TID, e.State, e.TID)
	case sched.Waking:
		waker := rec.TID
		if tracefs.InInterrupt(h.Head(rec).Flags) || waker == e.TID {
			waker = 0
		}
		g.log.Waking(t, waker, e.TID)
	case sched.NewTask:
		g.log.Created(t, rec.TID, e.TID)
	}
}

// marker takes a text that a program wrote to trace_marker.
func (g *impactLog) marker(h *resolve.Pending, rec *tracefs.Record, body []byte) {
	const name = "tracing_mark_write"
	if g.log == nil {
		return
	}
	body = bytes.TrimPrefix(body, []byte("print: "))
	if text, ok := bytes.CutPrefix(body, []byte(name)); ok {
		g.log.Marker(h.Time(rec), rec.TID, string(bytes.Trim(text, ": \n")))
	}
}

func (g *impactLog) lost() {
	if g.log != nil {
		g.log.Lost()
	}
}

// ImpactView is what is wanted of the impact of locks: the part of the trace, see
// impact.Find, and changes.
type ImpactView struct {
	On       bool
	From, To string
	WhatIf   []impact.Change
}

// Impact is what the run time depends on. Err is why it is unknown, nil if it is not.
type Impact struct {
	Err   error
	Path  *impact.Path
	Locks []ImpactLock
	// Changes are what was asked for, Prediction what they would do together.
	Changes    []impact.Change
	Prediction *impact.Prediction
}

// ImpactLock is a lock and its time on the critical path.
type ImpactLock struct {
	Lock *Lock
	Time tracefs.Time
}

// joins is 1 if threads wait for the end of another one: nothing of that can be made shorter
// but what that thread does. It is 0 else.
func (l ImpactLock) joins() int {
	if l.Lock.Kind == Join {
		return 1
	}
	return 0
}

// find returns the critical path between two places. That of the whole trace is found once.
func (g *impactLog) find(from, to string) (*impact.Path, error) {
	if from != "" || to != "" {
		return impact.Find(g.log, from, to, g.isLock)
	}
	var err error
	if g.whole == nil {
		g.whole, err = impact.Find(g.log, "", "", g.isLock)
	}
	return g.whole, err
}

// ahead finds the critical path, if it is wanted, while there is no report yet: each takes much
// memory. Then the log goes, unless changes are to be predicted.
func (g *impactLog) ahead() {
	if g.log == nil {
		return
	}
	if g.view.On {
		g.settle()
		g.path, g.err = g.find(g.view.From, g.view.To)
	}
	if len(g.view.WhatIf) == 0 {
		g.log = nil
	}
}

// impactRows are the rows of a report, and the row of each lock.
type impactRows struct {
	stacks *stacks
	list   []*Lock
	of     map[*lock]*Lock
}

func (a *Analysis) impactRows() *impactRows {
	r := a.reporter.report(View{bare: true})
	rows := &impactRows{&a.stacks, slices.Concat(r.Locks, r.Signals), make(map[*lock]*Lock)}
	for _, l := range rows.list {
		for _, part := range l.parts {
			rows.of[part.find()] = l
		}
	}
	return rows
}

// Impact finds what the run time depends on, as Options.Impact wants it, after Report.
func (a *Analysis) Impact() *Impact {
	g := &a.impact
	out := &Impact{Changes: g.view.WhatIf, Path: g.path, Err: g.err}
	if out.Err != nil {
		return out
	}
	rows := a.impactRows()
	times := make(map[*Lock]tracefs.Time)
	for _, part := range out.Path.Locks {
		if l := rows.of[g.locks.list[part.Lock]]; l != nil {
			times[l] += part.Time
		}
	}
	for _, l := range rows.list {
		if t := times[l]; t > 0 || l.Contends() {
			out.Locks = append(out.Locks, ImpactLock{l, t})
		}
	}
	sorting.StableFunc(out.Locks, func(x, y ImpactLock) int {
		return cmp.Or(cmp.Compare(x.joins(), y.joins()), cmp.Compare(y.Time, x.Time))
	})
	if len(g.view.WhatIf) > 0 {
		out.Prediction, out.Err = g.predict(rows)
	}
	return out
}

// predict replays what the log has with the changes that are asked for.
func (g *impactLog) predict(rows *impactRows) (*impact.Prediction, error) {
	v := &g.view
	changes := make(map[int32]impact.Change)
	for _, c := range v.WhatIf {
		found := false
		for _, l := range rows.list {
			l.asked = l.exclusive() && rows.called(l, c.Lock)
			found = found || l.asked
		}
		if !found {
			return nil, fmt.Errorf("--what-if: no lock that one thread holds at a time is called %q", c.Lock)
		}
		for n, l := range g.locks.list { // a lock has none if the log was full
			if row := rows.of[l]; row != nil && row.asked && g.isLock(int32(n)) {
				changes[int32(n)] = c
			}
		}
	}
	return impact.Predict(g.log, v.From, v.To, g.isLock, changes)
}

// exclusive reports whether one thread at a time holds a futex of a row.
func (l *Lock) exclusive() bool {
	for _, part := range l.parts {
		if part.find().kind().exclusive() {
			return true
		}
	}
	return false
}

// called reports whether a user can mean a lock: by its number in the report, its
// address, its variable or a function that waits for it.
func (rows *impactRows) called(l *Lock, name string) bool {
	if name == fmt.Sprint(l.Rank) || name == fmt.Sprintf("#%d", l.Rank) || name == fmt.Sprintf("%#x", l.Address) {
		return l.Contends() || strings.HasPrefix(name, "0x")
	}
	if l.Variable != nil && l.Variable.Name == name {
		return true
	}
	for i := range l.lock.flows.list {
		if passes(rows.stacks.Get(l.lock.flows.list[i].key.wait), name) {
			return true
		}
	}
	return false
}

// passes reports whether a stack, nil if there is none, has a function of a name.
func passes(s *Stack, function string) bool {
	return s != nil && slices.ContainsFunc(s.Frames, func(f Frame) bool { return f.Name != nil && f.Name.Function == function })
}
