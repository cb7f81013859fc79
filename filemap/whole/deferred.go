package whole

import (
	"ustack/filemap"
	"ustack/filemap/hotspot"
	"ustack/filemap/space"
	"ustack/filemap/unwind"
	"ustack/tracefs"
	"ustack/tracefs/text"
)

// A deferred stack comes when the thread returns to user space, after the wait: until
// then, what was found at the entry is kept under the cookie of the request. Both are the
// same user stack, which nothing changes while its thread is in the kernel.

// trip is a thread's way through the kernel, of a call that can wait.
type trip struct {
	tid, cpu int32
	cookie   uint64 // 0 before its record has come
	began    tracefs.Time
	left     tracefs.Time // when the call returned, 0 if it has not
	losses   uint64       // of the trace, before it
	pid      int
	frames   []held // nil if nothing was found
	end      unwind.End
}

// held is a frame that was found.
type held struct {
	pc    uint64
	how   unwind.How
	place space.Place // Mapping is nil if it is unknown
	code  *filemap.Code
}

// arrival is a deferred stack of a batch, and the trip that ends with it.
type arrival struct {
	record int
	trip   *trip
}

// trips are the calls whose deferred stacks have not come.
//
// Invariants: a thread has one at most, the last that it has begun. Of a CPU, one at most
// has no cookie: its record comes next of the task's own. All trips have no more than
// maxHeld frames.
type trips struct {
	of      map[int32]*trip // by thread
	open    map[int32]*trip // by CPU, the last that has begun there
	held    int             // frames
	losses  uint64          // places where records of the trace are missing
	dropped uint64          // that had frames
	arrived []arrival
}

const (
	// maxHeld bounds the frames that wait for deferred stacks.
	maxHeld = 1 << 18
	// cookieAge is less than the time after which a cookie can come again, which is a
	// counter of 31 bits of a CPU (union unwind_task_id in linux/unwind_deferred_types.h).
	cookieAge = tracefs.Time(30e9)
)

// begin notes the entry into a call.
func (d *trips) begin(tid, cpu int32, at tracefs.Time) *trip {
	if d.of == nil || len(d.of) >= maxEntries {
		d.clear()
	}
	d.drop(d.of[tid])
	d.close(cpu)
	t := &trip{tid: tid, cpu: cpu, began: at, losses: d.losses}
	d.of[tid], d.open[cpu] = t, t
	return t
}

// clear forgets all.
func (d *trips) clear() {
	for _, t := range d.of {
		d.drop(t)
	}
	d.of, d.open = make(map[int32]*trip), make(map[int32]*trip)
}

// drop forgets a trip whose stack will not come, or is not known to be its. A nil one
// is none.
func (d *trips) drop(t *trip) {
	if t == nil || d.of[t.tid] != t {
		return
	}
	delete(d.of, t.tid)
	if d.held -= len(t.frames); len(t.frames) > 0 {
		d.dropped++
	}
}

// close drops the trip of a CPU that has no cookie: what comes next there can be the
// cookie of another event.
func (d *trips) close(cpu int32) {
	if t := d.open[cpu]; t != nil {
		delete(d.open, cpu)
		if t.cookie == 0 {
			d.drop(t)
		}
	}
}

// event notes another event of a thread, not of an interrupt.
func (d *trips) event(tid int32) {
	if t := d.of[tid]; t != nil && t.cookie == 0 {
		d.drop(t) // its cookie would have come first
	}
}

// leave notes that the call of a thread returns.
func (d *trips) leave(tid int32, at tracefs.Time) {
	d.event(tid)
	if t := d.of[tid]; t != nil && t.left == 0 {
		t.left = at
	}
}

// ask notes a cookie. A thread that has another one than its call's is past that. An
// interrupt can come between a call's event and its cookie, and have events and cookies.
func (d *trips) ask(r *tracefs.Record, interrupt bool) {
	t := d.of[r.TID]
	switch {
	case t == nil || t.cookie != 0 && t.cookie == r.Value || t.cookie == 0 && interrupt:
	case t.cookie == 0 && t.cpu == r.CPU && r.Value != 0 && r.Flags&tracefs.Cut == 0:
		t.cookie = r.Value
	default:
		d.drop(t)
	}
}

// lose notes that records of a CPU are missing, of all if it is below 0.
func (d *trips) lose(cpu int32) {
	d.losses++
	if cpu >= 0 {
		d.close(cpu)
		return
	}
	for cpu := range d.open {
		d.close(cpu)
	}
}

