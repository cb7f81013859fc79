package futex

import (
	"slices"

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
	// LostWakeUp: the wakeup came before the wait.
	LostWakeUp
	// ThreadExit: all waits lead to a thread that has not exited.
	ThreadExit
	// CannotTell: threads hang, and the trace does not say why.
	CannotTell
)

var verdictNames = [...]string{"none", "deadlock", "dead-owner", "lost-wake-up", "thread-exit", "cannot-tell"}

// String returns the word used in all outputs.
func (k VerdictKind) String() string { return verdictNames[k] }

// Verdict is why threads hang at the end of a trace.
type Verdict struct {
	Kind VerdictKind
	// Sure is high confidence: each step of the evidence was seen, and
	// nothing was lost meanwhile.
	Sure   bool
	Case   Case
	Tasks  []Task
	More   int
	Count  int
	Number uint32
	// Ended: this was so shortly before the end, and the waits have ended since.
	Ended bool
	// Proof are the facts that support it.
	Proof []Fact
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
// that could end it. To wait for long for a thread's exit is usual. It is not surely
// stuck if it is short, and other threads sleep, which may be woken and end it.
func (j *diagnosis) stuck(b *Blocked) (stuck, surely bool) {
	if b.Lock == nil || b.Lock.Kind == GoPark || b.Lock.Kind == NotLock || b.wait.timed || b.Doubt {
		return false, false
	}
	long := b.Time > stuckTimes*b.Lock.Max && (j.r.Ticks || b.Time >= stuckAtLeast) && b.Lock.Kind != Join
	p := b.wait.th.proc.find()
	alone := j.run.none(p)
	return long || alone, long || alone && (j.sleep.none(p) || j.r.Ticks || b.Time >= stuckAtLeast)
}

// census counts threads.
type census struct {
	all, unknown int
	of           map[*process]int
}

func (n *census) add(th *thread) {
	n.all++
	if p := th.proc.find(); p.tgid == tracefs.NoTID {
		n.unknown++
	} else {
		n.of[p]++
	}
}

// none reports whether no thread of a process is among them. If it is unknown which
// threads are of the process, all count.
func (n *census) none(p *process) bool {
	if p.tgid == tracefs.NoTID {
		return n.all == 0
	}
	return n.of[p]+n.unknown == 0
}

// census counts the threads that run, which neither wait without a time limit, nor are
// gone, and the ones of these that sleep, and may be woken by something that the trace
// does not have.
func (rp *reporter) census() (run, sleep census) {
	run.of, sleep.of = make(map[*process]int), make(map[*process]int)
	for th := range rp.tasks.threads.all() {
		switch waits := th.in && th.wait != nil && !th.wait.timed; {
		case th.dead || waits:
		case th.in && th.wait != nil: // its time limit will end it
			run.add(th)
		case rp.tasks.switches && th.asleep:
			sleep.add(th)
		default:
			run.add(th)
		}
	}
	return run, sleep
}

// diagnosis is what a verdict is made from.
type diagnosis struct {
	rp   *reporter
	r    *Report
	hang []*Blocked
	sure []*Blocked         // of these
	by   map[int32]*Blocked // by thread, with unwanted ones
	// run are the threads that run, sleep those that may be woken.
	run, sleep census
}

// verdict finds out why threads hang. The surest explanation comes first. all are the
// waits that had not ended: a thread that is asked for may wait for one that is not.
func (rp *reporter) verdict(r *Report, all []*Blocked) {
	j := &diagnosis{rp: rp, r: r, by: make(map[int32]*Blocked)}
	j.run, j.sleep = rp.census()
	for _, b := range all {
		j.by[b.TID] = b
	}
	for _, b := range r.Blocked {
		stuck, surely := j.stuck(b)
		if stuck {
			j.hang = append(j.hang, b)
		}
		if surely {
			j.sure = append(j.sure, b)
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
	switch {
	case v.Kind != NoLockUp:
	case len(j.sure) > 0:
		*v = j.cannotTell()
	default:
		*v = j.nothing()
	}
	v.Sure = v.Sure && rp.losses.refused == 0
}

// oftenEnded is how many waits for a lock have ended if one more that has just begun
// is nothing unusual.
const oftenEnded = 10

// nothing says that no wait hangs. A trace that ends with the beginning of a wait does not
// show it, where such waits did not end before, and no thread of the process is known to
// run that could end it: tracing stops anywhere.
func (j *diagnosis) nothing() Verdict {
	if len(j.r.Blocked) == 0 {
		return Verdict{}
	}
	for _, b := range j.r.Blocked {
		if b.Lock != nil && !b.wait.timed && !b.Doubt && b.TID == j.rp.calls.tail && b.Lock.Slept < oftenEnded && (!j.rp.tasks.switches || j.run.none(b.wait.th.proc.find())) {
			return Verdict{Kind: CannotTell, Case: EndsInWait, Proof: []Fact{waits(b)}}
		}
	}
	if slices.ContainsFunc(j.r.Blocked, func(b *Blocked) bool { return b.Doubt && b.Time >= stuckAtLeast }) {
		return Verdict{Kind: CannotTell, Case: LostEnds}
	}
	return Verdict{Case: NothingHangs, Count: len(j.r.Blocked)}
}

func (j *diagnosis) task(tid int32) Task { return Task{tid, j.rp.tasks.commOfTID(tid)} }

func (b *Blocked) task() Task { return Task{b.TID, b.Comm} }

func (l *Lock) named() LockName { return LockName{l.Kind, l.Name()} }

// waits returns the evidence that a thread waits.
func waits(b *Blocked) Fact {
	return Fact{Kind: WaitsSince, Task: b.task(), Lock: b.Lock.named(), At: b.Since}
}

// next returns the thread that a blocked thread waits for, 0 if unknown: the
// owner of the lock, or the thread whose exit is waited for.
func (j *diagnosis) next(b *Blocked) int32 {
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

// joined returns the thread whose exit is waited for, nil if unknown. In a PID
// namespace a thread of another process can have the number.
func (j *diagnosis) joined(b *Blocked) *thread {
	th := j.rp.tasks.threads.get(int32(min(b.Val, 1<<30)))
	if th == nil || distinct(th.proc.find(), b.wait.th.proc.find()) {
		return nil
	}
	return th
}

// after returns the wait of the thread that a blocked thread waits for, nil if it
// does not wait. A thread that was read as the owner before it began to wait may
// have released the lock since.
func (j *diagnosis) after(b *Blocked) *Blocked {
	next := j.by[j.next(b)]
	if next != nil && b.OwnerRead && b.OwnedFrom < next.Since {
		return nil
	}
	return next
}

// circle looks for threads that wait for each other.
func (j *diagnosis) circle() *Verdict {
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

func (j *diagnosis) circleOf(path []*Blocked) *Verdict {
	const most = 16 // that are named
	v := &Verdict{Kind: Deadlock, Sure: true, Case: Circle, More: max(len(path)-most, 0)}
	for _, b := range path[:min(len(path), most)] {
		v.Tasks = append(v.Tasks, b.task())
		v.Proof = append(v.Proof, waits(b))
		if b.Owner != 0 {
			v.Proof = append(v.Proof, j.held(b))
		}
	}
	return v
}

// held returns the evidence that a thread holds the lock of a wait.
func (j *diagnosis) held(b *Blocked) Fact {
	f := Fact{Kind: HoldsSince, Task: j.task(b.Owner), Lock: b.Lock.named(), At: b.OwnedFrom}
	if b.OwnerRead {
		f.Kind = HeldAt
	}
	return f
}

// deadOwner looks for a lock whose holder is gone. A thread that was read as its
// holder earlier may have released it in time.
func (j *diagnosis) deadOwner() *Verdict {
	for _, b := range j.r.Blocked {
		if b.Owner == 0 || !b.OwnerDead || b.OwnerRead || b.Doubt {
			continue
		}
		owner := j.rp.tasks.threads.get(b.Owner)
		return &Verdict{Kind: DeadOwner, Sure: true, Case: HolderExited, Tasks: []Task{b.task(), j.task(b.Owner)},
			Proof: []Fact{waits(b), j.held(b), {Kind: ExitedAt, Task: j.task(b.Owner), At: owner.diedAt}}}
	}
	return nil
}

// inversion looks for two locks that hang and that threads have taken in both
// orders before.
func (j *diagnosis) inversion() *Verdict {
	at := make(map[*lock]*Blocked)
	for _, b := range j.hang {
		if l := b.wait.lock.find(); b.Lock.Kind.exclusive() && at[l] == nil {
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
	return &Verdict{Kind: Deadlock, Case: BothOrders, Tasks: []Task{b.task(), c.task()},
		Proof: []Fact{waits(b), waits(c),
			{Kind: WaitedHolding, Task: j.task(first.tid), At: first.at, Lock: b.Lock.named(), Held: c.Lock.named()},
			{Kind: WaitedHolding, Task: j.task(second.tid), At: second.at, Lock: c.Lock.named(), Held: b.Lock.named()}}}
}

// lostWakeUp looks for a wait whose thread was on its way there at a wakeup which found
// no waiter, and after which none came: nothing else happened in between that could
// have made the waiter's value right.
func (j *diagnosis) lostWakeUp() *Verdict {
	for _, b := range j.hang {
		l := b.wait.lock.find()
		e, ok := j.rp.sites.empty.get(l.key)
		if !ok || b.Lock.Kind == Join || b.Lock.Kind.exclusive() || e.tid == b.TID ||
			!l.key.shared && distinct(e.proc.find(), l.proc.find()) || l.lastWake > e.at || e.at > b.Since ||
			l.traits.keepsSignals() || !j.missed(b, e.at) {
			continue
		}
		return &Verdict{Kind: LostWakeUp, Case: WokenBefore, Tasks: []Task{b.task()},
			Proof: []Fact{{Kind: WokeNone, Task: j.task(e.tid), At: e.at, Lock: b.Lock.named()}, waits(b), {Kind: NoWakeSince, Lock: b.Lock.named()}}}
	}
	return nil
}

// threadExit looks for waits for the exit of a thread that does not hang
// itself.
func (j *diagnosis) threadExit() *Verdict {
	for _, b := range j.hang {
		if b.Lock.Kind != Join {
			return nil // something else hangs, too
		}
	}
	b := j.hang[0]
	v := &Verdict{Kind: ThreadExit, Sure: true, Case: WaitsForExit, Tasks: []Task{b.task()}, Number: b.Val, Proof: []Fact{waits(b)}}
	if th := j.joined(b); th != nil {
		f := Fact{Kind: SeenAt, Task: j.task(th.tid), At: th.last}
		if other := j.by[th.tid]; other != nil && other.Lock != nil {
			f = waits(other)
			f.Task = j.task(th.tid)
		}
		v.Proof = append(v.Proof, f)
	}
	return v
}

// cannotTell gathers the facts about waits that nothing explains.
func (j *diagnosis) cannotTell() Verdict {
	v := Verdict{Kind: CannotTell, Case: OnlySignals, Count: len(j.sure)}
	for i, b := range j.sure {
		if j.unexplained(b) {
			v.Case = Unexplained
		}
		const most = 6
		if i < most {
			f := waits(b)
			f.LastUse = j.lastUse(b)
			v.Proof = append(v.Proof, f)
		}
	}
	return v
}

// unexplained reports whether a wait hangs at a lock. A semaphore that the trace never
// shows released is a signal that has not come, as long as threads of the process run.
func (j *diagnosis) unexplained(b *Blocked) bool {
	if b.Lock.Kind == Semaphore && b.Lock.lock.lastWake == 0 && !j.run.none(b.wait.th.proc.find()) {
		return false
	}
	return b.Lock.Contends()
}

// lastUse returns how the lock that a thread waits for was last used, nil if
// unknown.
func (j *diagnosis) lastUse(b *Blocked) *Fact {
	f := Fact{Lock: b.Lock.named()}
	switch l := b.Lock.lock; {
	case b.Owner != 0:
		f = j.held(b)
	case l.lastWake > 0:
		f.Kind, f.At = LastWoken, l.lastWake
	case b.Lock.Kind.exclusive():
		f.Kind = HolderUnseen
	default:
		return nil
	}
	return &f
}
