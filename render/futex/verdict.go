package futex

import (
	"fmt"
	"slices"
	"strings"

	"ustack/tracefs"
)

// VerdictKind is what the waits that had not ended look like.
type VerdictKind uint8

// The verdicts.
const (
	// NoLockUp: nothing waits, or not for long.
	NoLockUp VerdictKind = iota
	// Deadlock: threads wait for each other in a circle.
	Deadlock
	// DeadOwner: the thread that held the lock is gone.
	DeadOwner
	// LostWakeUp: the wake-up came before the wait.
	LostWakeUp
	// ThreadExit: all waits lead to a thread that has not exited.
	ThreadExit
	// CannotTell: threads hang, and the trace does not say why.
	CannotTell
)

var verdictNames = [...]string{"none", "deadlock", "dead-owner", "lost-wake-up", "thread-exit", "cannot-tell"}

// String is the word used in all outputs.
func (k VerdictKind) String() string { return verdictNames[k] }

// Verdict is why threads hang at the end of a trace.
type Verdict struct {
	Kind VerdictKind
	// Sure is high confidence: each step of the evidence was seen, and
	// nothing was lost meanwhile.
	Sure bool
	Text string
	// Evidence are the lines that support it.
	Evidence []string
}

// LockUp reports whether it says what threads hang for.
func (v *Verdict) LockUp() bool { return v.Kind != NoLockUp && v.Kind != CannotTell }

// A wait hangs if it has lasted for stuckTimes the longest one that ended at
// its lock, and for stuckAtLeast in any case. Trace clocks that count no
// nanoseconds have the first condition only.
const (
	stuckTimes   = 4
	stuckAtLeast = tracefs.Time(100e6)
)

// stuck reports whether a wait hangs: it has lasted for long, or no thread is left
// that could end it. To wait for long for a thread's exit is usual.
func (j *judge) stuck(b *Blocked) bool {
	if b.Lock == nil || b.Lock.Kind == GoPark || b.Lock.Kind == NotLock || b.wait.timed || b.Doubt {
		return false
	}
	long := b.Time > stuckTimes*b.Lock.Max && (j.r.Ticks || b.Time >= stuckAtLeast) && b.Lock.Kind != Join
	return long || j.run.quiet(b.wait.th.proc.find())
}

// running counts the threads that run: that neither wait without a time limit,
// nor sleep, nor are gone.
type running struct {
	all, unknown int
	of           map[*process]int
}

func (rp *reporter) running() *running {
	n := &running{of: make(map[*process]int)}
	for th := range rp.tasks.threads.all() {
		waits := th.in && th.wait != nil && !th.wait.timed
		if th.dead || waits || rp.tasks.switches && th.asleep {
			continue
		}
		n.all++
		if p := th.proc.find(); p.tgid == tracefs.NoTID {
			n.unknown++
		} else {
			n.of[p]++
		}
	}
	return n
}

// quiet reports whether no thread of a process is left that runs. If it is not
// known which threads are of the process, all count.
func (n *running) quiet(p *process) bool {
	if p.tgid == tracefs.NoTID {
		return n.all == 0
	}
	return n.of[p]+n.unknown == 0
}

// judge is what a verdict is made from.
type judge struct {
	rp   *reporter
	r    *Report
	hang []*Blocked
	by   map[int32]*Blocked // by thread, with unwanted ones
	run  *running
}

// verdict finds out why threads hang. The surest explanation comes first. all are the
// waits that had not ended: who is wanted may wait for who is not.
func (rp *reporter) verdict(r *Report, all []*Blocked) {
	j := &judge{rp: rp, r: r, by: make(map[int32]*Blocked), run: rp.running()}
	for _, b := range all {
		j.by[b.TID] = b
	}
	for _, b := range r.Blocked {
		if j.stuck(b) {
			j.hang = append(j.hang, b)
		}
	}
	if len(j.hang) == 0 && j.circle() == nil && j.deadOwner() == nil {
		r.Verdict = j.nothing()
		return
	}
	for _, try := range []func() *Verdict{j.circle, j.deadOwner, j.inversion, j.lostWakeUp, j.threadExit} {
		if v := try(); v != nil {
			r.Verdict = *v
			break
		}
	}
	v := &r.Verdict
	if v.Kind == NoLockUp {
		*v = j.cannotTell()
	}
	v.Sure = v.Sure && rp.losses.refused == 0
}

// nothing says that no wait hangs. A trace that ends with the beginning of a wait
// does not show it.
func (j *judge) nothing() Verdict {
	if len(j.r.Blocked) == 0 {
		return Verdict{}
	}
	for _, b := range j.r.Blocked {
		if b.Lock != nil && !b.wait.timed && !b.Doubt && b.TID == j.rp.calls.tail {
			return Verdict{Kind: CannotTell, Evidence: []string{j.waits(b)},
				Text: "The trace ends with the beginning of a wait; whether it hangs is not known."}
		}
	}
	if slices.ContainsFunc(j.r.Blocked, func(b *Blocked) bool { return b.Doubt && b.Time >= stuckAtLeast }) {
		return Verdict{Kind: CannotTell, Text: "Some waits have no end in the trace, but records were lost that can have been it."}
	}
	return Verdict{Text: fmt.Sprintf("No lock-up: no wait at the end is unusually long (%d had not ended).", len(j.r.Blocked))}
}

