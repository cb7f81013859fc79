package futex_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

const switchLine = "sched_switch: prev_comm=a prev_pid=%d prev_prio=120 prev_state=%s ==> next_comm=b next_pid=%d next_prio=120"

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
}

type mutex struct {
	word    int
	owner   *worker
	queue   []*worker
	owners  []*worker // by tick
	handing []bool    // a thread is being woken, or was and has not returned, by tick
	letting int       // calls that are to wake one and have not
	woken   int
	// between has the threads that are back from waiting and have not taken it yet, or have
	// released it and not called yet; betweens are the same by tick. Until they go on, those
	// who wait do not.
	between  []*worker
	betweens [][]*worker
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
	next  []func(*worker)
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
			if w != nil && m.rnd.IntN(60) == 0 && m.waiting() != nil {
				m.off(w, 'q')
			}
			if m.cpus[cpu] == nil {
				m.on(cpu)
			}
			if w := m.cpus[cpu]; w != nil {
				m.step(w)
			}
		}
		for _, w := range m.threads {
			if (w.state == 'S' || w.state == 'D') && w.until > 0 && w.until <= m.now {
				w.until = 0
				m.wake(w, 0, m.rnd.IntN(len(m.cpus)))
			}
			w.did, w.waits = append(w.did, w.state), append(w.waits, w.wants)
		}
		for _, l := range m.locks {
			l.owners, l.handing = append(l.owners, l.owner), append(l.handing, l.woken+l.letting > 0)
			l.betweens = append(l.betweens, slices.Clone(l.between))
		}
		m.now++
	}
	return script(m.trace.String())
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
	return list[m.rnd.IntN(len(list))]
}

func (m *machine) on(cpu int) {
	next, tid := m.waiting(), 0
	if next != nil {
		tid, next.cpu, next.state = next.tid, cpu, 'r'
	}
	if tid != m.last[cpu] {
		m.event(m.last[cpu], cpu, switchLine,
			m.last[cpu], m.why(m.last[cpu]), tid)
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
		tid, next.cpu, next.state = next.tid, cpu, 'r'
	}
	word := string(state)
	if state == 'q' {
		word = "R+"
	}
	m.event(w.tid, cpu, switchLine, w.tid, word, tid)
	m.cpus[cpu], m.last[cpu] = next, tid
}

func (m *machine) wake(w *worker, by, cpu int) {
	m.event(by, cpu, "sched_waking: comm=a pid=%d prio=120 target_cpu=000", w.tid)
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
	return func(w *worker) {
		l.past(w)
		if l.word == 0 {
			l.word, l.owner = 1, w
			if again {
				l.word = 2
			}
			return
		}
		l.word = 2
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
		w.before(func(w *worker) {
			l.letting--
			n := 0
			if len(l.queue) > 0 {
				n = 1
				first := l.queue[0]
				l.queue = l.queue[1:]
				l.woken++
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
