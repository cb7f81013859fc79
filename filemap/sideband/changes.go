package sideband

import (
	"math"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"ustack/filemap/procmap"
	"ustack/filemap/space"
	"ustack/tracefs"
	"ustack/tracefs/perf"
)

// move is an mremap that has been called and has not returned.
type move struct {
	pid int
	// from and size are what is moved, to is how large it will be, at where it
	// goes, if fixed.
	from, size, to, at uint64
	fixed              bool
	// keeps: the old place keeps its mapping, without what was written to it.
	keeps bool
	// code is what was known of that, as it was when the call began, parts where it
	// was, and what was where it goes.
	code  []space.Mapping
	parts []taken
	// space is what was known of the process right after that: if it is still
	// the same when the call returns, nothing else that is known has changed.
	// disturbed: another thread has taken something away.
	space     *space.Space
	disturbed bool
}

// maxMoves bounds the calls of mremap that are waited for. More threads than that
// are not in it at once.
const maxMoves = 1 << 10

// traced makes history of a record of a tracepoint.
func (b *Band) traced(r *perf.Record) {
	tp := b.tracepointOf(r.Raw)
	if b.isCompat(r, tp) {
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
	switch tp.spec.change {
	case unmapping, mapOver:
		b.begins(r, tp.spec.change, v[0], v[1])
	case unmapFailed:
		b.failed(r, unmapping)
	case mapFailed:
		b.failed(r, mapOver)
	case moving:
		b.moving(r, v)
	case moved:
		b.moved(r, v[0])
	case detaching:
		b.detached(r, v[0])
	case attachOver:
		b.unknown(r, v[0], math.MaxUint64) // how much is attached is not in the record
		b.takeoff(r, attachOver, v[0], math.MaxUint64)
	case sharing:
		b.shared(r)
	case forking:
		b.forking.begin(r.TID, r.Time)
	case switching:
		b.hotplug.Step(int(v[0]), int32(v[1]) > 0, r.Time)
	case naming:
		b.named(r, v[0], v[1])
	}
}

// unmapped notes that a process takes something away.
func (b *Band) unmapped(r *perf.Record, addr, size uint64) {
	b.History.unmapped(r.PID, addr, b.takes(r, addr, size), r.Time)
}

// unknown notes that it is not known what a process has between two addresses.
func (b *Band) unknown(r *perf.Record, addr, size uint64) {
	b.History.unknown(r.PID, addr, b.takes(r, addr, size), r.Time)
}

// takes has all who follow changes know that a process takes something away, and
// returns where that ends.
func (b *Band) takes(r *perf.Record, addr, size uint64) (end uint64) {
	for tid, m := range b.moves {
		if tid != r.TID && b.shares(m.pid, r.PID) {
			m.disturbed = true
		}
	}
	if end = addr + pages(size); end < addr {
		end = math.MaxUint64
	}
	if r.Time > b.watch.since && b.same(r.PID) {
		b.watch.took(addr, end)
	}
	b.forking.took(r, addr, end)
	return end
}

// pages is a size in whole pages, as the kernel takes it.
func pages(size uint64) uint64 {
	page := uint64(os.Getpagesize())
	if size > math.MaxUint64-page {
		return math.MaxUint64 &^ (page - 1)
	}
	return (size + page - 1) &^ (page - 1)
}

// huge is how much the kernel moves over a place at most: sizes of huge pages are rounded
// up to whole ones, and both addresses are multiples of that (check_mremap_params in
// mm/mremap.c).
func huge(addrs, size uint64) uint64 {
	const largest = 16 << 30 // of arm64, with pages of 64 KiB
	unit := min(addrs&-addrs, largest)
	if unit == 0 || size > math.MaxUint64-unit {
		return size
	}
	return (size + unit - 1) &^ (unit - 1)
}

// moving notes that a process calls mremap: addr, old_len, new_len, flags,
// new_addr. Neither of the old place nor of the new one is anything known until it
// returns.
func (b *Band) moving(r *perf.Record, v []uint64) {
	m := &move{pid: r.PID, from: v[0], size: pages(v[1]), to: pages(v[2])}
	if m.from+m.size < m.from || m.from+m.to < m.from {
		return // refused
	}
	m.code = b.History.codeBetween(r.PID, m.from, m.sourceEnd(), r.Time)
	m.parts = b.hadBetween(r, m.from, m.sourceEnd()).parts
	if m.size > 0 {
		b.unmapped(r, m.from, m.size)
		b.takeoff(r, moving, m.from, m.from+m.size)
	}
	m.keeps = v[3]&unix.MREMAP_DONTUNMAP != 0
	if m.at, m.fixed = v[4], v[3]&unix.MREMAP_FIXED != 0; m.fixed {
		size := huge(m.from|m.at, m.to)
		m.parts = append(m.parts, b.hadBetween(r, m.at, m.at+size).parts...)
		b.unmapped(r, m.at, size)
		b.takeoff(r, moving, m.at, m.at+size)
	}
	m.space = b.History.Spaces.Space(r.PID)
	if len(b.moves) >= maxMoves {
		clear(b.moves)
		b.softGap(int(r.CPU), 0, r.Time, r.Time)
	}
	if b.moves == nil {
		b.moves = make(map[int]*move)
	}
	b.moves[r.TID] = m
}

// overMoves takes away what a process has mapped where it is moving something, in
// another thread: which of them comes last is not known.
func (b *Band) overMoves(r *perf.Record) {
	for _, m := range b.moves {
		if !b.shares(m.pid, r.PID) {
			continue
		}
		end := r.Addr + r.Len
		if r.Addr < m.from+m.size && m.from < end || m.fixed && r.Addr < m.at+m.to && m.at < end {
			b.unknown(r, r.Addr, r.Len)
			return
		}
	}
}

// shares reports whether two processes have the same memory.
func (b *Band) shares(pid, other int) bool {
	return pid == other || slices.Contains(b.History.sharers.all(pid), other)
}

// moved notes that mremap returns: what was at the old place is at the new one,
// if nothing else has changed since the call.
func (b *Band) moved(r *perf.Record, ret uint64) {
	const highestError = 4095 // MAX_ERRNO
	m, ok := b.moves[r.TID]
	delete(b.moves, r.TID)
	switch {
	case ret > math.MaxUint64-highestError && ok:
		b.untracked(r, m.parts)
		return
	case ret > math.MaxUint64-highestError:
		return // of what is not known
	case !ok:
		b.unknown(r, ret, math.MaxUint64) // how much it is neither
		return
	}
	quiet := !m.disturbed && m.pid == r.PID && m.space == b.History.Spaces.Space(r.PID)
	b.unmapped(r, ret, m.to)
	b.landed(r.PID, ret, ret+m.to)
	if !quiet {
		return
	}
	for i := range m.code {
		if p, ok := m.place(&m.code[i], ret); ok {
			b.watch.overlap(b.same(r.PID), p.Start, p.End)
			b.History.mapped(r.PID, &p, r.Time)
		}
	}
	if m.keeps {
		b.restored(r, m.code, m.from, m.from+m.size)
	}
}

// sourceEnd is where what is moved ends. Of size 0, the mapping stays and gets
// another place besides.
func (m *move) sourceEnd() uint64 { return m.from + max(m.size, 1) }

// place is a moved part at its new place. The last one grows with the whole.
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

// detached notes shmdt: what was attached at an address goes, in as many parts as
// it has become (ksys_shmdt in ipc/shm.c).
func (b *Band) detached(r *perf.Record, addr uint64) {
	end := addr
	v := b.History.Spaces.Space(r.PID).At(r.Time)
	first := v.Find(addr)
	if first == nil {
		if !v.Knows(addr) {
			b.takeoff(r, detaching, addr, math.MaxUint64) // how much is not in the record
		}
		return
	}
	for _, m := range b.History.codeBetween(r.PID, addr, math.MaxUint64, r.Time) {
		if m.File == first.File && m.Start-addr == m.Offset {
			end = m.End
		}
	}
	end = max(end, first.End)
	b.unmapped(r, addr, end-addr)
	b.takeoff(r, detaching, addr, end)
}

// codeBetween are the mappings of a process between two addresses at a time.
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
// share memory: the kernel says so right after.
const maxBorn = 1 << 12

// born notes a fork.
func (b *Band) born(r *perf.Record) {
	if len(b.children) >= maxBorn {
		clear(b.children)
	}
	if b.children == nil {
		b.children = make(map[int]int)
	}
	b.children[r.ParentTID] = r.PID
}

// shared notes that the process that a thread has just made shares its memory.
func (b *Band) shared(r *perf.Record) {
	child, ok := b.children[r.TID]
	delete(b.children, r.TID)
	if r.Time < b.opened {
		return // Refresh finds them
	}
	if !ok {
		b.gap(int(r.CPU), 0, r.Time, r.Time) // one of another PID namespace, or it was lost
		return
	}
	b.watch.changed = b.watch.changed || b.watch.pid == r.PID || b.watch.pid == child
	b.History.shared(r.PID, child, r.Time)
}