func who(tid int32, comm string) string {
	if comm == "" {
		comm = tracefs.CommUnknown
	}
	return fmt.Sprintf("%s-%d", comm, tid)
}

func (j *judge) name(tid int32) string { return who(tid, j.rp.tasks.commOfTID(tid)) }

func (j *judge) at(t tracefs.Time) string {
	if j.r.Ticks {
		return fmt.Sprint(int64(t))
	}
	return fmt.Sprintf("%d.%06d", t/1e9, t%1e9/1e3)
}

// waits is the evidence that a thread waits.
func (j *judge) waits(b *Blocked) string {
	return fmt.Sprintf("%s waits for %s %s since %s", who(b.TID, b.Comm), b.Lock.Kind, b.Lock.Name(), j.at(b.Since))
}

// next is the thread that a blocked thread waits for, 0 if unknown: who holds
// the lock, or whose exit is waited for.
func (j *judge) next(b *Blocked) int32 {
	if b.Owner != 0 {
		return b.Owner
	}
	if b.Lock != nil && b.Lock.Kind == Join {
		if th := j.joined(b); th != nil {
			return th.tid
		}
	}
	return 0
}

// joined is the thread whose exit is waited for, nil if unknown. In a PID namespace
// the number can be that of a thread of another process.
func (j *judge) joined(b *Blocked) *thread {
	th := j.rp.tasks.threads.get(int32(min(b.Val, 1<<30)))
	if th == nil || distinct(th.proc.find(), b.wait.th.proc.find()) {
		return nil
	}
	return th
}

// after is the wait of the thread that a blocked thread waits for, nil if it does
// not wait. Who was read to hold a lock before it began to wait may have let it
// go since.
func (j *judge) after(b *Blocked) *Blocked {
	next := j.by[j.next(b)]
	if next != nil && b.OwnerRead && b.OwnedFrom < next.Since {
		return nil
	}
	return next
}

// circle looks for threads that wait for each other.
func (j *judge) circle() *Verdict {
	done := make(map[int32]bool) // no circle begins here
	for _, b := range j.r.Blocked {
		var path []*Blocked
		seen := make(map[int32]int)
		for at := b; at != nil && !at.Doubt && !done[at.TID]; at = j.after(at) {
			if from, again := seen[at.TID]; again {
				return j.circleOf(path[from:])
			}
			seen[at.TID] = len(path)
			path = append(path, at)
		}
		for _, at := range path {
			done[at.TID] = true
		}
	}
	return nil
}

func (j *judge) circleOf(path []*Blocked) *Verdict {
	const most = 16 // that are named
	v := &Verdict{Kind: Deadlock, Sure: true}
	var names []string
	for _, b := range path[:min(len(path), most)] {
		names = append(names, who(b.TID, b.Comm))
		v.Evidence = append(v.Evidence, j.waits(b))
		if b.Owner != 0 {
			v.Evidence = append(v.Evidence, j.held(b))
		}
	}
	if more := len(path) - most; more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	v.Text = fmt.Sprintf("Deadlock: %s wait for each other.", strings.Join(names, ", "))
	return v
}

// held is the evidence that a thread holds the lock of a wait.
func (j *judge) held(b *Blocked) string {
	if b.OwnerRead {
		return fmt.Sprintf("%s held that lock at %s, by the lock's memory", j.name(b.Owner), j.at(b.OwnedFrom))
	}
	return fmt.Sprintf("%s got that lock at %s and has not released it", j.name(b.Owner), j.at(b.OwnedFrom))
}

// deadOwner looks for a lock whose holder is gone. Who was read to hold it before
// may have let it go in time.
func (j *judge) deadOwner() *Verdict {
	for _, b := range j.r.Blocked {
		if b.Owner == 0 || !b.OwnerDead || b.OwnerRead || b.Doubt {
			continue
		}
		owner := j.rp.tasks.threads.get(b.Owner)
		return &Verdict{Kind: DeadOwner, Sure: true,
			Text: fmt.Sprintf("Dead owner: %s waits for a lock that %s held when it exited.", who(b.TID, b.Comm), j.name(b.Owner)),
			Evidence: []string{j.waits(b),
				j.held(b),
				fmt.Sprintf("%s exited at %s", j.name(b.Owner), j.at(owner.diedAt))}}
	}
	return nil
}

