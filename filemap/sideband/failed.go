package sideband

import (
	"math"
	"os"

	"ustack/filemap/procmap"
	"ustack/filemap/space"
	"ustack/tracefs/perf"
)

// Calls are recorded when they begin, and their ranges count as unmapped from then
// on. They can fail: for mmap and munmap that is recorded, too. A munmap that fails
// has unmapped nothing. An mmap that fails may have unmapped the range (before Linux
// 6.12), and so may mremap: the mappings there are unknown then, until they are seen
// again.

// taking is a call that unmaps code and is not known to have returned.
type taking struct {
	change change
	pid    int
	had    had
	// space is the known memory of the process right after it began.
	space *space.Space
}

// had is what a process had between two addresses when a call began.
type had struct {
	code []space.Mapping
	// parts are the addresses of the code there, then the addresses at which it
	// is unknown what there was; unknown counts the latter.
	parts   []taken
	unknown int
}

const (
	// maxTaking bounds the calls that are remembered: most return without a record.
	maxTaking = 1 << 8
	// maxHad bounds the mappings that a call is taken to leave when it fails.
	// Failing calls can be many, and for large ranges.
	maxHad = 1 << 6
)

// hadBetween returns what a process has between two addresses.
func (c *calls) hadBetween(r *perf.Record, start, end uint64) (h had) {
	h.code = c.history.codeBetween(r.PID, start, end, r.Time)
	if len(h.code) > maxHad {
		return had{parts: []taken{{start, end}}, unknown: 1}
	}
	for i := range h.code {
		h.parts = append(h.parts, taken{max(start, h.code[i].Start), min(end, h.code[i].End)})
	}
	c.history.Spaces.Space(r.PID).At(r.Time).UnknownBetween(start, end, func(start, end uint64) {
		h.parts = append(h.parts, taken{start, end})
		h.unknown++
	})
	return h
}

// begins notes that a thread calls munmap, or mmap over mapped memory.
func (c *calls) begins(r *perf.Record, what change, addr, size uint64) {
	delete(c.takings, r.TID)
	if what == unmapping && refused(addr, size) {
		return
	}
	end := c.takes(r, addr, size)
	c.takeoff(r, what, addr, end)
	h := c.hadBetween(r, addr, end)
	c.history.unmapped(r.PID, addr, end, r.Time)
	if len(h.parts) == 0 {
		return
	}
	if c.takings == nil || len(c.takings) >= maxTaking {
		c.takings = make(map[int]*taking)
	}
	c.takings[r.TID] = &taking{change: what, pid: r.PID, had: h, space: c.history.Spaces.Space(r.PID)}
}

// refused reports whether the kernel refuses a range to munmap, on all machines
// (do_vmi_munmap in mm/vma.c).
func refused(addr, size uint64) bool {
	const largest = 1 << 57 // of all address spaces
	return size == 0 || size > largest || addr%uint64(os.Getpagesize()) != 0
}

// failed notes that such a call of a thread has failed. If nothing else was changed
// meanwhile, all mappings are as before a munmap.
func (c *calls) failed(r *perf.Record, what change) {
	t := c.takings[r.TID]
	if t == nil || t.change != what || t.pid != r.PID {
		return
	}
	delete(c.takings, r.TID)
	if what != unmapping || t.space != c.history.Spaces.Space(r.PID) {
		c.untracked(r, t.had.parts)
		return
	}
	c.restored(r, t.had.code, 0, math.MaxUint64) // also the parts beside
	c.untracked(r, t.had.parts[len(t.had.parts)-t.had.unknown:])
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
		c.history.mapped(r.PID, asRead(&m), r.Time)
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
