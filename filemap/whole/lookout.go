package whole

import (
	"errors"
	"slices"
	"sync"
	"time"

	"ustack/filemap/blocked"
	"ustack/tracefs"
	"ustack/tracefs/sched"
	"ustack/tracefs/syscalls"
	"ustack/tracefs/text"
)

// LookoutOptions are what a Lookout works with.
type LookoutOptions struct {
	// Stage unwinds what was read. Nothing else uses it meanwhile.
	Stage *Stage
	// Read reads the stack of a thread that waits, see blocked.Reader.
	Read func(tid, size int) (*blocked.Stack, error)
	// Settle has all changes of mappings of before a time be known.
	Settle func(t tracefs.Time) error
	// Same reports whether a number was that of one thread between two times, for sure.
	Same func(tid int, from, to tracefs.Time) bool
	// Sleeps has threads be looked at, too, that sleep in other calls after they have let
	// others go on. All switches of threads have to be in the trace.
	Sleeps bool
	// Every, with Sleeps, has all threads be looked at that sleep in a call whose entry is in
	// the trace, as an event of raw_syscalls, and all of these are.
	Every bool
}

// LookoutCounts is what became of the waits that had no other stack than the kernel's and
// took longer than a millisecond.
type LookoutCounts struct {
	Waits   uint64
	Whole   uint64 // whose stack was unwound
	Missed  uint64 // that were over before the thread was looked at, or proven too late
	Busy    uint64 // that were not looked at, as there were too many or the trace was read late
	Refused uint64 // whose thread was not proven to be in the call, or to be blocked
	Failed  uint64 // whose stack cannot be read
	Kept    uint64 // where it proves no more than the kernel's stack

	// Sleeps in other calls, whose stack was unwound, count in nothing else, but for
	// LookoutOptions.Every: then they are waits.
	Sleeps uint64
}

// Lookout finds the stacks of waits in the memory of the threads, while they are blocked.
// That costs the threads nothing, and takes until the wait is a millisecond old: a
// Lookout holds batches back until it is known which of their waits take so long.
//
// A stack belongs to a record if the thread is in a call with the same arguments at the
// same place, and has no other record between that one and the reading: none is missing,
// and all of before the reading have come. All entries into futex have to be in the trace.
// A few sleeps in other calls are looked at, too: see LookoutOptions.
//
// Counts may be called by another goroutine than the rest.
type Lookout struct {
	opt   LookoutOptions
	queue *blocked.Queue
	open  waits
	asked []*wait // whose stacks are to be read
	fresh []*wait // of the batch at hand
	spare []*wait
	line  []*Held
	free  []*Held
	sys   syscalls.Event
	raw   syscalls.RawCall
	task  sched.Event
	after tracefs.Time // threads wait for so long when they are looked at
	other sleeps

	mu    sync.Mutex
	count LookoutCounts
}

// wait is the entry into a call that can wait, whose exit has not come, or the switch of a
// thread that sleeps in another one.
type wait struct {
	tid, cpu int32
	at       tracefs.Time
	since    tracefs.Time // if any: of the entry into the call
	sleep    bool
	any      bool // in whatever call
	call     syscalls.Futex
	pc       uint64 // of the kernel's first frame
	held     *Held
	record   int          // of the stack, -1 before it has come
	ask      *blocked.Ask // nil until all of its batch has been looked at
}

// Arrival is what is known of a batch when it comes.
type Arrival struct {
	// Size and Lines are what it has.
	Size, Lines int64
	// Restart: the trace was opened anew before it.
	Restart bool
	// Losing: records are missing before some that are still to come, of another CPU and
	// perhaps of before the last of the batch.
	Losing bool
}

// Held is a batch that is held back.
type Held struct {
	Batch   tracefs.Batch
	Arrival Arrival

	since   tracefs.Time
	open    int // waits whose stacks can still come
	unwound []text.Unwound
}

const (
	// longWait is when a thread that waits is looked at, and mostWait when it is if there
	// are too many.
	longWait, mostWait = tracefs.Time(time.Millisecond), 16 * tracefs.Time(time.Millisecond)
	// maxHold is how long a batch is held back at most, and maxLine how many are.
	maxHold = tracefs.Time(500 * time.Millisecond)
	maxLine = 256
	// maxLate is how late a trace is read whose threads are looked at: all that proves
	// that a thread is still in its call comes as late.
	maxLate = tracefs.Time(8 * time.Millisecond)
)

// waits are the last entries of threads, of one of those whose numbers have the same last
// bits. It is asked for each record.
type waits [1 << 12]*wait

func (ws *waits) at(tid int32) **wait { return &ws[uint32(tid)%uint32(len(ws))] }