// inversion looks for two locks that hang and that threads have taken in both
// orders before.
func (j *judge) inversion() *Verdict {
	at := make(map[*lock]*Blocked)
	for _, b := range j.hang {
		if l := b.Lock.lock; b.Lock.Kind.exclusive() && at[l] == nil {
			at[l] = b
		}
	}
	orders := make(map[orderKey]*orderSeen)
	var first *orderSeen
	var found orderKey
	for k, seen := range j.rp.holders.order {
		k = orderKey{k.held.find(), k.wanted.find()}
		orders[k] = seen
		if orders[orderKey{k.wanted, k.held}] == nil || at[k.held] == nil || at[k.wanted] == nil || at[k.held].TID == at[k.wanted].TID {
			continue
		}
		if first == nil || seen.at < first.at {
			first, found = seen, k
		}
	}
	if first == nil {
		return nil
	}
	b, c, second := at[found.wanted], at[found.held], orders[orderKey{found.wanted, found.held}]
	return &Verdict{Kind: Deadlock,
		Text: fmt.Sprintf("Deadlock, likely: %s and %s hang at two locks that threads take in both orders.", who(b.TID, b.Comm), who(c.TID, c.Comm)),
		Evidence: []string{j.waits(b), j.waits(c),
			fmt.Sprintf("at %s %s waited for %s while it held %s", j.at(first.at), j.name(first.tid), b.Lock.Name(), c.Lock.Name()),
			fmt.Sprintf("at %s %s waited for %s while it held %s", j.at(second.at), j.name(second.tid), c.Lock.Name(), b.Lock.Name())}}
}

// lostWakeUp looks for a wait that began just after a wake-up which found no
// waiter, and after which none came: nothing else happened in between that could
// have made the waiter's value right.
func (j *judge) lostWakeUp() *Verdict {
	for _, b := range j.hang {
		l := b.Lock.lock
		e, ok := j.rp.sites.empty.get(l.key)
		if !ok || b.Lock.Kind == Join || b.Lock.Kind.exclusive() || e.tid == b.TID ||
			!l.key.shared && distinct(e.proc.find(), l.proc.find()) || l.lastWake > e.at || e.at > b.Since {
			continue
		}
		v := &Verdict{Kind: LostWakeUp,
			Text: fmt.Sprintf("Lost wake-up, suspected: %s began to wait after the wake-up that it waits for.", who(b.TID, b.Comm)),
			Evidence: []string{
				fmt.Sprintf("at %s %s woke %s, and no thread waited there", j.at(e.at), j.name(e.tid), b.Lock.Name()),
				j.waits(b), "that futex had no wake-up since"}}
		return v
	}
	return nil
}

// threadExit looks for waits for the exit of a thread that does not hang
// itself.
func (j *judge) threadExit() *Verdict {
	for _, b := range j.hang {
		if b.Lock.Kind != Join {
			return nil // something else hangs, too
		}
	}
	b := j.hang[0]
	v := &Verdict{Kind: ThreadExit, Sure: true, Evidence: []string{j.waits(b)},
		Text: fmt.Sprintf("Waiting for a thread's exit: %s waits for thread %d (its number as the process sees it).", who(b.TID, b.Comm), b.Val)}
	if th := j.joined(b); th != nil {
		what := "was last seen at " + j.at(th.last)
		if other := j.by[th.tid]; other != nil && other.Lock != nil {
			what = fmt.Sprintf("waits for %s %s since %s", other.Lock.Kind, other.Lock.Name(), j.at(other.Since))
		}
		v.Evidence = append(v.Evidence, fmt.Sprintf("%s %s", j.name(th.tid), what))
	}
	return v
}

// cannotTell says what is known.
func (j *judge) cannotTell() Verdict {
	v := Verdict{Kind: CannotTell}
	signals := true
	for i, b := range j.hang {
		signals = signals && !b.Lock.Kind.Contention()
		const most = 6
		if i < most {
			v.Evidence = append(v.Evidence, j.waits(b)+j.lastUse(b))
		}
	}
	n := len(j.hang)
	switch {
	case signals && n == 1:
		v.Text = "No lock-up seen: 1 long wait at the end, for a signal, which can be idling."
	case signals:
		v.Text = fmt.Sprintf("No lock-up seen: %d long waits at the end, all for a signal, which can be idling.", n)
	case n == 1:
		v.Text = "1 wait at the end hangs, and the trace does not show why."
	default:
		v.Text = fmt.Sprintf("%d waits at the end hang, and the trace does not show why.", n)
	}
	return v
}

// lastUse says when the lock that a thread waits for was last used.
func (j *judge) lastUse(b *Blocked) string {
	l := b.Lock.lock
	switch {
	case b.Owner != 0:
		return "; " + j.held(b)
	case l.lastWake > 0:
		return fmt.Sprintf("; a thread was last woken there at %s", j.at(l.lastWake))
	case b.Lock.Kind.exclusive():
		return "; the trace does not show the holder: it did not wait for the lock"
	}
	return ""
}
