//go:build !device

package sideband

import (
	"ustack/filemap/procmap"
	"ustack/tracefs/perf"
)

// The kernel maps the first segment of a program, and of its dynamic linker, as long as the
// whole of it, which perf reports, takes the rest away again, which it does not, and maps the
// other segments (elf_load in fs/binfmt_elf.c). What is between them is nothing. How long the
// first segment is no record says: where others came into its range, the process is asked when
// the program is ready to run.

// loadGaps are, by process, the code that it has mapped since it executed a program.
type loadGaps map[int][]segmentLoaded

// segmentLoaded is such code. others: something else came
// into its range, from next on.
type segmentLoaded struct {
	m      procmap.Mapping
	next   uint64
	others bool
}

const (
	// maxGapped bounds the processes, maxSegments the mappings of each.
	maxGapped, maxSegments = 1 << 10, 1 << 4
	// maxSplit bounds into how many mappings a segment may have come apart by then.
	maxSplit = 1 << 4
)

// begin notes that a process executes a program.
func (g *loadGaps) begin(pid int) {
	if *g == nil || len(*g) >= maxGapped {
		*g = make(loadGaps)
	}
	(*g)[pid] = nil
}

// end notes the end of a process.
func (g loadGaps) end(pid int) { delete(g, pid) }

// maps notes what a process maps while it loads a program; m is nil for data.
func (g loadGaps) maps(r *perf.Record, m *procmap.Mapping) {
	list, ok := g[r.PID]
	if !ok {
		return
	}
	for i := range list {
		s := &list[i]
		if r.Addr < s.m.End && s.m.Start < r.Addr+r.Len && r.Addr > s.m.Start {
			if !s.others || r.Addr < s.next {
				s.others, s.next = true, r.Addr
			}
		}
	}
	if m != nil && m.Kind.HasFile() && len(list) < maxSegments {
		g[r.PID] = append(list, segmentLoaded{m: *m})
	}
}

// loaded notes in a history that a program is ready to run.
func (g loadGaps) loaded(h *History, reader *procmap.Reader, r *perf.Record) {
	list := g[r.PID]
	delete(g, r.PID)
	for i := range list {
		s := &list[i]
		if !s.others || reader == nil {
			continue
		}
		if end, ok := s.endIn(reader, r.PID); ok {
			h.unmapped(r.PID, end, s.next, r.Time)
		}
	}
}

// endIn asks a process where a segment ends. ok is false if that is where the next one
// begins, or is not known.
func (s *segmentLoaded) endIn(reader *procmap.Reader, pid int) (end uint64, ok bool) {
	h, err := reader.Open(pid)
	if err != nil {
		return 0, false
	}
	defer h.Close()
	end = s.m.Start
	for range maxSplit {
		m, ok, err := h.At(end)
		switch {
		case err != nil || end >= s.next:
			return 0, false
		case !ok:
			return end, end > s.m.Start // else it has been moved since
		case m.Inode != s.m.Inode && s.m.Inode != 0 || !m.Kind.HasFile() || m.Start-m.Offset != s.m.Start-s.m.Offset:
			return 0, false // the process has changed since
		}
		end = m.End
	}
	return 0, false
}
