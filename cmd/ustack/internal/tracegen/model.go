package tracegen

import (
	"io"
	"math/bits"
	"math/rand/v2"
)

// A task is a thread. Kernel threads and the idle tasks have no process.
type task struct {
	proc *process

	// Parts of record texts which never change.
	head string // comm, pid and the bracket before the CPU
	prev string // sched_switch up to the state
	next string // sched_switch from the state on

	script string // the entry under way
	at     int    // place in it
	state  string // of the next sched_switch, kernel threads: of each
	cookie uint64 // of the entry, 0 before its first request
	flags  string // of the last record
	call   *futexCall
	pend   uint32 // bit set of the process's mappings to announce
	busy   bool   // kernel thread that runs on some CPU
}

// A process has some mapped files and threads which use them.
type process struct {
	prog      *program
	maps      []mapping
	announced uint32   // bit set of maps
	special   [3]frame // outside any file
	wakes     []futexCall
	waits     []futexCall
	warm      int // stacks of the dynamic linker left to come
	live      int // threads
	dying     bool
}

type mapping struct {
	hash  uint32
	text  string // hash as frames show it
	file  *file
	shown *file // what hash was last announced to stand for
}

// A futexCall is one way in which a process calls futex.
type futexCall struct {
	body    string // from "sys_futex(" on
	timeout bool
	all     bool // wakes any number
}

// A freed identifier can be bound again.
type freed struct {
	hash  uint32
	shown *file
}

type cpu struct {
	id      int
	column  string // "000] "
	now     int64  // ns, of the next record
	cur     *task
	idle    *task
	next    *task // whom the last sched_switch of cur leads to
	kernel  []*task
	counter uint64 // upper half of the next cookie
	until   int    // records before the next loss
	drop    int    // records yet to lose
	lost    int    // records lost and not yet reported
}

type generator struct {
	w     io.Writer
	cfg   Config
	buf   []byte
	stats Stats
	r     random

	files    []file
	programs []program
	cpus     [cpus]cpu
	procs    []*process
	pool     []*task // asleep user tasks
	free     []freed
	pid      int
	renewAt  int64 // number of stacks
}

// random is a seeded PCG. Its reduction to a range is spelled out here so that
// a trace never depends on a library's.
type random struct{ pcg *rand.PCG }

func (r random) n(n int) int {
	hi, _ := bits.Mul64(r.pcg.Uint64(), uint64(n))
	return int(hi)
}

func (r random) chance(n, of int) bool { return r.n(of) < n }

func (r random) between(lo, hi int) int { return lo + r.n(hi-lo+1) }

// pick returns an index with a probability in proportion to its weight.
func (r random) pick(weights []int) int {
	sum := 0
	for _, w := range weights {
		sum += w
	}
	x := r.n(sum)
	i := 0
	for x -= weights[0]; x >= 0; x -= weights[i] {
		i++
	}
	return i
}
