package sideband

import (
	"math"
	"os"

	"golang.org/x/sys/unix"

	"ustack/filemap/procmap"
	"ustack/filemap/space"
	"ustack/tracefs"
	"ustack/tracefs/perf"
)

// move is an mremap that has been called and has not returned.
type move struct {
	pid   int
	began tracefs.Time
	// from and size are the moved range, to is how large it will be, at where
	// it goes, if fixed.
	from, size, to, at uint64
	fixed              bool
	// keeps: the old place keeps its mapping, without what was written to it.
	keeps bool
	// code is the known code there when the call began, parts where it was, and
	// what was where it goes.
	code  []space.Mapping
	parts []taken
	// space is the known memory of the process right after that: if it is the
	// same when the call returns, nothing else that is known has changed.
	// disturbed: another thread has taken something away, or may have. met: it has put
	// something to the old place or the new one.
	space          *space.Space
	disturbed, met bool
}

// calls are the system calls that change memory without a record of perf, and what
// they change.
type calls struct {
	history *History
	watch   *watch // of the process that is read
	// opened is when all rings were open.
	opened tracefs.Time
	// seen reports whether there are records of a change. lose and loseSoft note that
	// records of a CPU are missing, see History.
	seen           func(change) bool
	lose, loseSoft func(cpu int, n uint64, from, t tracefs.Time)
	// watchFile watches the file of a mapping that was made at t; it may be nil.
	watchFile func(pid int, m *procmap.Mapping, t tracefs.Time)

	// takings has, by thread, the calls that may not have returned, moves the
	// calls of mremap, children the last process that each thread has made.
	takings  map[int]*taking
	flights  flights
	moves    map[int]*move
	children map[int]int
	forking  forkCalls
	heaps    heaps
	aio      aioRings
	withheld withheld
}

// missed notes that records are missing until a time.
func (c *calls) missed(t tracefs.Time) {
	clear(c.takings) // the records of their success may be lost
	c.flights.lose(t)
	c.heaps.lost()
	c.aio.lost()
}

// began notes that a process begins a program.
func (c *calls) began(pid int) {
	c.heaps.began(pid)
	c.aio.forget(pid)
	c.withheld.forget(pid)
}

// gone notes the end of a process.
func (c *calls) gone(pid int) {
	c.heaps.forget(pid)
	c.aio.forget(pid)
	c.withheld.forget(pid)
}

// ended notes the end of a thread.
func (c *calls) ended(r *perf.Record) {
	c.unfinished(r)
	delete(c.takings, r.TID)
	delete(c.aio.setups, r.TID)
}

// maxMoves bounds the mremap calls under way that are tracked. More threads than
// that are not in it at once.
const maxMoves = 1 << 10

// traced makes history of a record of a tracepoint.
func (b *Band) traced(r *perf.Record) {
	tp := b.rings.tracepointOf(r.Raw)
	if b.rings.isCompat(r, tp) {
		b.History.compat(r.PID, r.Time)
		return
	}
	if tp == nil {
		return
	}
	v, ok := tp.values(r.Raw, b.values[:])
	if !ok {
		return
	}
	if tp.spec.change != moved {
		b.calls.unfinished(r)
	}
	switch tp.spec.change {
	case unmapping:
		b.calls.begins(r, unmapping, procmap.Untagged(v[0]), v[1], v[1])
	case mapOver:
		b.calls.begins(r, mapOver, v[0], v[1], replaced(v[0], v[1], v[2]))
	case unmapReturned:
		b.calls.unmapReturned(r, v[0])
	case mapFailed:
		b.calls.failed(r, mapOver)
	case moving:
		b.calls.moving(r, v)
	case moved:
		b.calls.moved(r, v[0])
	case detaching:
		b.calls.detached(r, v[0])
	case attachOver:
		at := v[0] &^ uint64(os.Getpagesize()-1) // SHM_RND rounds it
		b.calls.unknown(r, at, math.MaxUint64)   // how much is attached is not in the record
		b.calls.takeoff(r, attachOver, at, math.MaxUint64)
	case sharing:
		b.calls.shared(r)
	case forking:
		b.calls.forking.begin(r.TID, r.Time)
	case switching:
		b.hotplug.Step(int(v[0]), int32(v[1]) > 0, r.Time)
	case heapEnd:
		b.calls.brk(r, v[0])
	case ringBegin:
		b.calls.aio.begin(r)
	case ringBegun:
		delete(b.calls.aio.setups, r.TID)
	case ringEnd:
		b.calls.destroyed(r, v[0])
	case withholding:
		b.calls.withhold(r, procmap.Untagged(v[0]), v[1])
	case withholdingAny:
		b.calls.withholdAny(r)
	case compatCall:
		if isRawCompat(r.Raw, tp) {
			b.History.compat(r.PID, r.Time)
		}
	case naming:
		switch uint32(v[2]) {
		case unix.PR_SET_MM:
			b.calls.heaps.moved(b.calls.sharers(r.PID))
		case unix.PR_SET_VMA:
			b.named(r, v[0], v[1])
		}
	}
}

