package join

import (
	"slices"

	"ustack/tracefs"
)

// never is later than all records.
const never = tracefs.Time(1<<63 - 1)

// losses are the times in which records of the trace are missing.
type losses struct {
	list []interval // in order of from, not overlapping
	// seen is the time of the last record of each CPU, open the beginning of a loss
	// that no record of the CPU has ended yet.
	seen, open map[int]tracefs.Time
	// unknown is since when CPUs without any record lack some, never if they lack
	// none.
	unknown tracefs.Time
	// forgotten is the time up to which losses may have been forgotten, 0 if none
	// were.
	forgotten tracefs.Time
}

// interval is a time; both ends are part of it.
type interval struct{ from, to tracefs.Time }

// maxLosses bounds the losses that are kept.
const maxLosses = 1 << 12

func newLosses() losses {
	return losses{seen: make(map[int]tracefs.Time), open: make(map[int]tracefs.Time), unknown: never}
}

// saw notes a record of a CPU.
func (l *losses) saw(cpu int, t tracefs.Time) {
	last, known := l.seen[cpu]
	if !known && l.unknown != never {
		l.add(l.unknown, max(l.unknown, t))
	}
	l.seen[cpu] = max(last, t)
	if from, ok := l.open[cpu]; ok {
		delete(l.open, cpu)
		l.add(from, max(from, t))
	}
}

// begin notes that records of a CPU are missing after the last one; below 0, of any.
func (l *losses) begin(cpu int) {
	if cpu >= 0 {
		l.beginOf(cpu)
		return
	}
	first := never
	for c, t := range l.seen {
		l.beginOf(c)
		first = min(first, t)
	}
	if first == never {
		first = 0
	}
	l.unknown = min(l.unknown, first)
}

func (l *losses) beginOf(cpu int) {
	if _, ok := l.open[cpu]; !ok {
		l.open[cpu] = l.seen[cpu]
	}
}

// add adds a loss.
func (l *losses) add(from, to tracefs.Time) {
	i, _ := slices.BinarySearchFunc(l.list, from, func(v interval, t tracefs.Time) int {
		if v.to < t {
			return -1
		}
		return 1
	})
	end := i
	for end < len(l.list) && l.list[end].from <= to {
		from, to = min(from, l.list[end].from), max(to, l.list[end].to)
		end++
	}
	l.list = slices.Replace(l.list, i, end, interval{from, to})
	if len(l.list) > maxLosses {
		l.forget(len(l.list) - maxLosses/2)
	}
}

// between reports whether records may be missing between two times, both included.
// All records from before the later one have been seen: open losses last beyond it.
func (l *losses) between(from, to tracefs.Time) bool {
	if l.forgotten > 0 && from <= l.forgotten {
		return true
	}
	i, _ := slices.BinarySearchFunc(l.list, from, func(v interval, t tracefs.Time) int {
		if v.to < t {
			return -1
		}
		return 1
	})
	if i < len(l.list) && l.list[i].from <= to {
		return true
	}
	for _, since := range l.open {
		if since <= to {
			return true
		}
	}
	return false
}

// forget forgets the first losses.
func (l *losses) forget(n int) {
	if n > 0 {
		l.forgotten = max(l.forgotten, l.list[n-1].to)
		l.list = slices.Delete(l.list, 0, n)
	}
}

// expire forgets the losses that ended before a time.
func (l *losses) expire(before tracefs.Time) {
	n := 0
	for n < len(l.list) && l.list[n].to < before {
		n++
	}
	l.forget(n)
}
