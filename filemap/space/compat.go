package space

import (
	"sync"

	"ustack/filemap/procmap"
	"ustack/tracefs"
)

// compat reports whether a mapping is one that the kernel gives a 32-bit process:
// the vDSO of others lies above 4 GiB. A kernel for arm64 may be built without a
// vDSO for them (CONFIG_COMPAT_VDSO); then there is the page that handlers of
// signals return to (arch/arm64/kernel/vdso.c).
func compat(m *procmap.Mapping) bool {
	return m.End <= 1<<32 && (m.Kind == procmap.VDSO || m.Kind == procmap.Special && m.Name == "[sigpage]")
}

// Compat reports whether these are mappings of a 32-bit process on a 64-bit
// kernel.
func Compat(ms []procmap.Mapping) bool {
	for i := range ms {
		if compat(&ms[i]) {
			return true
		}
	}
	return false
}

// X86 reports whether the space was that of a 32-bit process on a 64-bit kernel for x86
// at a time. One for arm64 gives such processes a page that handlers of signals return to.
func (s *Space) X86(t tracefs.Time) bool {
	v := s.At(t)
	if v == nil || !v.Unseen {
		return false // changes of all 32-bit processes go unseen
	}
	vdso := false
	for m := range v.Mappings.All() {
		if m.End <= 1<<32 && m.File.Kind == procmap.Special && (m.File.Name == "[sigpage]" || m.File.Name == "[vectors]") {
			return false
		}
		vdso = vdso || m.End <= 1<<32 && m.File.Kind == procmap.VDSO
	}
	return vdso
}

// compats are the 32-bit processes that have been seen.
type compats struct {
	mu   sync.Mutex
	pids map[int]bool
}

// maxCompats bounds the processes that are remembered.
const maxCompats = 1 << 12

func (c *compats) seen(pid int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pids == nil {
		c.pids = make(map[int]bool)
	}
	if len(c.pids) < maxCompats {
		c.pids[pid] = true
	}
}

// read is Compat for a process that was read, which it counts for Compats.
func (c *compats) read(p *procmap.Process) bool {
	is32 := Compat(p.Mappings)
	if is32 {
		c.seen(p.PID)
	}
	return is32
}

// Compats returns how many processes, of those that want returns true for, have
// been seen as 32-bit ones on a 64-bit kernel; those that have ended count.
func (s *Spaces) Compats(want func(pid int) bool) (n int) {
	s.compats.mu.Lock()
	defer s.compats.mu.Unlock()
	for pid := range s.compats.pids {
		if want(pid) {
			n++
		}
	}
	return n
}
