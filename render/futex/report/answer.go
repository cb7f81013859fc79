package report

import (
	"fmt"
	"slices"

	"ustack/render/futex"
	"ustack/render/phrase"
	"ustack/tracefs"
)

// mostNamed is how many threads the answer names.
const mostNamed = 4

// summary is the answer in a few lines: what is contended most, who waits
// there, and what wakes them.
func (t *text) summary() {
	r := t.r
	if r.NoReturns || r.Calls == 0 {
		t.f("No report: %s.\n", r.Notes[0])
		t.noted = 1
		return
	}
	t.amounts()
	t.most()
	t.rest()
}

// amounts says how much waiting there is.
func (t *text) amounts() {
	r := t.r
	threads := phrase.Plural(r.ThreadCount, "thread")
	if r.ThreadRest.Count > 0 {
		threads = "at least " + threads
	}
	if r.LockCount == 0 && r.OtherLocks == nil {
		t.f("No lock contention in %s of trace", t.time(r.End-r.Start))
	} else {
		t.f("%s waited for %s, by %s in %s of trace", t.sum(&r.Contended), t.locks(), threads, t.time(r.End-r.Start))
	}
	if r.SignalCount > 0 {
		t.f("; %s of other waiting %s", t.sum(&r.Signalled), t.signals())
	}
	if r.PathTime > 0 {
		t.f("; the order is by the critical path")
	}
	t.b.WriteByte('\n')
}

// locks counts what has a row among the locks.
func (t *text) locks() string {
	r := t.r
	least := ""
	if r.OtherLocks != nil {
		least = "at least "
	}
	switch r.By {
	case futex.BySite:
		return "locks at " + least + phrase.Plural(r.LockCount, "site")
	case futex.ByKind:
		return "locks of " + least + phrase.Plural(r.LockCount, "kind")
	}
	return least + phrase.Plural(r.LockCount, "lock")
}

// signals counts what has a row among the others.
func (t *text) signals() string {
	switch n := t.r.SignalCount; {
	case t.r.By == futex.BySite:
		return "at " + phrase.Plural(n, "site")
	case t.r.By == futex.ByKind:
		return "of " + phrase.Plural(n, "kind")
	case n == 1:
		return "at 1 condition variable, join or parked thread"
	default:
		return fmt.Sprintf("at %d condition variables, joins and parked threads", n)
	}
}

// most describes the lock that is waited for most.
func (t *text) most() {
	r := t.r
	switch {
	case len(r.Locks) > 0:
	case r.LockCount > 0:
		t.f("No lock had a wait that is long enough to be shown.\n")
		return
	case r.OtherLocks != nil:
		t.f("All of them were too many to keep apart.\n")
		return
	default:
		return
	}
	l := r.Locks[0]
	t.f("Most: %s, %s in %s", t.lockName(l), t.sum(&l.Sum), phrase.Plural64(l.Slept+l.Open, "wait"))
	if total := r.Contended.Time + r.Contended.OpenTime; total > 0 {
		t.f(" (%s of all)", phrase.Percent(l.Time+l.OpenTime, total))
	}
	t.b.WriteByte('\n')
	t.path(l)
	if len(l.Waiters) > 0 {
		t.f("  waiting     %s\n              at %s\n", t.who(l.Waiters, l.Rest.Waiters, mostNamed), place(l.WaitStacks))
	}
	if len(l.Holders) > 0 {
		t.f("  holding     %s\n", t.who(l.Holders, l.Rest.Holders, mostNamed))
	}
	if s := (holdText{t}).fitting(l.Holds); s != "" {
		t.f("  held for    %s\n", s)
	}
	if s := (holdText{t}).running(l.Holds); s != "" {
		t.f("  running     %s\n", s)
	}
	if s := t.split(l.Split); s != "" {
		t.f("  meanwhile   %s\n", s)
	}
	if s := root(t, l.Split); s != "" {
		t.f("  in the end  %s\n", s)
	}
	if s := convoy(t, l); s != nil {
		t.f("  convoy      %s\n              %s\n", s[0], s[1])
	}
	if len(l.WakerTIDs) > 0 {
		t.f("  releasing   %s\n              at %s\n", t.who(l.WakerTIDs, l.Rest.Wakers, mostNamed), place(releases(l)))
	}
}