// unmapped notes that a process unmaps a range.
func (c *calls) unmapped(r *perf.Record, addr, size uint64) {
	c.history.unmapped(r.PID, addr, c.takes(r, addr, size), r.Time)
}

// unknown notes that it is unknown what a process has between two addresses.
func (c *calls) unknown(r *perf.Record, addr, size uint64) {
	c.history.unknown(r.PID, addr, c.takes(r, addr, size), r.Time)
}

// takes notes that a process unmaps a range, for the moves and the reading under
// way, and returns where the range ends.
func (c *calls) takes(r *perf.Record, addr, size uint64) (end uint64) {
	for tid, m := range c.moves {
		if tid != r.TID && c.history.shares(m.pid, r.PID) {
			m.disturbed = true
		}
	}
	if end = addr + pages(size); end < addr {
		end = math.MaxUint64
	}
	if r.Time > c.watch.since && c.same(r.PID) {
		c.watch.took(addr, end)
	}
	if !c.alone(r.PID) { // else a thread that forks has unmapped nothing meanwhile
		c.forking.took(r, addr, end)
	}
	return end
}

// pages returns a size in whole pages, as the kernel takes it.
func pages(size uint64) uint64 {
	page := uint64(os.Getpagesize())
	if size > math.MaxUint64-page {
		return math.MaxUint64 &^ (page - 1)
	}
	return (size + page - 1) &^ (page - 1)
}

// moving notes that a process calls mremap: addr, old_len, new_len, flags,
// new_addr. Both the old place and the new one are unknown until it returns.
func (c *calls) moving(r *perf.Record, v []uint64) {
	m := &move{pid: r.PID, began: r.Time, from: procmap.Untagged(v[0]), size: pages(v[1]), to: pages(v[2])}
	if m.from+m.size < m.from || m.from+m.to < m.from {
		return // refused
	}
	c.flights.others(c.history, r, func(*flight) { m.disturbed = true })
	m.code = c.history.codeBetween(r.PID, m.from, m.sourceEnd(), r.Time)
	m.parts = c.hadBetween(r, m.from, m.sourceEnd())
	if m.size > 0 {
		c.unmapped(r, m.from, m.size)
		c.takeoff(r, moving, m.from, m.from+m.size)
	}
	m.keeps = v[3]&unix.MREMAP_DONTUNMAP != 0
	if m.fixed = v[3]&unix.MREMAP_FIXED != 0; m.fixed { // else there is no new_addr
		m.at = v[4]
	}
	if c.restOfHuge(r, m); m.fixed {
		size := m.takes(m.to)
		m.parts = append(m.parts, c.hadBetween(r, m.at, m.at+size)...)
		c.unmapped(r, m.at, size)
		c.takeoff(r, moving, m.at, m.at+size)
	}
	m.space = c.history.Spaces.Space(r.PID)
	if len(c.moves) >= maxMoves {
		clear(c.moves)
		c.loseSoft(int(r.CPU), 0, r.Time, r.Time)
	}
	if c.moves == nil {
		c.moves = make(map[int]*move)
	}
	c.moves[r.TID] = m
}

