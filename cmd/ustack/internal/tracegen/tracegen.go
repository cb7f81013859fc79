// Package tracegen writes large trace_pipe texts for tests and benchmarks.
//
// The text has the template a kernel with deferred user stacks and hashed file
// identifiers writes: sched_switch and futex system call events, a cookie
// record after each event of a user task, `<user stack unwind>` records with
// their cookie line and frames, and a file_map event shortly after the
// first stack that uses an identifier. It comes from a small simulation of
// four CPUs that run a few hundred tasks, so that records of different CPUs
// interleave, time never goes back, and each stack answers a request which
// the same task made before.
//
// The record mix follows a real capture of the same dialect, 56 MB and
// 812,365 lines of a futex heavy workload, 69.4 bytes a line:
//
//	34.8 % of lines  frames, 37.0 bytes each
//	19.9 %           cookie= records, 70.9 bytes
//	10.9 %           stack headers, 71.0 bytes
//	10.9 %           cookie= lines of stacks, 19.9 bytes
//	12.5 %           sched_switch, 167.9 bytes, 27 % of them from idle
//	 5.5 %           futex enter, 141.5 bytes
//	 5.5 %           futex exit, 69.2 bytes
//	0.01 %           file_map, 170.8 bytes
//
// with 3.2 frames a stack (41 % of stacks have one frame, 43 % have five),
// 0.5 % of frames outside any file (0x0) and 0.08 % outside any mapping
// (0xffffffff). Unlike that capture, stacks end at eight frames, processes
// come and go over the whole trace so that new files keep being announced and
// old identifiers are bound anew, and now and then records are lost.
package tracegen

import (
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"
)

// Config says what to write. The zero value of each field but Bytes is a
// useful default.
type Config struct {
	// Bytes is the length to reach. The trace ends with the record in which
	// it is reached, so it is longer by less than one record.
	Bytes int64

	// Seed selects the trace. The same Config always gives the same bytes.
	Seed uint64

	// Processes is how many processes live at a time; 0 means 24. They have
	// about 12 tasks each.
	Processes int

	// RenewEvery is the number of stacks after which one process exits and
	// another one takes its place, with new tasks and newly announced files,
	// some of them under identifiers that stood for other files before.
	// 0 means 4000, a negative number means never.
	RenewEvery int

	// LostEvery is the number of records, on average and over all CPUs, after
	// which one CPU loses between 20 and 600 of them, which a
	// CPU:n [LOST k EVENTS] line then stands for. MappingEvents can be among
	// the lost. 0 means 250,000, a negative number means never.
	LostEvery int
}

// Stats counts what was written.
type Stats struct {
	Bytes         int64 // length of the text
	Lines         int64 // all lines
	Events        int64 // sched_switch and futex records
	Cookies       int64 // cookie= records, without the cookie lines of stacks
	Stacks        int64 // user stack records
	Frames        int64 // frame lines
	MappingEvents int64 // file_map records
	Rebindings    int64 // mapping events of an identifier last announced for another file
	Losses        int64 // CPU:n [LOST k EVENTS] lines
	Lost          int64 // records which those lines stand for
	Tasks         int64 // tasks that ever existed, kernel threads included
}

// Write writes a trace to w and returns what it wrote. The only errors are w's.
func Write(w io.Writer, cfg Config) (Stats, error) {
	g := newGenerator(w, cfg)
	for g.stats.Bytes < cfg.Bytes {
		g.step(g.earliest())
		if len(g.buf) >= flushAt {
			if err := g.flush(); err != nil {
				return g.stats, err
			}
		}
	}
	return g.stats, g.flush()
}

const (
	cpus    = 4
	flushAt = 64 << 10

	startTime = 5_084_919_000 // ns
	firstPID  = 240
)

