package report

import (
	"fmt"

	"ustack/render/futex"
	"ustack/render/phrase"
	"ustack/tracefs"
)

// convoy says in two lines how a lock was handed from waiter to waiter, and what helps; none
// if it was not.
func convoy(t *text, l *futex.Lock) []string {
	c := l.Convoys
	if c == nil {
		return nil
	}
	n := tracefs.Time(c.HandOvers)
	return []string{
		fmt.Sprintf("%s in %s, %s of the wait; held %s each",
			phrase.Plural64(c.HandOvers, "hand-over"), phrase.Plural64(c.Count, "convoy"), phrase.Percent(c.Waits, l.Time), t.time(c.Held/n)),
		fmt.Sprintf("%s to hand it over: %s", t.time(c.HandOver/n), convoyAdvice(l)),
	}
}

// convoyAdvice says what ends a convoy.
func convoyAdvice(l *futex.Lock) string {
	c := l.Convoys
	switch {
	case l.Kind == futex.PIMutex && c.HandOver >= c.Held:
		return "do more in a hold, or do without PI"
	case c.HandOver >= c.Held:
		return "do more in a hold, or spin first"
	}
	return "fewer threads, or several locks"
}

// longestConvoy says when the longest one was.
func longestConvoy(t *text, c *futex.Convoys) string {
	one := &c.Longest
	return fmt.Sprintf("longest %s, from %s: %s among %s, the queue never empty", t.time(one.To-one.From), phrase.Stamp(one.From, t.r.Ticks),
		phrase.Plural64(one.HandOvers, "hand-over"), phrase.Plural(one.Threads, "thread"))
}

// mostInversions is how many of them a screen has.
const mostInversions = 3

// inversions says which threads waited for others of lower priority that did not run.
func (t *text) inversions() {
	list := t.r.Inversions
	if len(list) == 0 {
		return
	}
	n := len(list)
	if t.opt.Brief {
		n = min(n, mostInversions)
	} else if t.opt.Top > 0 {
		n = min(n, t.opt.Top)
	}
	t.f("\nPriority inversion: a lock's owner did not run, because of a third thread\n")
	for i := range list[:n] {
		x := &list[i]
		t.f("  %9s  %s waited for #%d, whose owner\n", t.time(x.Time), ranked(&x.Waiter), x.Lock.Rank)
		t.f("             %s was off its CPU for %s\n", ranked(&x.Owner), ranked(&x.Middle))
	}
	if more := len(list) - n; more > 0 {
		t.f("  and %d more\n", more)
	}
	t.f("  A mutex with PTHREAD_PRIO_INHERIT lets the owner run meanwhile.\n")
}

// ranked is a thread with its priority, as chrt and nice have it.
func ranked(p *futex.Prioritized) string {
	return fmt.Sprintf("%s (%s)", phrase.Thread(p.TID, p.Comm), rank(p.Prio))
}

func rank(prio int32) string {
	const usual, first = 120, 100
	switch {
	case prio < 0:
		return "deadline"
	case prio < first:
		return fmt.Sprintf("rtprio %d", first-1-prio)
	}
	return fmt.Sprintf("nice %d", prio-usual)
}

// convoysJSON are times in which a lock was handed from waiter to waiter.
type convoysJSON struct {
	Count     int64        `json:"count"`
	HandOvers int64        `json:"hand_overs"`
	Time      tracefs.Time `json:"total_ns"`
	Waits     tracefs.Time `json:"waits_ns"`
	Held      tracefs.Time `json:"held_ns"`
	HandOver  tracefs.Time `json:"hand_over_ns"`
	Longest   convoyJSON   `json:"longest"`
}

type convoyJSON struct {
	From      tracefs.Time `json:"from_ns"`
	To        tracefs.Time `json:"to_ns"`
	HandOvers int64        `json:"hand_overs"`
	Threads   int          `json:"threads"`
}

func convoysOf(c *futex.Convoys) *convoysJSON {
	if c == nil {
		return nil
	}
	return &convoysJSON{c.Count, c.HandOvers, c.Time, c.Waits, c.Held, c.HandOver, convoyJSON(c.Longest)}
}
