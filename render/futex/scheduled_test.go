package futex_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

const switchLine = "sched_switch: prev_comm=a prev_pid=%d prev_prio=%d prev_state=%s ==> next_comm=b next_pid=%d next_prio=%d"

// machine is a program that runs on a few CPUs: threads that take mutexes, work, sleep
// and do I/O while they hold them, and are preempted. It writes the trace of a run, and
// knows who owned what and did what at each tick, a microsecond.
type machine struct {
	rnd     *rand.Rand
	trace   strings.Builder
	now     int
	threads []*worker
	cpus    []*worker
	last    []int // thread that was on the CPU, 0 for idle
	locks   []*mutex
	deep    bool // threads may take all locks within each other
	// late preempts threads at times between their return from waiting and the
	// instruction that takes the lock, and between the one that releases it and the call.
	late bool
	// fair has locks that the kernel hands over (FUTEX_LOCK_PI), which no other thread takes
	// meanwhile.
	fair bool
	// short has them hold locks for some microseconds only.
	short bool
	// sampling is after how many microseconds the timer of a CPU ticks, on average; 0 for never.
	sampling int
	ticks    []timerTick
}

type mutex struct {
	word    int
	owner   *worker
	queue   []*worker
	owners  []*worker // by tick
	handing []bool    // a thread is being woken, or was and has not returned, by tick
	letting int       // calls that are to wake one and have not
	woken   int
	coming  int // threads that call to wait and do not yet
	// between has the threads that are back from waiting and have not taken it yet, or have
	// released it and not called yet; betweens are the same by tick. Until they go on, those
	// who wait do not.
	between  []*worker
	betweens [][]*worker
	passes   []pass
}

// pass is a call that releases a lock, at a tick, and the thread that it wakes, nil for none,
// which has waited since another one.
type pass struct {
	called  int
	by, to  *worker
	entered int
}

// worker is a thread; did is what it did at each tick: r runs, q is queued, the letter
// of its state else.
type worker struct {
	tid   int
	cpu   int // -1 if it is on none
	state byte
	did   []byte
	wants *mutex   // it sleeps for
	waits []*mutex // by tick
	until int      // it works or sleeps
	prio  int      // as the kernel has it, 0 for usual
	last  int      // CPU on which it was last
	lasts []int    // by tick
	// entered is since when it has waited.
	entered int
	next    []func(*worker)
}

// past notes that a thread goes on.
func (l *mutex) past(w *worker) {
	l.between = slices.DeleteFunc(l.between, func(x *worker) bool { return x == w })
}

func newMachine(seed uint64, cpus, threads, locks int) *machine {
	m := &machine{rnd: rand.New(rand.NewPCG(seed, 7)), cpus: make([]*worker, cpus), last: make([]int, cpus)}
	for range locks {
		m.locks = append(m.locks, &mutex{})
	}
	for i := range threads {
		m.threads = append(m.threads, &worker{tid: 10 + i, cpu: -1, state: 'q'})
	}
	return m
}

func (m *machine) event(tid, cpu int, format string, args ...any) {
	who := "0"
	if tid != 0 {
		who = fmt.Sprintf("%d/10", tid)
	}
	fmt.Fprintf(&m.trace, "%s %d %d %s\n", who, cpu, 1000+m.now, fmt.Sprintf(format, args...))
}

func (m *machine) addr(l *mutex) int {
	for i := range m.locks {
		if m.locks[i] == l {
			return 0x1000 + 0x40*i
		}
	}
	return 0
}

// run runs for some ticks and returns the trace.
func (m *machine) run(ticks int) string {
	for range ticks {
		for cpu, w := range m.cpus {
			if w != nil && m.preempts(w) {
				m.off(w, 'q')
			}
			if m.cpus[cpu] == nil {
				m.on(cpu)
			}
			if w := m.cpus[cpu]; w != nil {
				m.step(w)
			}
			m.tick(cpu)
		}
		for _, w := range m.threads {
			if (w.state == 'S' || w.state == 'D') && w.until > 0 && w.until <= m.now {
				w.until = 0
				m.wake(w, 0, m.rnd.IntN(len(m.cpus)))
			}
			w.did, w.waits, w.lasts = append(w.did, w.state), append(w.waits, w.wants), append(w.lasts, w.last)
		}
		for _, l := range m.locks {
			l.owners, l.handing = append(l.owners, l.owner), append(l.handing, l.woken+l.letting > 0)
			l.betweens = append(l.betweens, slices.Clone(l.between))
		}
		m.now++
	}
	return script(m.trace.String())
}