// restOfHuge makes unknown what an mremap may take beside what it names: the rest of a huge
// page.
func (c *calls) restOfHuge(r *perf.Record, m *move) {
	from, end := m.from+m.size, m.from+m.takes(m.size)
	if from >= end {
		return
	}
	if rest := c.hadBetween(r, from, end); len(rest) > 0 {
		m.parts = append(m.parts, rest...)
		c.unknown(r, from, end-from)
	}
}

// moved notes that mremap returns: the mappings of the old place are at the new
// one, if nothing else has changed since the call.
func (c *calls) moved(r *perf.Record, ret uint64) {
	if m := c.moves[r.TID]; m != nil && m.cutOff(c.history, r.Time) {
		c.unfinished(r) // this may be another call's return
	}
	m, ok := c.moves[r.TID]
	delete(c.moves, r.TID)
	switch {
	case isError(ret) && ok:
		c.untracked(r, m.parts)
		if m.fixed {
			c.unknown(r, m.at, m.takes(m.to)) // of several mappings the first can be there
			c.carried(r, m, m.at)
		}
		return
	case isError(ret):
		return // of what is not known
	}
	if !ok {
		c.aio.moved(c.sharers(r.PID), ret, math.MaxUint64)
		c.unknown(r, ret, math.MaxUint64) // how much it is neither
		return
	}
	c.carried(r, m, ret)
	quiet := !m.disturbed && m.pid == r.PID && m.space == c.history.Spaces.Space(r.PID)
	if quiet || !m.met && len(m.parts) == 0 && len(c.history.codeBetween(r.PID, ret, ret+m.to, r.Time)) == 0 {
		c.unmapped(r, ret, m.to)
	} else {
		c.unknown(r, ret, m.to) // another thread may have put something there
	}
	if size := m.takes(m.to); m.fixed && size > m.to {
		c.unknown(r, ret+m.to, size-m.to) // it has gone only if this was a huge page
	}
	if !quiet {
		return
	}
	for i := range m.code {
		if p, ok := m.place(&m.code[i], ret); ok {
			c.watch.overlap(c.same(r.PID), p.Start, p.End)
			c.mappedAgain(r, &p)
		}
	}
	if m.keeps {
		c.restored(r, m.code, m.from, m.from+m.size)
	}
}

// unfinished forgets the mremap of a thread whose return was lost, or may have been: until
// all is read again, it is unknown what is at the old place and, where that is known, at the
// new one.
func (c *calls) unfinished(r *perf.Record) {
	m := c.moves[r.TID]
	if m == nil {
		return
	}
	delete(c.moves, r.TID)
	h := c.history
	if m.pid != r.PID || h.Spaces.Space(r.PID).Began(r.Time) > m.began || !h.Gaps.Doubtful(r.Time) && !h.Unsure.Doubtful(r.Time) {
		return // it is another program, or was read since
	}
	if len(m.parts) > 0 || m.met {
		c.unknown(r, m.from, max(m.size, m.to))
	}
	if m.fixed {
		c.unknown(r, m.at, m.takes(m.to))
	}
}

// cutOff reports whether records are missing between the call and a time.
func (m *move) cutOff(h *History, until tracefs.Time) bool {
	return h.Gaps.Missing(m.began, until) || h.Unsure.Missing(m.began, until)
}

// mappedAgain notes a mapping that was there before. It may have been long ago, and its file
// not be watched any more.
func (c *calls) mappedAgain(r *perf.Record, m *procmap.Mapping) {
	c.history.mapped(r.PID, m, r.Time)
	if c.watchFile != nil {
		c.watchFile(r.PID, m, r.Time)
	}
}

// carried notes what goes with all that an mremap may have taken to a place, or copied there: rings,
// and marks.
func (c *calls) carried(r *perf.Record, m *move, to uint64) {
	end := to + m.takes(m.to)
	c.aio.moved(c.sharers(r.PID), to, end)
	if c.withheld.has(r.PID, m.from, m.sourceEnd()) {
		c.mark(r, taken{to, end})
	}
}

