package record

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"time"

	"ustack/filemap/resolve"
	"ustack/render/cause"
	"ustack/tracefs"
	"ustack/tracefs/syscalls"
)

// Trigger is what makes a flight recorder write what it has kept.
type Trigger struct {
	// Wait: a futex wait took longer than that. 0 for none.
	Wait time.Duration
	// Times: one took longer than so many times the 99th percentile of its lock. 0 for none.
	Times float64
	// Event: this event happened, SYSTEM:NAME. "" for none.
	Event string
	// Signal: a user asked (SIGUSR1).
	Signal bool
	// Loss: records were lost.
	Loss bool
	// Deadlock: threads wait for each other in a circle. A Detector does not look for it.
	Deadlock bool
}

// Watches reports whether a Detector has to look for it.
func (t *Trigger) Watches() bool { return t.Wait > 0 || t.Times > 0 || t.Event != "" || t.Loss }

// String returns the trigger as it is given by a flag.
func (t Trigger) String() string {
	switch {
	case t.Wait > 0:
		return waitTrigger + t.Wait.String()
	case t.Times > 0:
		return waitTrigger + strconv.FormatFloat(t.Times, 'f', -1, 64) + " " + timesTrigger
	case t.Event != "":
		return eventTrigger + t.Event
	case t.Loss:
		return lossTrigger
	case t.Deadlock:
		return DeadlockTrigger
	}
	return signalTrigger
}

const (
	waitTrigger   = "futex-wait>"
	eventTrigger  = "event="
	signalTrigger = "signal"
	timesTrigger  = "p99"
	lossTrigger   = "loss"
	// DeadlockTrigger is the trigger of a deadlock.
	DeadlockTrigger = "deadlock"
)

// ParseTrigger reads futex-wait>TIME, futex-wait>Np99, event=SYSTEM:NAME, deadlock, loss or signal.
func ParseTrigger(word string) (Trigger, error) {
	if after, ok := strings.CutPrefix(word, waitTrigger); ok {
		if number, ok := strings.CutSuffix(after, timesTrigger); ok {
			n, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
			if err != nil || !(n >= 1 && n <= mostTimes) {
				return Trigger{}, fmt.Errorf("trigger %q: %q is not a number of 1 to %d", word, number, int(mostTimes))
			}
			return Trigger{Times: n}, nil
		}
		d, err := time.ParseDuration(after)
		if err != nil || d <= 0 {
			return Trigger{}, fmt.Errorf("trigger %q: %q is not a time like 500ms", word, after)
		}
		return Trigger{Wait: d}, nil
	}
	if after, ok := strings.CutPrefix(word, eventTrigger); ok {
		if system, name, ok := strings.Cut(after, ":"); !ok || system == "" || name == "" || strings.ContainsAny(after, "*?[/ ") {
			return Trigger{}, fmt.Errorf("trigger %q: %q is not SYSTEM:NAME", word, after)
		}
		return Trigger{Event: after}, nil
	}
	switch word {
	case signalTrigger:
		return Trigger{Signal: true}, nil
	case lossTrigger:
		return Trigger{Loss: true}, nil
	case DeadlockTrigger:
		return Trigger{Deadlock: true}, nil
	}
	return Trigger{}, fmt.Errorf("unknown trigger %q (futex-wait>TIME, futex-wait>Np99, event=SYSTEM:NAME, deadlock, loss or signal)", word)
}

// mostTimes bounds Trigger.Times.
const mostTimes = 1e6

// Detector looks for triggers in a trace.
type Detector struct {
	wait   tracefs.Time // 0: none
	times  float64      // 0: none
	loss   bool
	events [][]byte // as the text has them: "NAME:" or "sys_NAME("
	// waits are what threads wait for, and since when.
	waits   map[int32]begunWait
	usually usually
	call    syscalls.Event
	places  *places // nil if causes are not asked for
}

// begunWait is a wait that has not ended.
type begunWait struct {
	lock  lockID
	since tracefs.Time
	cmd   syscalls.Cmd
}

// maxWaits bounds the threads that are kept: Linux has no more by default.
const maxWaits = 1 << 15

// NewDetector returns a Detector of these triggers.
func NewDetector(triggers []Trigger) *Detector {
	d := &Detector{waits: make(map[int32]begunWait), usually: make(usually)}
	for _, t := range triggers {
		if t.Wait > 0 && (d.wait == 0 || tracefs.Time(t.Wait) < d.wait) {
			d.wait = tracefs.Time(t.Wait)
		}
		if t.Times > 0 && (d.times == 0 || t.Times < d.times) {
			d.times = t.Times
		}
		d.loss = d.loss || t.Loss
		if t.Event != "" {
			d.events = append(d.events, inText(t.Event))
		}
	}
	return d
}