// other takes a record that is no event.
func (d *trips) other(b *tracefs.Batch, i int) {
	switch r := &b.Records[i]; r.Kind {
	case tracefs.KindLost, tracefs.KindGap:
		d.lose(r.CPU)
	case tracefs.KindCookie:
		d.ask(r, interrupts(b, r))
	case tracefs.KindStack:
		if t, ok := b.Exact(r); ok && r.Flags&tracefs.Deferred != 0 {
			d.stack(i, r, t)
		}
	}
}

// passes takes an event that is none of the calls.
func (d *trips) passes(b *tracefs.Batch, r *tracefs.Record) {
	if !interrupts(b, r) {
		d.event(r.TID)
	}
}

// interrupts reports whether an interrupt has written a record.
func interrupts(b *tracefs.Batch, r *tracefs.Record) bool {
	flags, ok := b.Context(r)
	return ok && flags[0] != 0 && tracefs.InInterrupt(flags[:])
}

// stack takes a deferred stack, which ends the trip that has its cookie.
func (d *trips) stack(i int, r *tracefs.Record, at tracefs.Time) {
	t := d.of[r.TID]
	if t == nil || r.Flags&tracefs.Continued != 0 {
		return
	}
	again := t.losses != d.losses && at-t.began > cookieAge || t.left != 0 && at-t.left > cookieAge
	if again || r.Value == 0 || t.cookie != r.Value {
		d.drop(t)
		return
	}
	d.arrived = append(d.arrived, arrival{i, t})
	delete(d.of, t.tid)
	d.held -= len(t.frames)
}

// keep keeps what was found of a call until its stack comes, or gives it to the stack
// that has come.
func (d *trips) keep(t *trip, frames []held) {
	waits := d.of[t.tid] == t
	if waits && d.held+len(frames) > maxHeld {
		t.frames = frames[:0]
		d.clear()
		d.dropped++
		return
	}
	if t.frames = frames; waits {
		d.held += len(frames)
	}
}

// hold keeps the frames of a sample that belongs to a trip.
func (s *Stage) hold(p pair, c *Counts) {
	sp, pid, end := s.unwind(p, c)
	if len(s.frames) == 0 {
		return
	}
	t := p.call.trip
	frames := s.places(sp, p.sample.Time)
	t.pid, t.end = pid, end
	s.trips.keep(t, frames)
}

// arrivals gives the deferred stacks of a batch the frames that were found.
func (s *Stage) arrivals(b *tracefs.Batch, c *Counts) {
	for _, a := range s.trips.arrived {
		r := &b.Records[a.record]
		c.Waits++
		if len(a.trip.frames) == 0 {
			s.alone(a.trip.began, c)
			continue
		}
		t, _ := b.Exact(r)
		pid, sp, ok := s.opt.Space(int(r.TID), t)
		m := meeting{found: a.trip.frames, end: &a.trip.end}
		m.kernel, m.text = b.StackFrames(r)
		switch {
		case !ok || r.Flags&tracefs.Cut != 0:
			c.Kept++
		case pid != a.trip.pid || !m.agree() || !stayed(a.trip.frames, sp, t):
			c.Contradicted++
		default:
			from := len(s.arena)
			s.arena = m.frames(s.arena)
			s.list = append(s.list, text.Unwound{Record: a.record, Frames: s.arena[from:len(s.arena):len(s.arena)]})
			s.named(r.TID, t, functionsOf(a.trip.frames))
			c.Whole++
		}
	}
	clear(s.trips.arrived)
	s.trips.arrived = s.trips.arrived[:0]
}

// functionsOf returns the functions of frames, of those that have one.
func functionsOf(frames []held) (list []hotspot.Named) {
	for i := range frames {
		if f := &frames[i]; f.code != nil {
			list = append(list, hotspot.Named{Frame: i, Addr: f.pc, Code: f.code})
		}
	}
	return list
}

// stayed reports whether what was found is at a time where it was: the stack has the
// time of its coming, and its frames get their files by that.
func stayed(found []held, sp *space.Space, t tracefs.Time) bool {
	for i := range found {
		f := &found[i]
		if f.place.Mapping == nil {
			continue
		}
		now, ok := sp.Lookup(f.pc, t)
		same := held{place: now}
		if !ok || same.inFile() != f.inFile() || f.inFile() && (now.Offset != f.place.Offset || now.Mapping.File != f.place.Mapping.File) {
			return false
		}
	}
	return true
}
