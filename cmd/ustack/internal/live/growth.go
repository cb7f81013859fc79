package live

import (
	"fmt"
	"runtime"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// growth is how the buffers of all CPUs grow: records that the reader has not come to are
// held in memory when a buffer fills (binary.Grow). Its zero value does not grow.
type growth struct {
	say  func(string, ...any)
	ring int64 // bytes of the kernel's buffer of a CPU
	all  int64 // of all CPUs
	room int64 // bytes of memory besides, 0 for none
	// procs is how many goroutines could run before, 0 if that has not been changed.
	procs int
	held  atomic.Int64
	said  atomic.Bool
}

const (
	kib = 1 << 10
	mib = 1 << 20
)

// UsualMaxBuffer is what the buffers may grow to unless it is said: 5 % of the machine's
// memory, in bytes.
func UsualMaxBuffer() int64 {
	const part = 20
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) != nil {
		return 0
	}
	return int64(uint64(info.Totalram) * uint64(info.Unit) / part)
}

// startGrowth finds out how far the buffers may grow. Buffers of which the size was said
// grow only if a limit was said, too.
func (s *session) startGrowth() error {
	if s.in == nil {
		return nil // perf's rings stay as they are
	}
	most := s.opt.MaxBuffer
	switch {
	case most >= 0:
	case s.opt.BufferKB > 0:
		return nil
	default:
		most = UsualMaxBuffer()
	}
	kb, err := s.in.BufferKB()
	if err != nil {
		return err
	}
	cpus, err := s.in.CPUs()
	if err != nil {
		return err
	}
	g := &s.growth
	g.say, g.ring = s.say, int64(kb)*kib
	g.all = g.ring * int64(len(cpus))
	if g.room = max(most-g.all, 0); g.room > 0 {
		// Another program may have the CPUs on which the goroutines of the trace are: one
		// more can run then, the one that makes room.
		g.procs = runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + 1)
	}
	return nil
}

// end has as many goroutines run as before.
func (g *growth) end() {
	if g.procs > 0 {
		runtime.GOMAXPROCS(g.procs)
		g.procs = 0
	}
}

// grown notes how much is held at most. It says so when the buffer of a CPU could have
// doubled.
func (g *growth) grown(bytes int64) {
	g.held.Store(max(bytes, g.held.Load()))
	if bytes >= g.ring && !g.said.Swap(true) {
		g.say("events come faster than they are read: the buffer grows, to at most %d MB (--max-buffer)", (g.all+g.room)/mib)
	}
}

// full reports whether there was no room at some time.
func (g *growth) full() bool { return g.room > 0 && g.held.Load()+mib > g.room }

// report prints how far the buffer has grown.
func (g *growth) report(say func(string, ...any)) {
	held := g.held.Load()
	if held == 0 {
		return
	}
	all := ""
	if g.full() {
		all = ", all that --max-buffer allows"
	}
	say("the buffer grew from %d to %d MB%s", g.all/mib, (g.all+held)/mib, all)
}

// enough returns the flags by which nothing would have been lost, if a buffer of kb for each
// CPU would have held what this one has lost.
func (g *growth) enough(kb int) string {
	text := fmt.Sprintf("-b %d", kb)
	if g.room == 0 {
		return text
	}
	most := g.all + g.room
	if ring := int64(kb) * kib; g.ring > 0 {
		most += g.all / g.ring * max(ring-g.ring, 0)
	}
	return fmt.Sprintf("%s --max-buffer %dM", text, (most+mib-1)/mib)
}
