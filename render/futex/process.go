package futex

import (
	"cmp"
	"slices"

	"ustack/tracefs"
)

// How is how it is known which process threads belong to.
type How uint8

const (
	// ByNothing: each thread stands for itself.
	ByNothing How = iota
	// ByWakes: a private wakeup that reached the other thread, so both have
	// the same memory.
	ByWakes
	// ByEvents: the event of the thread's making says so.
	ByEvents
	// ByMappings: the dump of --maps lists the thread.
	ByMappings
	// ByHeader: the trace has it in each line (option record-tgid).
	ByHeader
	// ByKernel: the kernel has it with what it counts.
	ByKernel
)

var howNames = [...]string{"nothing", "wakes", "events", "maps", "record-tgid", "kernel"}

// String returns the word used in all outputs.
func (h How) String() string { return howNames[h] }

// process is a set of threads that share memory. Several may prove to be one;
// then the one is the parent of the others.
type process struct {
	parent *process
	tgid   int32 // tracefs.NoTID if unknown
	how    How
	tids   []int32 // some of them
	count  int     // of its threads
	comm   string  // of the thread with the process's number, else of the first
	// program is the name of the program that it runs, "" if unknown.
	program string
	locks   lockMap
	run     run  // by lines of a report
	golang  bool // its futexes are the Go runtime's
	over    bool // it has ended, or runs another program
	// called: it has called futex, at first then.
	called bool
	first  tracefs.Time
	looked int64 // the last of tasks.looks that it was part of
	lefts  lefts
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
func (ts *tasks) adopt(th *thread) {
	if ts.mappings != nil {
		if tgid, ok := ts.mappings.Process(th.tid); ok {
			ts.join(th, ts.process(tgid, ByMappings))
			return
		}
	}
	p := newProcess(tracefs.NoTID, ByNothing)
	if n := th.alone; n != nil {
		n.process = *p
		p = &n.process
		p.tids = n.tids[:0]
	}
	ts.join(th, p)
}

// process returns the living process of a number.
func (ts *tasks) process(tgid int32, how How) *process {
	p := ts.byTGID[tgid]
	if p == nil || p.find().over {
		p = newProcess(tgid, how)
		ts.byTGID[tgid] = p
		ts.boundProcesses()
	}
	return p.find()
}

// boundProcesses forgets the numbers of processes that are over, and if need be
// of all: then a later thread makes a new process.
func (ts *tasks) boundProcesses() {
	if len(ts.byTGID) <= ts.most {
		return
	}
	for tgid, p := range ts.byTGID {
		if p.find().over {
			delete(ts.byTGID, tgid)
		}
	}
	if len(ts.byTGID) > ts.most {
		clear(ts.byTGID)
	}
}

func (ts *tasks) join(th *thread, p *process) {
	th.proc = p
	p.count++
	if len(p.tids) < maxTIDs && !slices.Contains(p.tids, th.tid) {
		p.tids = append(p.tids, th.tid)
	}
	ts.commOf(th)
}

// commOf gives a process the name of its first thread, until the thread comes
// that has the process's number.
func (ts *tasks) commOf(th *thread) {
	if p := th.proc.find(); p.comm == "" || th.tid == p.tgid && th.comm != "" {
		p.comm = th.comm
	}
}

// belongs learns from a header which process a thread is of.
func (ts *tasks) belongs(th *thread, tgid int32) {
	p := th.proc.find()
	if p.tgid == tgid {
		p.how = max(p.how, ByHeader)
		return
	}
	known := ts.process(tgid, ByHeader)
	if p.tgid != tracefs.NoTID {
		th.moved = true
		ts.join(th, known) // the number is another thread's now
		return
	}
	ts.unite(known, p)
	known.how = ByHeader
}

// newTask learns that one task has made another.
func (ts *tasks) newTask(parent, child int32, thread bool, t tracefs.Time) {
	if th := ts.threads.get(child); th != nil && !th.dead {
		ts.ended(th, t) // the number is used again
	}
	if !thread {
		return
	}
	p, c := ts.thread(parent), ts.thread(child)
	if c.proc.find().tgid == tracefs.NoTID {
		ts.unite(p.proc.find(), c.proc.find())
		if root := p.proc.find(); root.how < ByEvents {
			root.how = ByEvents
		}
	}
}

// execed notes that a process runs another program: its memory is new.
func (ts *tasks) execed(tid, old int32, t tracefs.Time) {
	if old != tid {
		if th := ts.threads.get(old); th != nil {
			ts.ended(th, t)
		}
	}
	if p := ts.byTGID[tid]; p != nil {
		p.find().over = true
	}
	if th := ts.threads.get(tid); th != nil && !th.dead {
		ts.ended(th, t)
		th.proc.find().over = true
	}
}

// calling returns the thread that calls futex at a time. If its process has become
// another program since it called first, that is over, with its locks, and the thread
// is new.
func (ts *tasks) calling(th *thread, t tracefs.Time) *thread {
	p := th.proc.find()
	if !p.called {
		ts.calls(p, th, t)
		return th
	}
	if ts.programs == nil || ts.losses.Ticks || p.tgid == tracefs.NoTID {
		return th
	}
	if began, ok := ts.programs.Program(th.tid, t); !ok || began <= p.first {
		return th
	}
	ts.replaced(p, t)
	th = ts.thread(th.tid)
	ts.calls(th.proc.find(), th, t)
	return th
}

// calls notes that a process calls futex, at first now.
func (ts *tasks) calls(p *process, th *thread, t tracefs.Time) {
	p.called, p.first = true, t
	if ts.programs == nil || ts.losses.Ticks {
		return
	}
	p.program = ts.programs.Name(th.tid, t)
	if p.tgid != tracefs.NoTID {
		return
	}
	pid, ok := ts.programs.ProcessAt(th.tid, t)
	if !ok {
		return
	}
	known := ts.process(pid, ByMappings)
	if began, ok := ts.programs.Program(th.tid, t); ok && known.called && began > known.first {
		ts.replaced(known, t)
		known = ts.process(pid, ByMappings)
	}
	known = ts.unite(known, p)
	known.how = max(known.how, ByMappings)
}

// replaced notes that a process is over, with the threads of it that are listed.
func (ts *tasks) replaced(p *process, t tracefs.Time) {
	for _, tid := range p.tids {
		if th := ts.threads.get(tid); th != nil && !th.dead && th.proc.find() == p {
			ts.ended(th, t)
		}
	}
	p.over = true
}

// died notes the end of a thread. A process is over when the thread with its
// number is: another process may get the number then. (Other threads may live
// on; they keep the process they are in.)
func (p *process) died(th *thread) {
	if th.tid == p.tgid {
		p.over = true
	}
}

// unite makes one process of two.
func (ts *tasks) unite(p, q *process) *process {
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
		p.called, p.first, p.program = true, q.first, cmp.Or(q.program, p.program)
	}
	p.program = cmp.Or(p.program, q.program)
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
	q.tids = nil
	p.lefts.unite(&q.lefts)
	ts.united(p, q)
	return p
}

// distinct reports whether two processes are known to be two.
func distinct(p, q *process) bool {
	return p != q && p.tgid != tracefs.NoTID && q.tgid != tracefs.NoTID
}