// preempts reports whether another thread gets the CPU of one.
func (m *machine) preempts(w *worker) bool {
	if m.rnd.IntN(60) == 0 {
		next := m.waiting()
		return next != nil && !w.ranks(next)
	}
	return slices.ContainsFunc(m.threads, func(x *worker) bool { return x.prio > 0 && x.state == 'q' && x.ranks(w) })
}

// waiting returns a thread that can run and does not, nil if there is none.
func (m *machine) waiting() *worker {
	var list []*worker
	for _, w := range m.threads {
		if w.state == 'q' {
			list = append(list, w)
		}
	}
	if len(list) == 0 {
		return nil
	}
	first := list[m.rnd.IntN(len(list))]
	for _, w := range list {
		if w.ranks(first) {
			first = w
		}
	}
	return first
}

// ranks reports whether a thread runs before another one because of its priority.
func (w *worker) ranks(x *worker) bool { return w.priority() < min(x.priority(), 100) }

func (w *worker) priority() int { return cmp.Or(w.prio, 120) }

// prio is the priority of a thread by its number.
func (m *machine) prio(tid int) int {
	if tid == 0 {
		return 120
	}
	return m.worker(int32(tid)).priority()
}

func (m *machine) on(cpu int) {
	next, tid := m.waiting(), 0
	if next != nil {
		tid, next.cpu, next.state, next.last = next.tid, cpu, 'r', cpu
	}
	if tid != m.last[cpu] {
		m.event(m.last[cpu], cpu, switchLine,
			m.last[cpu], m.prio(m.last[cpu]), m.why(m.last[cpu]), tid, m.prio(tid))
	}
	m.cpus[cpu], m.last[cpu] = next, tid
}

// why is the state of a thread that was on a CPU, as the kernel writes it.
func (m *machine) why(tid int) string {
	for _, w := range m.threads {
		if w.tid == tid && w.state != 'q' {
			return string(w.state)
		}
	}
	return "R"
}

// off takes a thread off its CPU, which the next one gets.
func (m *machine) off(w *worker, state byte) {
	cpu := w.cpu
	w.cpu, w.state = -1, state
	m.cpus[cpu] = nil
	next := m.waiting()
	if next == w {
		next = nil
	}
	tid := 0
	if next != nil {
		tid, next.cpu, next.state, next.last = next.tid, cpu, 'r', cpu
	}
	word := string(state)
	if state == 'q' {
		word = "R+"
	}
	m.event(w.tid, cpu, switchLine, w.tid, w.priority(), word, tid, m.prio(tid))
	m.cpus[cpu], m.last[cpu] = next, tid
}

func (m *machine) wake(w *worker, by, cpu int) {
	m.event(by, cpu, "sched_waking: comm=a pid=%d prio=%d target_cpu=000", w.tid, w.priority())
	w.state, w.wants = 'q', nil
}

// step has a thread do the next thing.
func (m *machine) step(w *worker) {
	if w.until > m.now {
		return
	}
	w.until = 0
	if len(w.next) == 0 {
		m.plan(w)
	}
	do := w.next[0]
	w.next = w.next[1:]
	do(w)
}

// before puts actions before what a thread is to do.
func (w *worker) before(do ...func(*worker)) { w.next = append(do, w.next...) }

func (m *machine) plan(w *worker) {
	if m.deep {
		m.planDeep(w)
		return
	}
	w.next = []func(*worker){m.work(5 + m.rnd.IntN(200))}
	first := m.rnd.IntN(len(m.locks))
	w.next = append(w.next, m.lock(m.locks[first], false))
	m.inside(w)
	if second := first + 1; second < len(m.locks) && m.rnd.IntN(3) == 0 {
		w.next = append(w.next, m.lock(m.locks[second], false))
		m.inside(w)
		w.next = append(w.next, m.unlock(m.locks[second]))
	}
	w.next = append(w.next, m.unlock(m.locks[first]))
}

// inside plans what a thread does that holds a lock.
func (m *machine) inside(w *worker) {
	for range 1 + m.rnd.IntN(3) {
		n := 5 + m.rnd.IntN(150)
		if m.short {
			n = 1 + m.rnd.IntN(10)
		}
		switch m.rnd.IntN(5) {
		case 0:
			w.next = append(w.next, m.sleep('S', n))
		case 1:
			w.next = append(w.next, m.sleep('D', n))
		default:
			w.next = append(w.next, m.work(n))
		}
	}
}

func (m *machine) work(n int) func(*worker) {
	return func(w *worker) { w.until = m.now + n }
}