// The life of a task is a chain of entries into the kernel. A script lists
// the records of one entry.
const (
	opEnter    = 'E' // sys_futex(...)
	opExit     = 'X' // sys_futex -> ...
	opSwitch   = 'S' // sched_switch away from the task
	opCookie   = 'c' // cookie= after each of them
	opStack    = 'K' // the stack, on return to user space
	opAnnounce = 'A' // file_map of an identifier which that stack was first to use
	opGone     = 'G' // the last sched_switch of the task
	opNoCookie = '0' // cookie=0 after that
)

const (
	scriptSleep      = "ScK"
	scriptSleepTwice = "ScScK"
	scriptWake       = "EcXcK"
	scriptWait       = "EcScXcK"
	scriptWaitTwice  = "EcScScXcK"
	scriptPreempted  = "EcXcScK"
	scriptAnnounce   = "Ac"
	scriptGone       = "G0"
)

func newGenerator(w io.Writer, cfg Config) *generator {
	if cfg.Processes <= 0 {
		cfg.Processes = 24
	}
	if cfg.RenewEvery == 0 {
		cfg.RenewEvery = 4000
	}
	if cfg.LostEvery == 0 {
		cfg.LostEvery = 250_000
	}
	g := &generator{
		w:       w,
		cfg:     cfg,
		buf:     make([]byte, 0, flushAt+8<<10),
		r:       random{rand.NewPCG(cfg.Seed, 0x75_73_74_61_63_6b)},
		pid:     firstPID,
		renewAt: int64(cfg.RenewEvery),
	}
	g.files, g.programs = catalogue(g.r)
	g.addCPUs()
	for i := range cfg.Processes {
		g.addProcess(&g.programs[i%len(g.programs)])
	}
	return g
}

func (g *generator) addCPUs() {
	sched := g.newTask(nil, "rcu_sched", 14)
	sched.state = "I"
	for i := range g.cpus {
		c := &g.cpus[i]
		c.id = i
		c.column = fmt.Sprintf("%03d] ", i)
		c.now = startTime + int64(g.r.n(400_000))
		c.counter = 3
		c.until = g.lossDistance()
		c.idle = g.newTask(nil, "<idle>", 0)
		c.idle.state = "R"
		c.idle.prev = fmt.Sprintf("sched_switch: prev_comm=swapper/%d prev_pid=0 prev_prio=120 prev_state=", i)
		c.idle.next = fmt.Sprintf(" ==> next_comm=swapper/%d next_pid=0 next_prio=120\n", i)
		c.cur = c.idle
		worker := g.newTask(nil, fmt.Sprintf("kworker/%d:1", i), 50+i)
		worker.state = "I"
		softirq := g.newTask(nil, fmt.Sprintf("ksoftirqd/%d", i), 16+6*i)
		softirq.state = "S"
		c.kernel = []*task{sched, sched, sched, worker, softirq}
	}
}

func (g *generator) newTask(p *process, comm string, pid int) *task {
	g.stats.Tasks++
	return &task{
		proc: p,
		head: fmt.Sprintf("%16s-%-7d [", comm, pid),
		prev: fmt.Sprintf("sched_switch: prev_comm=%s prev_pid=%d prev_prio=120 prev_state=", comm, pid),
		next: fmt.Sprintf(" ==> next_comm=%s next_pid=%d next_prio=120\n", comm, pid),
	}
}

// addProcess starts a process with all its threads, which wait to be run.
func (g *generator) addProcess(prog *program) {
	p := &process{prog: prog, warm: 2}
	for _, f := range prog.files {
		p.maps = append(p.maps, g.newMapping(f))
	}
	p.special = g.specialFrames()
	p.wakes, p.waits = g.futexCalls()
	for i := range g.r.between(prog.minThreads, prog.maxThreads) {
		comm := prog.comm
		if prog.numbered {
			comm += strconv.Itoa(i)
		}
		g.pool = append(g.pool, g.newTask(p, comm, g.pid))
		g.pid++
		p.live++
	}
	g.procs = append(g.procs, p)
}

