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
	record  *tracefs.Record
	time    tracefs.Time
	context uint64 // see context; 0 if unknown
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

// open notes an event. Those of another thread are over, and the ones before it that no
// interrupt is between.
func (x *taken) open(rec *tracefs.Record, context uint64) {
	if rec.Flags&(tracefs.Continued|tracefs.StackLeft) != 0 {
		return
	}
	o := x.on(rec)
	if o.tid != rec.TID {
		o.tid, o.count = rec.TID, 0
	}
	for o.count > 0 && context != 0 && o.events[o.count-1].context == context {
		o.count--
	}
	if o.count == maxNested {
		o.count = copy(o.events[:], o.events[1:])
	}
	o.events[o.count] = takenEvent{record: rec, context: context}
	o.count++
	if !o.touched {
		o.touched = true
		x.touched = append(x.touched, o)
	}
}

// take returns when the event of a stack was, 0 if that is unknown. The kernel writes both in
// the same context; those in interrupts between them are over. Without such an event it is not
// after the oldest one that is open; first is the time of that.
func (x *taken) take(rec *tracefs.Record, context uint64, time func(*tracefs.Record) tracefs.Time) (event, first tracefs.Time) {
	o := x.on(rec)
	if o.count == 0 || o.tid != rec.TID {
		return 0, 0
	}
	first = o.events[0].at(time)
	n := o.count - 1
	for n > 0 && (context == 0 || o.events[n].context != context) {
		n--
	}
	if o.count--; context != 0 && o.events[n].context == context {
		o.count = n
	}
	return o.events[n].at(time), first
}

// at returns when it was.
func (e *takenEvent) at(time func(*tracefs.Record) tracefs.Time) tracefs.Time {
	if e.record != nil {
		e.time, e.record = time(e.record), nil
	}
	return e.time
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
			o.events[i].at(time)
		}
		for i := range o.events {
			o.events[i].record = nil
		}
	}
	x.touched = x.touched[:0]
}