func (m *machine) sleep(state byte, n int) func(*worker) {
	return func(w *worker) {
		w.until = m.now + n
		m.off(w, state)
	}
}

func (m *machine) lock(l *mutex, again bool) func(*worker) {
	if m.fair {
		return m.lockPI(l)
	}
	return func(w *worker) {
		l.past(w)
		if l.word == 0 {
			l.word, l.owner = 1, w
			if again {
				l.word = 2
			}
			return
		}
		l.word, w.entered = 2, m.now
		m.event(w.tid, w.cpu, "sys_futex(uaddr: %#x, op: 0x80, val: 2, utime: 0, uaddr2: 0, val3: 0)", m.addr(l))
		w.before(func(w *worker) {
			if l.word != 2 {
				m.event(w.tid, w.cpu, "sys_futex -> 0xfffffffffffffff5")
				m.delayed(w, m.lock(l, true))
				return
			}
			l.queue, w.wants = append(l.queue, w), l
			w.before(func(w *worker) {
				m.event(w.tid, w.cpu, "sys_futex -> 0x0")
				l.woken--
				l.between = append(l.between, w)
				m.delayed(w, m.lock(l, true))
			})
			m.off(w, 'S')
		})
	}
}

func (m *machine) unlock(l *mutex) func(*worker) {
	if m.fair {
		return m.unlockPI(l)
	}
	return func(w *worker) {
		wakes := l.word == 2
		l.word, l.owner = 0, nil
		if wakes {
			l.between = append(l.between, w)
			m.delayed(w, m.letGo(l))
		}
	}
}

// letGo has a thread call the kernel to wake another one.
func (m *machine) letGo(l *mutex) func(*worker) {
	return func(w *worker) {
		l.past(w)
		m.event(w.tid, w.cpu, "sys_futex(uaddr: %#x, op: 0x81, val: 1, utime: 0, uaddr2: 0, val3: 0)", m.addr(l))
		l.letting++
		l.passes = append(l.passes, pass{called: m.now, by: w})
		at := len(l.passes) - 1
		w.before(func(w *worker) {
			l.letting--
			n := 0
			if len(l.queue) > 0 {
				n = 1
				first := l.queue[0]
				l.queue = l.queue[1:]
				l.woken++
				l.passes[at].to, l.passes[at].entered = first, first.entered
				m.wake(first, w.tid, w.cpu)
			}
			w.before(func(w *worker) { m.event(w.tid, w.cpu, "sys_futex -> %#x", n) })
		})
	}
}

// delayed has a thread do something now, or, if threads are late, at times some ticks later,
// with another one on its CPU meanwhile.
func (m *machine) delayed(w *worker, do func(*worker)) {
	if !m.late || m.rnd.IntN(3) > 0 {
		do(w)
		return
	}
	w.before(do)
	if m.rnd.IntN(2) == 0 {
		w.before(m.work(1 + m.rnd.IntN(3)))
	}
	if m.rnd.IntN(3) > 0 && m.waiting() != nil {
		m.off(w, 'q')
	}
}

func (m *machine) lockPI(l *mutex) func(*worker) {
	return func(w *worker) {
		if l.owner == nil {
			l.owner = w
			return
		}
		w.entered, l.coming = m.now, l.coming+1
		m.event(w.tid, w.cpu, "sys_futex(uaddr: %#x, op: 0x86, val: 0, utime: 0, uaddr2: 0, val3: 0)", m.addr(l))
		w.before(func(w *worker) {
			l.coming--
			w.before(func(w *worker) { m.event(w.tid, w.cpu, "sys_futex -> 0x0") })
			if l.owner == nil {
				l.owner = w
				return
			}
			l.queue, w.wants = append(l.queue, w), l
			m.off(w, 'S')
		})
	}
}

func (m *machine) unlockPI(l *mutex) func(*worker) {
	return func(w *worker) {
		if len(l.queue)+l.coming == 0 {
			l.owner = nil
			return
		}
		m.event(w.tid, w.cpu, "sys_futex(uaddr: %#x, op: 0x87, val: 0, utime: 0, uaddr2: 0, val3: 0)", m.addr(l))
		l.passes = append(l.passes, pass{called: m.now, by: w})
		at := len(l.passes) - 1
		w.before(func(w *worker) {
			l.owner = nil
			if len(l.queue) > 0 {
				first := l.queue[0]
				l.queue, l.owner = l.queue[1:], first
				l.passes[at].to, l.passes[at].entered = first, first.entered
				m.wake(first, w.tid, w.cpu)
			}
			w.before(func(w *worker) { m.event(w.tid, w.cpu, "sys_futex -> 0x0") })
		})
	}
}
