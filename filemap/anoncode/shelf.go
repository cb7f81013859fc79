package anoncode

// shelf keeps the most recently used maps.
type shelf struct {
	slots map[int]*slot // by PID
	tick  int
}

// slot is the map of a process, if it has one.
type slot struct {
	mapFile
	tick int
	life life
}

// Bounds of all maps together.
const (
	maxSlots  = 256
	maxMemory = 192 << 20
)

func newShelf() shelf { return shelf{slots: make(map[int]*slot)} }

// take returns the slot of a process.
func (s *shelf) take(pid int) (*slot, bool) {
	p, ok := s.slots[pid]
	if ok {
		s.tick++
		p.tick = s.tick
	}
	return p, ok
}

// put keeps the maps of a process, and drops others' if there are too many.
func (s *shelf) put(pid int, p *slot) {
	s.tick++
	p.tick = s.tick
	s.slots[pid] = p
	s.shrink(p)
}

// shrink drops the least recently used maps, but not keep.
func (s *shelf) shrink(keep *slot) {
	for len(s.slots) > 1 && (len(s.slots) > maxSlots || s.memory() > maxMemory) {
		oldest, at := (*slot)(nil), 0
		for pid, p := range s.slots {
			if p != keep && (oldest == nil || p.tick < oldest.tick) {
				oldest, at = p, pid
			}
		}
		oldest.life.close()
		delete(s.slots, at)
	}
}

func (s *shelf) memory() int {
	n := 0
	for _, p := range s.slots {
		if p.perf != nil {
			n += p.perf.memory()
		}
	}
	return n
}
