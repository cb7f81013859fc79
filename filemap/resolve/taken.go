package resolve

import "ustack/tracefs"

// taken finds out when the events were whose stacks the kernel takes at once. It writes the
// stack's record right after the event's, on the same CPU, but an interrupt can come between
// them, and then another thread can change what the process has mapped.
//
// Invariants: of a CPU, few events are open, all of one thread, the oldest one first.
type taken struct {
	cpus    map[takenOn]*opened
	last    *opened // on, of lastOn: of a CPU come many records in a row
	lastOn  takenOn
	touched []*opened // that may have events of the batch at hand
}

type takenOn struct {
	source uint8
	cpu    int32
}

// opened are the events of a CPU whose stacks may follow.
type opened struct {
	tid     int32
	count   int
	touched bool
	events  [maxNested]takenEvent
}

// takenEvent is an event: a record of the batch at hand, or nil and its time, 0 if unknown.
type takenEvent struct {
	record *tracefs.Record
	time   tracefs.Time
}

// on returns the events of a record's CPU.
func (x *taken) on(rec *tracefs.Record) *opened {
	key := takenOn{rec.Source, rec.CPU & (maxCPU - 1)}
	if x.last != nil && x.lastOn == key {
		return x.last
	}
	o := x.cpus[key]
	if o == nil {
		if x.cpus == nil {
			x.cpus = make(map[takenOn]*opened)
		}
		o = new(opened)
		x.cpus[key] = o
	}
	x.last, x.lastOn = o, key
	return o
}

// open notes an event. Those of another thread are over.
func (x *taken) open(rec *tracefs.Record) {
	if rec.Flags&(tracefs.Continued|tracefs.StackLeft) != 0 {
		return
	}
	o := x.on(rec)
	if o.tid != rec.TID {
		o.tid, o.count = rec.TID, 0
	}
	if o.count == maxNested {
		o.count = copy(o.events[:], o.events[1:])
	}
	o.events[o.count] = takenEvent{record: rec}
	o.count++
	if !o.touched {
		o.touched = true
		x.touched = append(x.touched, o)
	}
}

// take returns when the event of a stack was, 0 if that is unknown: not after the oldest of
// the events that are open, as one in an interrupt may have got no stack.
func (x *taken) take(rec *tracefs.Record, time func(*tracefs.Record) tracefs.Time) tracefs.Time {
	o := x.on(rec)
	if o.count == 0 || o.tid != rec.TID {
		return 0
	}
	o.count--
	if first := &o.events[0]; first.record != nil {
		first.time, first.record = time(first.record), nil
	}
	return o.events[0].time
}

// lose ends the events of a CPU, or of all, where records are missing.
func (x *taken) lose(rec *tracefs.Record) {
	if rec.CPU >= 0 {
		x.on(rec).count = 0
		return
	}
	for _, o := range x.cpus {
		o.count = 0
	}
}

// leave ends the batch at hand.
func (x *taken) leave(time func(*tracefs.Record) tracefs.Time) {
	for _, o := range x.touched {
		o.touched = false
		for i := range o.events[:o.count] {
			if e := &o.events[i]; e.record != nil {
				e.time = time(e.record)
			}
		}
		for i := range o.events {
			o.events[i].record = nil
		}
	}
	x.touched = x.touched[:0]
}
