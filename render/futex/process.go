package futex

import (
	"slices"

	"ustack/tracefs"
)

// How is how it is known which process threads belong to.
type How uint8

const (
	// ByNothing: each thread stands for itself.
	ByNothing How = iota
	// ByWakes: a private wake-up that reached the other thread, so both have
	// the same memory.
	ByWakes
	// ByEvents: the event of the thread's making says so.
	ByEvents
	// ByMappings: the dump of --maps lists the thread.
	ByMappings
	// ByHeader: the trace has it in each line (option record-tgid).
	ByHeader
)

var howNames = [...]string{"nothing", "wakes", "events", "maps", "record-tgid"}

// String is the word used in all outputs.
func (h How) String() string { return howNames[h] }

// process is a set of threads that share memory. What is first taken for
// several may prove to be one; then the one is the parent of the others.
type process struct {
	parent *process
	tgid   int32 // tracefs.NoTID if unknown
	how    How
	tids   []int32 // some of them
	count  int     // of its threads
	comm   string  // of the thread with the process's number, else of the first
	locks  lockMap
	golang bool // its futexes are those of the Go runtime
	over   bool // it has ended, or runs another program
	// called: it has called futex, at first then.
	called bool
	first  tracefs.Time
}

// maxTIDs bounds the threads that a process or lock lists.
const maxTIDs = 64

func (p *process) find() *process {
	for p.parent != nil {
		if p.parent.parent != nil {
			p.parent = p.parent.parent
		}
		p = p.parent
	}
	return p
}

func newProcess(tgid int32, how How) *process {
	return &process{tgid: tgid, how: how}
}

func (p *process) put(key lockKey, l *lock) { p.locks.put(key, l) }

// adopt gives a new thread its process.
func (a *Analysis) adopt(th *thread) {
	if a.opt.Mappings != nil {
		if tgid, ok := a.opt.Mappings.Process(th.tid); ok {
			a.join(th, a.process(tgid, ByMappings))
			return
		}
	}
	p := newProcess(tracefs.NoTID, ByNothing)
	if n := th.alone; n != nil {
		n.process = *p
		p = &n.process
		p.tids = n.tids[:0]
	}
	a.join(th, p)
}

// process is the living process of a number.
func (a *Analysis) process(tgid int32, how How) *process {
	p := a.byTGID[tgid]
	if p == nil || p.find().over {
		p = newProcess(tgid, how)
		a.byTGID[tgid] = p
		a.boundProcesses()
	}
	return p.find()
}

// boundProcesses forgets the numbers of processes that are over, and if need
// be of all: then a later thread makes a process of its own.
func (a *Analysis) boundProcesses() {
	if len(a.byTGID) <= a.opt.Threads {
		return
	}
	for tgid, p := range a.byTGID {
		if p.find().over {
			delete(a.byTGID, tgid)
		}
	}
	if len(a.byTGID) > a.opt.Threads {
		clear(a.byTGID)
	}
}

func (a *Analysis) join(th *thread, p *process) {
	th.proc = p
	p.count++
	if len(p.tids) < maxTIDs && !slices.Contains(p.tids, th.tid) {
		p.tids = append(p.tids, th.tid)
	}
	a.commOf(th)
}

// commOf gives a process the name of its first thread, until the thread comes
// that has the process's number.
func (a *Analysis) commOf(th *thread) {
	if p := th.proc.find(); p.comm == "" || th.tid == p.tgid && th.comm != "" {
		p.comm = th.comm
	}
}

// belongs learns from a header which process a thread is of.
func (a *Analysis) belongs(th *thread, tgid int32) {
	p := th.proc.find()
	if p.tgid == tgid {
		p.how = max(p.how, ByHeader)
		return
	}
	known := a.process(tgid, ByHeader)
	if p.tgid != tracefs.NoTID {
		th.moved = true
		a.join(th, known) // the number is another thread's now
		return
	}
	a.unite(known, p)
	known.how = ByHeader
}