// newMapping gives a file of a new process an identifier, often one that has
// been free for a while.
func (g *generator) newMapping(f *file) mapping {
	m := mapping{file: f}
	if n := len(g.free); n > 0 && g.r.chance(1, 2) {
		i := g.r.n(n)
		m.hash, m.shown = g.free[i].hash, g.free[i].shown
		g.free[i] = g.free[n-1]
		g.free = g.free[:n-1]
	} else {
		for m.hash == 0 || m.hash == 1<<32-1 {
			m.hash = uint32(g.r.pcg.Uint64())
		}
	}
	m.text = fmt.Sprintf("0x%x", m.hash)
	return m
}

// reap ends a process whose last thread is gone.
func (g *generator) reap(p *process) {
	for i, q := range g.procs {
		if q == p {
			g.procs[i] = g.procs[len(g.procs)-1]
			g.procs = g.procs[:len(g.procs)-1]
			break
		}
	}
	for _, m := range p.maps {
		g.free = append(g.free, freed{m.hash, m.shown})
	}
	g.addProcess(&g.programs[g.r.n(len(g.programs))])
}

// renew marks a process to exit when it is time for that.
func (g *generator) renew() {
	if g.cfg.RenewEvery < 0 || g.stats.Stacks < g.renewAt {
		return
	}
	g.renewAt += int64(g.cfg.RenewEvery)
	g.procs[g.r.n(len(g.procs))].dying = true
}

func (g *generator) lossDistance() int {
	if g.cfg.LostEvery < 0 {
		return 1<<62 - 1
	}
	return g.cfg.LostEvery/2 + g.r.n(g.cfg.LostEvery)
}

func (g *generator) flush() error {
	_, err := g.w.Write(g.buf)
	g.buf = g.buf[:0]
	return err
}

// earliest returns the CPU whose record comes next.
func (g *generator) earliest() *cpu {
	c := &g.cpus[0]
	for i := 1; i < cpus; i++ {
		if g.cpus[i].now < c.now {
			c = &g.cpus[i]
		}
	}
	return c
}

// step writes the next record of a CPU.
func (g *generator) step(c *cpu) {
	t := c.cur
	if t.proc == nil {
		g.leaveKernelTask(c)
		return
	}
	if t.at == len(t.script) {
		g.plan(t)
	}
	op := t.script[t.at]
	t.at++
	switch op {
	case opEnter:
		g.enter(c, t)
	case opExit:
		g.exit(c, t)
	case opSwitch:
		g.sleep(c, t)
	case opCookie:
		g.cookie(c, t)
	case opStack:
		g.stack(c, t)
	case opAnnounce:
		g.announce(c, t)
	case opGone:
		t.state, t.flags = "X", flagsSwitch
		g.switchTo(c, t)
		c.now += int64(g.r.between(1000, 2500))
	case opNoCookie:
		t.cookie = 0
		g.cookieRecord(c, t)
		g.gone(c, t)
	}
}

// scripts and their weights, as in the real capture.
var (
	scripts = [...]string{scriptSleep, scriptWait, scriptWake, scriptPreempted, scriptSleepTwice, scriptWaitTwice}
	often   = []int{4910, 2580, 2150, 290, 60, 10}
)

// plan chooses what a task does next.
func (g *generator) plan(t *task) {
	t.at = 0
	if t.pend != 0 {
		t.script = scriptAnnounce
		return
	}
	t.cookie = 0
	if t.proc.dying {
		t.script = scriptGone
		return
	}
	t.script = scripts[g.r.pick(often)]
	t.state = g.sleepState(t.script)
	switch t.script {
	case scriptWait, scriptWaitTwice:
		t.call = &t.proc.waits[g.r.n(len(t.proc.waits))]
	case scriptWake, scriptPreempted:
		t.call = &t.proc.wakes[g.r.n(len(t.proc.wakes))]
	}
}

