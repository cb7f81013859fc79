package wait_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// A machine is a model of a few CPUs and threads, which writes the trace that a kernel
// would have made of them, and keeps what each thread has really waited for.
type machine struct {
	rnd     *rand.Rand
	t       int // us
	cpus    []*task
	tasks   []*task
	events  []event
	waits   []*truth
	faults  bool // page faults are traced
	omitted int  // switches from idle that are left out, of 100
}

// task is a thread.
type task struct {
	tid      int
	cpu      int // -1 if it is on none
	blocked  bool
	call     int    // the number of the call that it is in, -1 for none
	wait     *truth // the last
	runnable bool
}

// truth is a wait as it was.
type truth struct {
	tid, off, woken, on int
	call                int // number, outside or faulted
	state               byte
	waker               int // -1 for an interrupt
}

const (
	faulted = -10
	outside = -11
)

// event is a record of a CPU.
type event struct {
	cpu, t int
	text   string
}

// numbers are calls of amd64 that can wait.
var numbers = []int{0, 1, 7, 23, 35, 45, 61, 74, 202, 230, 232, 257}

func newMachine(seed uint64, cpus, threads int) *machine {
	m := &machine{rnd: rand.New(rand.NewPCG(seed, 7)), t: 1_000_000, cpus: make([]*task, cpus), faults: true}
	for i := range threads {
		m.tasks = append(m.tasks, &task{tid: 100 + i, cpu: -1, call: -1, runnable: true})
	}
	return m
}

// stackAt is where stacks of wakers begin; a wait's own is its number.
const stackAt = 1 << 30

// emit writes a record of a CPU, with a stack unless that is 0.
func (m *machine) emit(cpu, tid int, flags, body string, stack int) {
	m.t += 1 + m.rnd.IntN(9)
	comm := fmt.Sprintf("t%d", tid)
	if tid == 0 {
		comm = "<idle>"
	}
	text := fmt.Sprintf("%16s-%-7d [%03d] %s %5d.%06d: ", comm, tid, cpu, flags, m.t/1_000_000, m.t%1_000_000)
	all := text + body + "\n"
	if stack != 0 {
		all += text + "<user stack trace>\n" + fmt.Sprintf(" =>  <%016x>\n", stack)
	}
	m.events = append(m.events, event{cpu, m.t, all})
}

// switchTo has a CPU run another task, nil for idle.
func (m *machine) switchTo(cpu int, state string, next *task, stack int) {
	prev, nextTID := 0, 0
	if p := m.cpus[cpu]; p != nil {
		prev, p.cpu = p.tid, -1
	}
	if next != nil {
		nextTID = next.tid
	}
	body := fmt.Sprintf("sched_switch: prev_comm=t%d prev_pid=%d prev_prio=120 prev_state=%s ==> next_comm=t%d next_pid=%d next_prio=120", prev, prev, state, nextTID, nextTID)
	hidden := prev == 0 && m.rnd.IntN(100) < m.omitted
	if !hidden {
		m.emit(cpu, prev, "d..2.", body, stack)
	}
	if m.cpus[cpu] = next; next == nil {
		return
	}
	next.cpu, next.runnable = cpu, false
	if w := next.wait; w != nil && w.on == 0 {
		w.on = m.t
		if hidden {
			w.on = -1
		}
	}
}

// pick returns a task that is runnable, nil if there is none.
func (m *machine) pick() *task { return m.one(func(t *task) bool { return t.runnable }) }

func (m *machine) one(of func(*task) bool) *task {
	var all []*task
	for _, t := range m.tasks {
		if of(t) {
			all = append(all, t)
		}
	}
	if len(all) == 0 {
		return nil
	}
	return all[m.rnd.IntN(len(all))]
}

// wake wakes a task that waits: by the task of a CPU, or an interrupt there.
func (m *machine) wake(cpu int, interrupted bool) {
	w := m.one(func(t *task) bool { return t.blocked })
	if w == nil {
		return
	}
	m.wakes(cpu, w, interrupted)
	w.blocked, w.runnable = false, true
	w.wait.woken = m.t
}