// of returns the wait of a thread, nil if there is none.
func (ws *waits) of(tid int32) *wait {
	if w := *ws.at(tid); w != nil && w.tid == tid {
		return w
	}
	return nil
}

// has reports whether a wait is there.
func (ws *waits) has(w *wait) bool { return *ws.at(w.tid) == w }

// take takes a wait out.
func (ws *waits) take(w *wait) {
	if ws.has(w) {
		*ws.at(w.tid) = nil
	}
}

// put puts a wait in, and returns that of another thread in whose place it is.
func (ws *waits) put(w *wait) (other *wait) {
	p := ws.at(w.tid)
	other, *p = *p, w
	return other
}

// NewLookout returns a Lookout, which is to be closed.
func NewLookout(opt LookoutOptions) *Lookout {
	l := &Lookout{opt: opt, after: longWait, queue: blocked.NewQueue(blocked.QueueOptions{Read: opt.Read, Now: opt.Stage.opt.Now})}
	if opt.Every {
		l.other.inside = new([1 << 12]waker)
	}
	return l
}

// Close ends the reading of stacks. A nil Lookout has ended.
func (l *Lookout) Close() {
	if l != nil {
		l.queue.Close()
	}
}

// Put takes a batch in, for another one: b is empty then. What samples prove is in it.
func (l *Lookout) Put(b *tracefs.Batch, as Arrival) {
	h := new(Held)
	if n := len(l.free); n > 0 {
		h, l.free = l.free[n-1], l.free[:n-1]
	}
	h.Batch, *b = *b, h.Batch
	b.Reset()
	h.Arrival, h.since, h.open, h.unwound = as, l.opt.Stage.opt.Now(), 0, h.unwound[:0]
	l.line = append(l.line, h)
	losing := as.Losing || as.Restart || misses(&h.Batch)
	if losing {
		l.forget()
	}
	last := l.look(h)
	late := l.opt.Stage.opt.Now()-last > maxLate
	for _, w := range l.fresh {
		if !l.open.has(w) {
			l.recycle(w)
			continue
		}
		if late {
			continue
		}
		w.ask = l.queue.Ask(int(w.tid), w.at+l.after)
		l.asked = append(l.asked, w)
		h.open++
	}
	l.fresh = l.fresh[:0]
	if losing {
		l.forget()
	}
	l.Known(last)
}

// misses reports whether records are missing before one of a batch.
func misses(b *tracefs.Batch) bool {
	return slices.ContainsFunc(b.Records, func(r tracefs.Record) bool { return r.Kind == tracefs.KindLost || r.Kind == tracefs.KindGap })
}

// look goes through the records of a batch, and returns the time of the last.
func (l *Lookout) look(h *Held) (last tracefs.Time) {
	b := &h.Batch
	for i := range b.Records {
		r := &b.Records[i]
		switch r.Kind {
		case tracefs.KindEvent:
			t, ok := b.Exact(r)
			if !ok {
				continue
			}
			last = max(last, t)
			l.event(h, r, t)
		case tracefs.KindStack:
			l.stack(h, i, r)
		}
	}
	return last
}

// event takes an event: the call that its thread was in is over, unless the event is of
// the scheduler, or of an interrupt. A thread that waits leaves its CPU in the call, and
// interrupts wake others meanwhile. Only a call whose stack has come can go on: the stack
// of such an event would be taken for it.
func (l *Lookout) event(h *Held, r *tracefs.Record, t tracefs.Time) {
	if w := l.open.of(r.TID); w != nil {
		if w.record >= 0 && !w.sleep && (interrupts(&h.Batch, r) || l.parse(h, r) && l.task.Kind <= sched.Wakeup) {
			return
		}
		l.open.take(w)
		l.over(w, t)
	}
	e := h.Batch.Call(r)
	if e == nil {
		if e = &l.sys; !syscalls.Parse(h.Batch.Text[r.Body:r.End], e) {
			l.other.call(h.Batch.Text[r.Body:r.End], r.TID, t, &l.raw)
			if l.opt.Sleeps && l.parse(h, r) && l.task.Kind == sched.Switch {
				l.sleeps(r, t)
			}
			return
		}
	}
	switch {
	case e.Exit || e.Call != syscalls.FutexOp:
	case e.Futex.Cmd.Waits():
		l.begin(wait{tid: r.TID, cpu: r.CPU, at: t, call: e.Futex, record: -1})
	case e.Futex.Cmd.Wakes():
		l.other.wakes(r.TID, t)
	}
}

// parse reads an event of the scheduler, and reports whether it is one.
func (l *Lookout) parse(h *Held, r *tracefs.Record) bool {
	return r.Body < r.End && sched.Parse(h.Batch.Text[r.Body:r.End], &l.task)
}

