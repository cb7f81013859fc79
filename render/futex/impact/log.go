package impact

import (
	"slices"

	"ustack/tracefs"
)

// kind is what an entry of a Log says.
type kind uint8

const (
	switched kind = iota // thread a goes off the CPU, b comes on
	waking               // a wakes b; a is 0 if it was an interrupt or an idle CPU
	waits                // a begins to wait for lock b
	returns              // a returns from that, b is 1 if it was woken
	wakes                // a releases lock b
	lost                 // records
	marker               // a wrote text b
	created              // a made thread b
)

// entry is one event, in 24 bytes.
type entry struct {
	at    tracefs.Time
	a, b  int32
	cpu   int16
	kind  kind
	state byte
}

// Bounds of memory: 24 bytes an entry.
const (
	defaultEntries = 1 << 20
	maxMarks       = 1 << 12
)

// Log keeps events in the order of the trace.
type Log struct {
	most    int
	list    []entry
	texts   []string
	last    tracefs.Time
	dropped int64
	lossy   bool

	switches bool
}

// NewLog returns a Log of so many entries at most, 0 for the default. What comes later
// is unknown.
func NewLog(most int) *Log {
	if most == 0 {
		most = defaultEntries
	}
	return &Log{most: most}
}

func (l *Log) add(e entry) {
	l.last = max(l.last, e.at)
	if l.Full() {
		l.dropped++
		return
	}
	if len(l.list) == cap(l.list) {
		l.grow()
	}
	e.at = l.last // clocks of CPUs differ
	l.list = append(l.list, e)
}

// grow makes room for four times as many entries: append alone copies a long list about
// four times in all.
func (l *Log) grow() {
	const first = 1 << 10
	room := min(max(4*len(l.list), first), l.most)
	l.list = slices.Grow(l.list, room-len(l.list))
}

// Switch notes that one thread goes off a CPU in a state, the letter of sched_switch,
// and another comes on.
func (l *Log) Switch(t tracefs.Time, cpu int32, prev int32, state byte, next int32) {
	l.switches = true
	l.add(entry{at: t, kind: switched, cpu: int16(cpu), a: prev, b: next, state: state})
}

// Waking notes that one thread wakes another; waker is 0 if an interrupt does.
func (l *Log) Waking(t tracefs.Time, waker, tid int32) {
	l.add(entry{at: t, kind: waking, a: waker, b: tid})
}

// Waits notes that a thread begins to wait for a lock, by its number.
func (l *Log) Waits(t tracefs.Time, tid, lock int32) {
	l.add(entry{at: t, kind: waits, a: tid, b: lock})
}

// Returns notes that a thread returns from its wait.
func (l *Log) Returns(t tracefs.Time, tid int32, woken bool) {
	e := entry{at: t, kind: returns, a: tid}
	if woken {
		e.b = 1
	}
	l.add(e)
}

// Wakes notes that a thread releases a lock, or signals.
func (l *Log) Wakes(t tracefs.Time, tid, lock int32) {
	l.add(entry{at: t, kind: wakes, a: tid, b: lock})
}

// Lost notes that records were lost before the next one.
func (l *Log) Lost() {
	l.lossy = true
	l.add(entry{at: l.last, kind: lost})
}

// Marker notes a text that a thread wrote to trace_marker.
func (l *Log) Marker(t tracefs.Time, tid int32, text string) {
	if len(l.texts) < maxMarks {
		l.texts = append(l.texts, text)
		l.add(entry{at: t, kind: marker, a: tid, b: int32(len(l.texts) - 1)})
	}
}

// Created notes that a thread made another.
func (l *Log) Created(t tracefs.Time, parent, tid int32) {
	l.add(entry{at: t, kind: created, a: parent, b: tid})
}

// Len is how many entries there are.
func (l *Log) Len() int { return len(l.list) }

// Lacks reports whether something is missing: records were lost, or there was no room.
func (l *Log) Lacks() bool { return l.lossy || l.dropped > 0 }

// Full reports whether there is no room for more.
func (l *Log) Full() bool { return len(l.list) >= l.most }

// Switches reports whether there is a switch.
func (l *Log) Switches() bool { return l.switches }

// Rename gives locks other numbers, negative ones for none: several may prove to be one.
func (l *Log) Rename(number func(int32) int32) {
	for i := range l.list {
		if e := &l.list[i]; e.kind == waits || e.kind == wakes {
			e.b = number(e.b)
		}
	}
}