// wakes writes a wakeup, and notes the waker.
func (m *machine) wakes(cpu int, w *task, interrupted bool) {
	tid, flags, stack := 0, "d.h4.", 0
	if p := m.cpus[cpu]; p != nil {
		tid = p.tid
		if stack = stackAt + tid; !interrupted {
			flags = "d..4."
		}
	}
	m.emit(cpu, tid, flags, fmt.Sprintf("sched_waking: comm=t%d pid=%d prio=120 target_cpu=000", w.tid, w.tid), stack)
	if w.wait.waker = tid; tid == 0 || interrupted {
		w.wait.waker = -1
	}
}

// block has the task of a CPU wait. It can be woken while it goes off.
func (m *machine) block(cpu int, state byte, call int) {
	t := m.cpus[cpu]
	w := &truth{tid: t.tid, call: call, state: state}
	m.waits = append(m.waits, w)
	t.wait = w
	other := m.rnd.IntN(len(m.cpus))
	early := m.rnd.IntN(12) == 0 && other != cpu && m.cpus[other] != nil && m.cpus[other].call >= 0
	if early {
		m.wakes(other, t, false)
	}
	w.on = -2 // not yet
	m.switchTo(cpu, string(state), nil, len(m.waits))
	w.off, w.on = m.t, 0
	if t.blocked = true; early {
		w.woken, t.blocked, t.runnable = w.off, false, true
	}
	if next := m.pick(); next != nil && m.rnd.IntN(3) > 0 && next != t {
		m.switchTo(cpu, "R", next, 0)
	}
}

// step lets something happen on a CPU.
func (m *machine) step() {
	cpu := m.rnd.IntN(len(m.cpus))
	t := m.cpus[cpu]
	choice := m.rnd.IntN(20)
	switch {
	case t == nil && choice < 14:
		if next := m.pick(); next != nil {
			m.switchTo(cpu, "R", next, 0)
		}
	case t == nil || choice == 0:
		m.wake(cpu, true)
	case choice == 1: // preempted
		if next := m.pick(); next != nil {
			m.switchTo(cpu, "R+", next, 0)
			t.runnable = true
		}
	case t.call < 0 && choice < 14:
		t.call = numbers[m.rnd.IntN(len(numbers))]
		m.emit(cpu, t.tid, ".....", fmt.Sprintf("sys_enter: NR %d (3, 7ffc01234568, 0, 0, 0, 0)", t.call), 0)
	case t.call < 0 && choice < 17 && m.faults:
		m.emit(cpu, t.tid, ".....", "page_fault_user: address=0x1000 ip=0x2000 error_code=0x4", 0)
		if choice == 14 {
			m.block(cpu, 'D', faulted)
		}
	case t.call < 0:
	case choice < 8:
		m.block(cpu, "SD"[m.rnd.IntN(2)], t.call)
	case choice < 14:
		m.wake(cpu, false)
	default:
		m.emit(cpu, t.tid, ".....", fmt.Sprintf("sys_exit: NR %d = 0", t.call), 0)
		t.call = -1
	}
}

// run makes a trace of so many steps.
func (m *machine) run(steps int) {
	for range steps {
		m.step()
	}
}

// text returns the trace, without what is lost: each CPU loses its records in some times.
func (m *machine) text(losses int) string {
	type loss struct{ cpu, from, to int }
	var lost []loss
	span := m.t - 1_000_000
	for range losses {
		from := 1_000_000 + m.rnd.IntN(span)
		lost = append(lost, loss{m.rnd.IntN(len(m.cpus)), from, from + 1 + m.rnd.IntN(200)})
	}
	missing, last := make([]int, len(m.cpus)), make([]int, len(m.cpus))
	for _, e := range m.events {
		last[e.cpu] = e.t // that stays: a loss at the end leaves no trace
	}
	var b strings.Builder
	b.WriteString("# tracer: nop\n#\n")
	for _, e := range m.events {
		gone := false
		for _, l := range lost {
			gone = gone || l.cpu == e.cpu && e.t >= l.from && e.t < l.to && e.t != last[e.cpu]
		}
		if gone {
			missing[e.cpu]++
			continue
		}
		if n := missing[e.cpu]; n > 0 {
			fmt.Fprintf(&b, "CPU:%d [LOST %d EVENTS]\n", e.cpu, n)
			missing[e.cpu] = 0
		}
		b.WriteString(e.text)
	}
	return b.String()
}