// releases are the stacks that released a lock, each with the time for which others waited
// for it, as the owner, where that is known: of three that wait for one the second and the
// third are released by waiters, which had the lock for no time.
func releases(l *futex.Lock) []futex.StackShare {
	if len(l.Blamed) > 0 {
		return l.Blamed
	}
	return l.Wakers
}

// path says why the first lock is the first although another one is waited for longer.
func (t *text) path(first *futex.Lock) {
	if t.r.PathTime == 0 {
		return
	}
	t.f("  run time    %s of the critical path", phrase.Percent(first.OnPath, t.r.PathTime))
	t.f("; of #%d, waited for longest, %s\n", t.r.Loudest.Rank, phrase.Percent(t.r.Loudest.OnPath, t.r.PathTime))
}

// other returns the condition variable, semaphore or flag that threads wait for most, if
// they wait longer for such than for locks: it can be a queue whose producers are late.
// It is nil otherwise.
func (t *text) other() *futex.Lock {
	r := t.r
	if r.Signalled.Time+r.Signalled.OpenTime <= r.Contended.Time+r.Contended.OpenTime {
		return nil
	}
	i := slices.IndexFunc(r.Signals, func(l *futex.Lock) bool {
		return (l.Kind == futex.Condvar || l.Kind == futex.Signal || l.Kind == futex.Semaphore) && len(l.Waiters) > 0
	})
	if i < 0 {
		return nil
	}
	return r.Signals[i]
}

// rest describes what else threads wait for most.
func (t *text) rest() {
	l := t.other()
	if l == nil {
		return
	}
	t.f("Most of the other: %s, %s in %s\n", t.lockName(l), t.sum(&l.Sum), phrase.Plural64(l.Slept+l.Open, "wait"))
	t.f("  waiting     %s\n              at %s\n", t.who(l.Waiters, l.Rest.Waiters, mostNamed), place(l.WaitStacks))
	if len(l.WakerTIDs) > 0 {
		t.f("  signalling  %s\n              at %s\n", t.who(l.WakerTIDs, l.Rest.Wakers, mostNamed), place(l.Wakers))
	}
}

// place returns the call site that most of a list's waits have: of stacks that leave the C
// library, if they have a tenth of the waits, or if they are enough to show where the others,
// whose callers are not known, come from; else of those that there are.
func place(list []futex.StackShare) string {
	if len(list) == 0 {
		return "?"
	}
	var whole, known tracefs.Time
	var sample int64
	for _, s := range list {
		whole += s.Time
		if phrase.Leaves(s.Stack) {
			known, sample = known+s.Time, sample+s.Count
		}
	}
	const (
		part = 10 // the least part of the whole that a place has, if another one has more
		few  = 20 // waits that show nothing of others
	)
	i := slices.IndexFunc(list, func(s futex.StackShare) bool { return phrase.Leaves(s.Stack) })
	of := "of the time"
	switch {
	case i >= 0 && list[i].Time >= whole/part:
	case i >= 0 && sample >= few:
		whole, of = known, fmt.Sprintf("of the time of %d waits with callers", sample)
	default:
		i = slices.IndexFunc(list, func(s futex.StackShare) bool { return s.Stack != nil })
	}
	first := &list[max(i, 0)]
	name := "(" + first.None + ")"
	if first.Stack != nil {
		name = phrase.Callers(first.Stack)
	}
	if len(list) == 1 || whole == 0 {
		return name
	}
	return fmt.Sprintf("%s (%s %s)", name, phrase.Percent(first.Time, whole), of)
}