// newTask learns that one task has made another.
func (a *Analysis) newTask(parent, child int32, thread bool, t tracefs.Time) {
	if th := a.threads.get(child); th != nil && !th.dead {
		a.ended(th, t) // the number is used again
	}
	if !thread {
		return
	}
	p, c := a.thread(parent), a.thread(child)
	if c.proc.find().tgid == tracefs.NoTID {
		a.unite(p.proc.find(), c.proc.find())
		if root := p.proc.find(); root.how < ByEvents {
			root.how = ByEvents
		}
	}
}

// execed notes that a process runs another program: its memory is new.
func (a *Analysis) execed(tid, old int32, t tracefs.Time) {
	if old != tid {
		if th := a.threads.get(old); th != nil {
			a.ended(th, t)
		}
	}
	if p := a.byTGID[tid]; p != nil {
		p.find().over = true
	}
	if th := a.threads.get(tid); th != nil && !th.dead {
		a.ended(th, t)
		th.proc.find().over = true
	}
}

// calling is the thread that calls futex at a time. If its process has become another
// program since it called first, that is over, with its locks, and the thread is new.
func (a *Analysis) calling(th *thread, t tracefs.Time) *thread {
	p := th.proc.find()
	if !p.called {
		p.called, p.first = true, t
		return th
	}
	if a.opt.Programs == nil || a.losses.ticks || p.tgid == tracefs.NoTID {
		return th
	}
	if began, ok := a.opt.Programs.Program(th.tid, t); !ok || began <= p.first {
		return th
	}
	a.replaced(p, t)
	th = a.thread(th.tid)
	p = th.proc.find()
	p.called, p.first = true, t
	return th
}

// replaced notes that a process is over, with the threads of it that are listed.
func (a *Analysis) replaced(p *process, t tracefs.Time) {
	for _, tid := range p.tids {
		if th := a.threads.get(tid); th != nil && !th.dead && th.proc.find() == p {
			a.ended(th, t)
		}
	}
	p.over = true
}

// died notes the end of a thread. A process is over when the thread is that
// has its number: another process may get the number then. (Other threads may
// live on; they keep the process they are in.)
func (p *process) died(th *thread) {
	if th.tid == p.tgid {
		p.over = true
	}
}

// unite makes one process of two, and its locks one.
func (a *Analysis) unite(p, q *process) *process {
	p, q = p.find(), q.find()
	if p == q {
		return p
	}
	if p.tgid == tracefs.NoTID && (q.tgid != tracefs.NoTID || q.locks.count() > p.locks.count()) {
		p, q = q, p
	}
	q.parent = p
	p.count += q.count
	if q.called && (!p.called || q.first < p.first) {
		p.called, p.first = true, q.first
	}
	p.golang = p.golang || q.golang
	p.how = max(p.how, q.how)
	if p.comm == "" {
		p.comm = q.comm
	}
	for _, tid := range q.tids {
		if len(p.tids) < maxTIDs && !slices.Contains(p.tids, tid) {
			p.tids = append(p.tids, tid)
		}
	}
	q.locks.each(func(key lockKey, l *lock) {
		if own := p.locks.get(key); own != nil {
			a.uniteLocks(own, l)
		} else {
			p.put(key, l.find())
		}
	})
	q.locks = lockMap{}
	q.tids = nil
	return p
}

// distinct reports whether two processes are known to be two.
func distinct(p, q *process) bool {
	return p != q && p.tgid != tracefs.NoTID && q.tgid != tracefs.NoTID
}

// provenSame takes the evidence of a wake-up: the waker's lock and the waiter's
// are one. Private futexes work within one process only, so then the two
// processes are one, too.
func (a *Analysis) provenSame(s *span) {
	l, k := s.lock.find(), s.waker.find()
	if l == k || l.proc == nil || k.proc == nil {
		return
	}
	if l.key.shared || k.key.shared {
		if l.key.shared == k.key.shared {
			a.uniteLocks(l, k)
		}
		return
	}
	p, q := l.proc.find(), k.proc.find()
	if l.key == k.key && !distinct(p, q) && p != q {
		if root := a.unite(p, q); root.how < ByWakes {
			root.how = ByWakes
		}
	}
}