func (g *generator) sleepState(script string) string {
	x := g.r.n(1000)
	switch script {
	case scriptSleep, scriptSleepTwice:
		switch {
		case x < 2:
			return "D"
		case x < 30:
			return "R+"
		case x < 140:
			return "R"
		}
	case scriptPreempted:
		return "R"
	}
	return "S"
}

const (
	flagsUser   = "....."
	flagsLazy   = ".l..."
	flagsSwitch = "d..2."
)

func (g *generator) userFlags(t *task) {
	t.flags = flagsUser
	if g.r.chance(27, 1000) {
		t.flags = flagsLazy
	}
}

func (g *generator) enter(c *cpu, t *task) {
	g.userFlags(t)
	start := g.begin(c, t, t.flags)
	g.buf = append(g.buf, t.call.body...)
	if g.commit(c, start, 1) {
		g.stats.Events++
	}
	c.now += int64(g.r.between(600, 1600))
}

func (g *generator) exit(c *cpu, t *task) {
	ret := "sys_futex -> 0x0\n"
	waited := t.script == scriptWait || t.script == scriptWaitTwice
	switch x := g.r.n(1000); {
	case waited && t.call.timeout && x < 680:
		ret = "sys_futex -> 0xffffffffffffff92\n"
	case waited && x > 997:
		ret = "sys_futex -> 0xfffffffffffffff5\n"
	case !waited && !t.call.all && x < 950:
		ret = "sys_futex -> 0x1\n"
	}
	g.userFlags(t)
	start := g.begin(c, t, t.flags)
	g.buf = append(g.buf, ret...)
	if g.commit(c, start, 1) {
		g.stats.Events++
	}
	c.now += int64(g.r.between(600, 1600))
}

// sleep takes a task off its CPU, its cookie record yet to come.
func (g *generator) sleep(c *cpu, t *task) {
	t.flags = flagsSwitch
	g.switchTo(c, t)
	c.now += int64(g.r.between(600, 1600))
}

// switchTo writes a sched_switch to some other task.
func (g *generator) switchTo(c *cpu, t *task) {
	c.next = g.nextTask(c)
	start := g.begin(c, t, flagsSwitch)
	g.buf = append(g.buf, t.prev...)
	g.buf = append(g.buf, t.state...)
	g.buf = append(g.buf, c.next.next...)
	if g.commit(c, start, 1) {
		g.stats.Events++
	}
}

// nextTask chooses the task that runs next.
func (g *generator) nextTask(c *cpu) *task {
	x := g.r.n(1000)
	if x < 365 && c.cur != c.idle {
		return c.idle
	}
	if x > 969 {
		if k := c.kernel[g.r.n(len(c.kernel))]; !k.busy {
			k.busy = true
			return k
		}
	}
	n := len(g.pool)
	if n == 0 {
		return c.idle
	}
	// Tasks that slept only a little while are more likely to run again.
	i := g.r.n(n)
	if hot := 24; n > hot && g.r.chance(3, 4) {
		i = n - 1 - g.r.n(hot)
	}
	t := g.pool[i]
	copy(g.pool[i:], g.pool[i+1:])
	g.pool = g.pool[:n-1]
	return t
}

// run starts the task that the last sched_switch named.
func (g *generator) run(c *cpu) {
	c.cur, c.next = c.next, nil
	switch {
	case c.cur == c.idle:
		c.now += int64(g.r.between(5_000, 2_200_000))
	case c.cur.proc == nil:
		c.now += int64(g.r.between(5_000, 60_000))
	default:
		c.now += int64(g.r.between(4_000, 40_000))
	}
}

// leaveKernelTask switches from an idle task or a kernel thread to another.
func (g *generator) leaveKernelTask(c *cpu) {
	t := c.cur
	g.switchTo(c, t)
	t.busy = false
	g.run(c)
}

func (g *generator) gone(c *cpu, t *task) {
	g.run(c)
	if t.proc.live--; t.proc.live == 0 {
		g.reap(t.proc)
	}
}
