package histgen

import (
	"bufio"
	"fmt"
	"io"
	"slices"
)

// Dialect is what the kernel writes in the place of a file.
type Dialect int

const (
	Hash    Dialect = iota // of the struct file's address
	ByInode                // a hash of the inode number
	Inode                  // inode and device
	Stock                  // raw addresses, taken at the event: the option userstacktrace
)

// Config says what to make. The same Config always makes the same bytes.
type Config struct {
	Seed    uint64
	Dialect Dialect
	// Stacks is how many stacks to make.
	Stacks int
	// First: the kernel announces files before the stack, not after it.
	First bool
	// LoseTrace and LoseLog: the trace loses mapping events and stacks, the log
	// loses changes of spaces.
	LoseTrace, LoseLog bool
	// Raw: the log has the raw addresses of stacks.
	Raw bool
	// Others: another tracer has the kernel announce files for its own stacks.
	Others bool
	// Hasty: at times much changes within the rounding of a time stamp.
	Hasty bool
	// Poll: a poller reads the processes, and writes a dump of the changes. All is slower by as much as that takes.
	Poll bool
	// Pauses: the poller makes pauses. Notes: the dump says when processes were read
	// without a change. IDs: it has build IDs.
	Pauses, Notes, IDs bool
}

// Frame is what a frame really was in.
type Frame struct {
	Path    string // "" if it is in no file
	BuildID [20]byte
	Offset  uint64
	Exec    bool
}

// Stack is a stack as it really was. Frames are by the mappings when it was
// unwound, Raw by those when its system call began, as far as raw stacks go.
type Stack struct {
	Frames, Raw []Frame
}

// Result is what was made.
type Result struct {
	// Dump has the files of the poller's dump by their names.
	Dump map[string][]byte
	// Stacks are by the number in val3 of the call.
	Stacks map[int]Stack
	Frames int
}

// rawDepth is how many addresses the option userstacktrace gives
// (FTRACE_STACK_ENTRIES in kernel/trace/trace_entries.h).
const rawDepth = 8

type generator struct {
	*world
	cfg        Config
	trace, log *bufio.Writer
	announced  map[string]bool
	open       []*thread // in a call
	calls      int
	cookies    uint64
	result     Result

	losing    bool // the log
	lostFrom  int64
	lostLines int
	missing   []*thread  // that ended meanwhile
	apart     []*process // that got their own memory meanwhile
	traceLoss int        // records still to be lost
	traceLost int        // records lost
	lines     int
	burst     int // steps that are still to be hasty
	poller    *poller
}

// Write makes a trace and the log of a side band that watched the machine.
func Write(trace, log io.Writer, cfg Config) (Result, error) {
	g := &generator{world: newWorld(cfg.Seed), cfg: cfg, trace: bufio.NewWriter(trace), log: bufio.NewWriter(log),
		announced: make(map[string]bool), result: Result{Stacks: make(map[int]Stack)}}
	if cfg.Poll {
		g.poller = newPoller()
	}
	g.begin()
	for len(g.result.Stacks) < cfg.Stacks {
		g.step()
	}
	if g.losing {
		g.endLoss()
	}
	for _, t := range slices.Clone(g.open) {
		g.finish(t)
	}
	g.logf("until %s\n", seconds(g.tick()))
	g.result.Dump = g.poller.files(cfg.Notes)
	if err := g.trace.Flush(); err != nil {
		return g.result, err
	}
	return g.result, g.log.Flush()
}

// begin makes the first processes.
func (g *generator) begin() {
	fmt.Fprint(g.log, "# ustack side band 2 clock=mono\n")
	for range 4 {
		p := g.newProcess(&mm{users: 1})
		g.load(p, g.files[10+g.rng.IntN(6)], false)
		g.insertLibrary(p, g.files[16], false)
	}
	for _, p := range g.procs {
		g.reading(p)
	}
	g.logf("sure %s\n", seconds(g.now))
	g.logf("until %s\n", seconds(g.now))
}

func (g *generator) newProcess(m *mm) *process {
	g.pid++
	p := &process{pid: g.pid, mm: m, comm: fmt.Sprintf("p%d", g.pid)}
	p.threads = []*thread{{tid: p.pid, cpu: g.rng.IntN(4), proc: p}}
	g.procs = append(g.procs, p)
	return p
}

// tick lets some time go by.
func (g *generator) tick() int64 {
	step := int64(200 + g.rng.IntN(4000))
	switch {
	case g.cfg.Poll:
		step *= slow
	case g.burst > 0:
		step = int64(10 + g.rng.IntN(150))
	}
	g.now += step
	return g.now
}

func (g *generator) step() {
	g.tick()
	if g.burst > 0 {
		g.burst--
	} else if g.cfg.Hasty && g.chance(4) {
		g.burst = 2 + g.rng.IntN(12)
	}
	if g.poller != nil {
		g.poller.poll(g)
	}
	if g.cfg.LoseLog {
		g.loseLog()
	}
	if g.cfg.LoseTrace && g.traceLoss == 0 && g.rng.IntN(2000) == 0 {
		g.traceLoss = 1 + g.rng.IntN(40)
	}
	if len(g.open) > 0 && g.chance(45) {
		t := g.open[g.rng.IntN(len(g.open))]
		g.finish(t)
		if g.chance(8) {
			hostile{g}.otherTracer(t)
		}
		return
	}
	p := g.procs[g.rng.IntN(len(g.procs))]
	t := p.threads[g.rng.IntN(len(p.threads))]
	switch {
	case t.waits != nil:
	case t.call == nil && g.chance(80):
		g.enter(t)
	default:
		g.change(p, t)
	}
}

// change changes an address space or the processes.
func (g *generator) change(p *process, t *thread) {
	switch n := g.rng.IntN(125); {
	case n < 35:
		g.dlopen(p)
	case n < 65:
		g.dlclose(p)
	case n < 70:
		g.fork(p)
	case n < 75:
		g.exec(p)
	case n < 79:
		g.exit(p)
	case n < 84 && len(p.threads) < 6:
		g.pid++
		p.threads = append(p.threads, &thread{tid: g.pid, cpu: g.rng.IntN(4), proc: p})
		g.logf("thread %s %d %d\n", seconds(g.now), p.pid, g.pid)
	case n < 88:
		g.jit(p)
	case n < 91:
		g.move(p)
	case n < 95:
		g.replace()
	case n < 100:
		g.mapOver(p)
	case n < 103:
		g.clone(t, g.chance(50))
	case n < 106:
		g.spawn(t)
	case n < 112:
		hostile{g}.swap(p)
	case n < 114:
		hostile{g}.keep(p)
	case n < 117:
		hostile{g}.turn(p)
	case n < 119:
		hostile{g}.attach(p)
	case n < 123:
		hostile{g}.otherTracer(t)
	default:
		hostile{g}.again(p)
	}
	if g.lines > 200 {
		g.lines = 0
		g.logf("until %s\n", seconds(g.now))
	}
}

// seconds returns a time as logs have it.
func seconds(ns int64) string { return fmt.Sprintf("%d.%09d", ns/1e9, ns%1e9) }