// takes returns up to how much memory the call takes of a size, where huge pages are.
func (m *move) takes(size uint64) uint64 {
	if !m.fixed {
		return procmap.Huge(m.from, size)
	}
	return procmap.HugeMove(m.from, m.at, size)
}

// sourceEnd returns where what is moved ends. With size 0 the mapping stays and
// gets another place besides.
func (m *move) sourceEnd() uint64 { return m.from + max(m.size, 1) }

// place returns a moved part at its new place. The last one grows with the
// whole.
func (m *move) place(part *space.Mapping, at uint64) (p procmap.Mapping, ok bool) {
	end := m.sourceEnd()
	start, stop, offset := part.Start, part.End, part.Offset
	if start < m.from {
		start, offset = m.from, offset+(m.from-start)
	}
	if stop >= end {
		stop = m.from + m.to
	}
	stop = min(stop, m.from+m.to)
	if start >= stop {
		return procmap.Mapping{}, false
	}
	f := part.File
	return procmap.Mapping{
		Start: start - m.from + at, End: stop - m.from + at, Offset: offset, Perms: part.Perms,
		Name: f.Name, BuildID: f.BuildID, Inode: f.Inode, Dev: f.Dev, Generation: f.Generation, Kind: f.Kind,
	}, true
}

// detached notes shmdt: the segment attached at an address goes, in as many parts as it has
// become. What was mapped over it stays (ksys_shmdt in ipc/shm.c).
func (c *calls) detached(r *perf.Record, addr uint64) {
	v := c.history.Spaces.Space(r.PID).At(r.Time)
	var segment *space.File
	end := uint64(math.MaxUint64) // how much is not in the record
	for _, m := range c.history.codeBetween(r.PID, addr, math.MaxUint64, r.Time) {
		if m.File.Kind == procmap.SysV && m.Start-addr == m.Offset && (segment == nil || m.File == segment) {
			segment, end = m.File, m.End
			c.unmapped(r, m.Start, m.End-m.Start)
		}
	}
	if segment != nil || v.Find(addr) != nil || !v.Knows(addr) {
		c.takeoff(r, detaching, addr, end)
	}
}

// codeBetween returns the mappings of a process between two addresses at a
// time.
func (h *History) codeBetween(pid int, start, end uint64, t tracefs.Time) (list []space.Mapping) {
	v := h.Spaces.Space(pid).At(t)
	if v == nil {
		return nil
	}
	for m := range v.Mappings.Between(start, end) {
		list = append(list, *m)
	}
	return list
}

// maxBorn bounds the forks that are remembered until it is known whether they
// share memory: the kernel reports it right after.
const maxBorn = 1 << 12

// born notes a fork.
func (c *calls) born(r *perf.Record) {
	if len(c.children) >= maxBorn {
		clear(c.children)
	}
	if c.children == nil {
		c.children = make(map[int]int)
	}
	c.children[r.ParentTID] = r.PID
}

// shared notes that the process that a thread has just made shares its memory.
func (c *calls) shared(r *perf.Record) {
	child, ok := c.children[r.TID]
	delete(c.children, r.TID)
	if r.Time < c.opened {
		return // Refresh finds them
	}
	if !ok {
		c.lose(int(r.CPU), 0, r.Time, r.Time) // one of another PID namespace, or it was lost
		return
	}
	c.heaps.forget(r.PID)
	c.heaps.forget(child)
	if c.withheld.shared(r.PID, child) {
		c.loseSoft(int(r.CPU), 0, r.Time, r.Time)
	}
	c.aio.shared(r.PID, child)
	c.watch.changed = c.watch.changed || c.watch.pid == r.PID || c.watch.pid == child
	if !c.history.shares(r.PID, child) {
		c.history.inherits(r.PID, child, r.Time)
	}
	c.history.shared(r.PID, child, r.Time)
}