// begin begins a wait.
func (l *Lookout) begin(as wait) {
	w := new(wait)
	if n := len(l.spare); n > 0 {
		w, l.spare = l.spare[n-1], l.spare[:n-1]
	}
	*w = as
	if other := l.open.put(w); other != nil {
		l.lose(other)
	}
}

// stack takes the stack of an event.
func (l *Lookout) stack(h *Held, i int, r *tracefs.Record) {
	w := l.open.of(r.TID)
	if w == nil || w.record >= 0 || r.CPU != w.cpu || r.Flags&(tracefs.Deferred|tracefs.Continued|tracefs.Cut) != 0 {
		return
	}
	frames, text := h.Batch.StackFrames(r)
	if len(frames) == 0 || frames[0].Followed() {
		l.open.take(w)
		l.recycle(w)
		return
	}
	w.held, w.record, w.pc = h, i, frames[0].Address(text)
	l.fresh = append(l.fresh, w)
}

// recycle keeps the memory of a wait that nothing refers to any more.
func (l *Lookout) recycle(w *wait) {
	if len(l.spare) < maxLine {
		l.spare = append(l.spare, w)
	}
}

// forget ends all waits: a record that is missing can be any thread's.
func (l *Lookout) forget() {
	for _, w := range l.asked {
		if l.open.has(w) {
			l.lose(w)
		}
	}
	clear(l.open[:])
	l.other.forget()
}

// over ends a wait at a time: nothing of its thread is between its record and that.
func (l *Lookout) over(w *wait, t tracefs.Time) {
	if w.ask == nil {
		if w.record < 0 {
			l.recycle(w)
		} else if t-w.at >= longWait {
			l.counted(w, func(c *LookoutCounts) { c.Waits++; c.Busy++ })
		}
		return
	}
	w.held.open--
	w.ask.Cancel()
	s, done, err := w.ask.Result()
	if w.sleep && !done {
		l.other.left++ // it was not read
	}
	if done && (err != nil || s.To <= t) {
		l.judge(w, s, err)
	} else if t-w.at >= longWait {
		l.counted(w, func(c *LookoutCounts) { c.Waits++; c.Missed++ })
	}
}

// adapt has threads be looked at later if there are too many, else sooner.
func (l *Lookout) adapt(tooMany bool) {
	if tooMany {
		l.after = min(l.after+l.after/8, mostWait)
	} else {
		l.after = max(l.after-l.after/32, longWait)
	}
}

// lose ends a wait that nothing more can be proven of.
func (l *Lookout) lose(w *wait) {
	l.open.take(w)
	if w.ask == nil {
		return
	}
	w.held.open--
	w.ask.Cancel()
	l.counted(w, func(c *LookoutCounts) { c.Waits++; c.Missed++ })
}

// Known notes that all records of before a time have been put in.
func (l *Lookout) Known(until tracefs.Time) {
	l.asked = slices.DeleteFunc(l.asked, func(w *wait) bool {
		if !l.open.has(w) {
			return true
		}
		s, done, err := w.ask.Result()
		if !done || err == nil && s.To >= until {
			return false
		}
		l.open.take(w)
		w.held.open--
		l.judge(w, s, err)
		return true
	})
}

// judge gives a wait the stack that was read of its thread in the same call, or counts why
// there is none.
func (l *Lookout) judge(w *wait, s *blocked.Stack, err error) {
	l.counted(w, func(c *LookoutCounts) {
		c.Waits++
		switch {
		case err == nil:
		case errors.Is(err, blocked.ErrBusy):
			c.Busy++
		case errors.Is(err, blocked.ErrRunning), errors.Is(err, blocked.ErrEnded):
			c.Refused++
		default:
			c.Failed++
		}
	})
	if !w.sleep || w.any {
		l.adapt(errors.Is(err, blocked.ErrBusy))
	}
	if err != nil {
		return
	}
	frames, short, err := l.unwind(w, s)
	if short {
		l.queue.Grow(len(s.Memory))
	}
	l.counted(w, func(c *LookoutCounts) {
		switch {
		case errors.Is(err, errNotIt):
			c.Refused++
		case err != nil:
			c.Kept++
		default:
			c.Whole++
		}
	})
	if err == nil {
		l.slept(w)
		w.held.unwound = append(w.held.unwound, text.Unwound{Record: w.record, Frames: frames})
	}
}

// counted counts what became of a wait.
func (l *Lookout) counted(w *wait, change func(*LookoutCounts)) {
	if w.sleep && !w.any {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	change(&l.count)
}

// slept counts the stack of a sleep.
func (l *Lookout) slept(w *wait) {
	if w.sleep && !w.any {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.count.Sleeps++
	}
}

// Counts returns what became of the waits so far.
func (l *Lookout) Counts() LookoutCounts {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.count
}
