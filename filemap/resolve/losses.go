package resolve

import (
	"ustack/filemap"
	"ustack/tracefs"
)

// losses is where records of the trace are missing: where the kernel reports a loss,
// and gaps without a count.
//
// Invariants: noted is the number of losses of all CPUs. A CPU has a last place only
// if there is a first one, and none is before that.
type losses struct {
	lost  map[int32]Loss // by CPU
	noted int64
	gaps  int64
	first filemap.Pos // 0: none, else place + 1
	last  map[int32]filemap.Pos
}

// count is in how many places records may be missing so far.
func (l *losses) count() int64 { return l.noted + l.gaps }

// lose notes that the kernel has lost records.
func (l *losses) lose(rec *tracefs.Record) {
	l.noted++
	n := l.lost[rec.CPU]
	n.Gaps++
	n.Records += rec.Value
	if rec.Value == 0 {
		n.Unknown = true
	}
	l.lost[rec.CPU] = n
}

// mark notes that a mapping event may be missing before a place. It reports whether it
// is the first such place of its CPU.
func (l *losses) mark(pos filemap.Pos, cpu int32) (first bool) {
	if l.first == 0 {
		l.first = pos + 1
	}
	_, seen := l.last[cpu]
	l.last[cpu] = pos
	return !seen
}

// after reports whether a mapping event may be missing after a place.
func (l *losses) after(pos filemap.Pos, cpu int32) bool {
	last, lost := l.last[cpu]
	return lost && last > pos
}

// unannounced is why an identifier without a mapping event has none.
func (l *losses) unannounced() filemap.Reason {
	if l.first != 0 {
		return filemap.Lost
	}
	return filemap.Unannounced
}