// inText returns how the text of an event begins. System calls have other names
// there (kernel/trace/trace_syscalls.c).
func inText(event string) []byte {
	system, name, _ := strings.Cut(event, ":")
	if system == "syscalls" {
		if call, ok := strings.CutPrefix(name, "sys_enter_"); ok {
			return []byte("sys_" + call + "(")
		}
		if call, ok := strings.CutPrefix(name, "sys_exit_"); ok {
			return []byte("sys_" + call + " -> ")
		}
	}
	return []byte(name + ": ")
}

// KeepCauses has Batch say what the causes of waits are.
func (d *Detector) KeepCauses() { d.places = newPlaces() }

// Batch looks for triggers in a batch, which must have events, and calls fired for each one: what
// it is, and the cause of a wait, nil if that is unknown.
func (d *Detector) Batch(h *resolve.Pending, fired func(why string, c *cause.Cause)) {
	for i := range h.Records {
		rec := &h.Records[i]
		if d.loss && rec.Kind == tracefs.KindLost {
			fired(lossTrigger, nil)
		}
		if rec.Kind == tracefs.KindStack && d.places != nil {
			d.places.stack(h, i)
		}
		if rec.Kind != tracefs.KindEvent || rec.Body <= rec.Off {
			continue
		}
		body := h.Text[rec.Body:rec.End]
		for _, e := range d.events {
			if bytes.HasPrefix(body, e) {
				fired(eventTrigger+string(bytes.TrimRight(e, ": (->")), nil)
			}
		}
		if (d.wait > 0 || d.times > 0) && syscalls.Parse(body, &d.call) {
			d.futex(h, rec, fired)
		}
	}
}

// futex takes a system call.
func (d *Detector) futex(h *resolve.Pending, rec *tracefs.Record, fired func(why string, c *cause.Cause)) {
	w, took := d.waited(rec.TID, h, rec)
	why := d.long(w.lock, took)
	if d.places == nil {
		if why != "" {
			fired(why, nil)
		}
		return
	}
	f := &d.call.Futex
	switch {
	case d.call.Exit:
		d.places.leave(rec.TID)
	case d.call.Call == syscalls.Other || d.call.Call == syscalls.RestartSyscall:
	case f.Cmd.Waits() || f.Cmd.Wakes() && f.HasAddr:
		d.places.enter(rec.TID, f, d.lock(h, rec), h.Time(rec))
	}
	switch {
	case why != "":
		fired(why, d.places.of(rec.TID, w))
	case took > 0:
		delete(d.places.waits, rec.TID)
	}
}

// lock returns the futex of a call.
func (d *Detector) lock(h *resolve.Pending, rec *tracefs.Record) (l lockID) {
	l.addr = d.call.Futex.Addr
	if d.times > 0 || d.places != nil {
		l.tgid = h.Head(rec).TGID
	}
	return l
}

// long returns which trigger a wait is, "" for none. All waits go into what is usual.
func (d *Detector) long(lock lockID, t tracefs.Time) (why string) {
	if t <= 0 {
		return ""
	}
	if d.times > 0 && (!d.call.HasResult || d.call.Result != changed) {
		if usual := d.usually.add(lock, t); usual > 0 && float64(t) > d.times*float64(usual) {
			why = Trigger{Times: d.times}.Why(t, usual)
		}
	}
	if d.wait > 0 && t > d.wait {
		why = Trigger{Wait: time.Duration(d.wait)}.Why(t, 0)
	}
	return why
}

// changed is EAGAIN: the futex had changed before the wait began.
const changed = -11

// Why returns the words for a wait that is a trigger, in a report's head. usual is the 99th
// percentile of its lock, 0 if it does not matter.
func (t Trigger) Why(took, usual tracefs.Time) string {
	why := t.String() + " (" + time.Duration(took).String()
	if usual > 0 {
		why += " p99 " + time.Duration(usual).String()
	}
	return why + ")"
}

// waited returns the wait that an event ends, and how long it was, 0 for other events.
func (d *Detector) waited(tid int32, h *resolve.Pending, rec *tracefs.Record) (w begunWait, took tracefs.Time) {
	switch c := &d.call; {
	case c.Call == syscalls.Other:
		return w, 0
	case c.Call == syscalls.RestartSyscall && !c.Exit:
		return w, 0 // the wait goes on
	case !c.Exit:
		if c.Futex.Cmd.Waits() && len(d.waits) < maxWaits {
			d.waits[tid] = begunWait{d.lock(h, rec), h.Time(rec), c.Futex.Cmd}
		}
		return w, 0
	case c.HasResult && interrupted(c.Result):
		return w, 0 // and begins again
	}
	w, ok := d.waits[tid]
	delete(d.waits, tid)
	if !ok {
		return w, 0
	}
	return w, h.Time(rec) - w.since
}

// interrupted reports whether a wait goes on after a signal: ERESTARTSYS to
// ERESTART_RESTARTBLOCK (include/linux/errno.h).
func interrupted(result int64) bool { return result <= -512 && result >= -516 }
