package sideband

import (
	"math"
	"os"

	"golang.org/x/sys/unix"

	"ustack/filemap/procmap"
	"ustack/filemap/space"
	"ustack/tracefs/perf"
)

// Calls are recorded when they begin, and their ranges count as unmapped from then
// on. They can fail: for mmap and munmap that is recorded, too. What was mapped there is
// unknown then, until it is seen again: an mmap or mremap that fails may have unmapped the
// range, and the failure of a munmap may be of a later call, which a filter (seccomp(2))
// refused: such a call has a return and no entry.

// taking is a call that unmaps code and is not known to have returned.
type taking struct {
	change change
	pid    int
	// had are the addresses at which there was code when it began, or may have been.
	had []taken
	// rest is the code from an address on that goes only with a huge page, and space the
	// known memory of the process right after the call began.
	rest  []space.Mapping
	from  uint64
	space *space.Space
}

const (
	// maxTaking bounds the calls that are remembered: most return without a record.
	maxTaking = 1 << 8
	// maxHad bounds the mappings that a call is taken to leave when it fails.
	// Failing calls can be many, and for large ranges.
	maxHad = 1 << 6
)

// hadBetween returns where a process has code between two addresses, or may have.
func (c *calls) hadBetween(r *perf.Record, start, end uint64) (parts []taken) {
	code := c.history.codeBetween(r.PID, start, end, r.Time)
	if len(code) > maxHad {
		return []taken{{start, end}}
	}
	for i := range code {
		parts = append(parts, taken{max(start, code[i].Start), min(end, code[i].End)})
	}
	c.history.Spaces.Space(r.PID).At(r.Time).UnknownBetween(start, end, func(start, end uint64) {
		parts = append(parts, taken{start, end})
	})
	return parts
}

// begins notes that a thread calls munmap, or mmap over mapped memory: of a size, and up
// to where it may take something away, if that is more.
func (c *calls) begins(r *perf.Record, what change, addr, size, most uint64) {
	delete(c.takings, r.TID)
	if what == unmapping && refused(addr, size) {
		return
	}
	end := c.takes(r, addr, most)
	c.takeoff(r, what, addr, end)
	had := c.hadBetween(r, addr, end)
	sure := min(end, addr+min(pages(size), math.MaxUint64-addr))
	c.history.unmapped(r.PID, addr, sure, r.Time)
	if len(had) == 0 {
		return
	}
	t := &taking{change: what, pid: r.PID, had: had, from: sure}
	if sure < end {
		t.rest = c.history.codeBetween(r.PID, sure, end, r.Time)
		c.history.unknown(r.PID, sure, end, r.Time)
	}
	if t.space = c.history.Spaces.Space(r.PID); c.takings == nil || len(c.takings) >= maxTaking {
		c.takings = make(map[int]*taking)
	}
	c.takings[r.TID] = t
}

// succeeded notes that a thread has mapped something: an mmap over mapped memory that it
// had called is over, and has left what is beside it if this is not of huge pages.
func (c *calls) succeeded(r *perf.Record) {
	t := c.takings[r.TID]
	delete(c.takings, r.TID)
	if t == nil || t.change != mapOver || t.space != c.history.Spaces.Space(r.PID) {
		return
	}
	if !procmap.MayBeHuge(r.Addr, r.Addr+r.Len) {
		c.restored(r, t.rest, t.from, math.MaxUint64)
	}
}

// replaced returns how much an mmap over mapped memory takes away at most: of huge pages
// whole ones, which a file (of hugetlbfs, or of memfd_create) can have, too.
func replaced(addr, size, flags uint64) uint64 {
	if flags&(unix.MAP_ANONYMOUS|unix.MAP_HUGETLB) == unix.MAP_ANONYMOUS {
		return size
	}
	return procmap.Huge(addr, pages(size))
}

// refused reports whether the kernel refuses a range to munmap, on all machines
// (do_vmi_munmap in mm/vma.c).
func refused(addr, size uint64) bool {
	const largest = 1 << 57 // of all address spaces
	return size == 0 || size > largest || addr%uint64(os.Getpagesize()) != 0
}

// isError reports whether a system call returns an error.
func isError(ret uint64) bool {
	const highest = 4095 // MAX_ERRNO
	return ret > math.MaxUint64-highest
}

// unmapReturned notes that munmap returns in a thread.
func (c *calls) unmapReturned(r *perf.Record, ret uint64) {
	if isError(ret) {
		c.failed(r, unmapping)
		return
	}
	if t := c.takings[r.TID]; t != nil && t.change == unmapping {
		delete(c.takings, r.TID)
	}
}

// failed notes that such a call of a thread has failed.
func (c *calls) failed(r *perf.Record, what change) {
	t := c.takings[r.TID]
	if t == nil || t.change != what || t.pid != r.PID {
		return
	}
	delete(c.takings, r.TID)
	c.untracked(r, t.had)
}

// restored notes that a process has its former mappings between two addresses
// again.
func (c *calls) restored(r *perf.Record, code []space.Mapping, start, end uint64) {
	for i := range code {
		m := code[i]
		if m.Start < start && m.File.Kind.HasFile() {
			m.Offset += start - m.Start
		}
		m.Start, m.End = max(m.Start, start), min(m.End, end)
		if m.Start >= m.End {
			continue
		}
		c.watch.overlap(c.same(r.PID), m.Start, m.End)
		c.mappedAgain(r, asRead(&m))
	}
}

// asRead returns a mapping as procmap would read it.
func asRead(m *space.Mapping) *procmap.Mapping {
	f := m.File
	return &procmap.Mapping{Start: m.Start, End: m.End, Offset: m.Offset, Perms: m.Perms,
		Name: f.Name, BuildID: f.BuildID, Inode: f.Inode, Dev: f.Dev, Generation: f.Generation, Kind: f.Kind}
}

// untracked notes that the mappings of a process in some places are unknown.
func (c *calls) untracked(r *perf.Record, parts []taken) {
	for _, p := range parts {
		c.unknown(r, p.start, p.end-p.start)
	}
}
