package record

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"ustack/filemap/resolve"
	"ustack/tracefs"
	"ustack/tracefs/syscalls"
)

// Trigger is what makes a flight recorder write what it has kept.
type Trigger struct {
	// Wait: a futex wait took longer than that. 0 for none.
	Wait time.Duration
	// Event: this event happened, SYSTEM:NAME. "" for none.
	Event string
	// Signal: a user asked (SIGUSR1).
	Signal bool
}

// String returns the trigger as it is given by a flag.
func (t Trigger) String() string {
	switch {
	case t.Wait > 0:
		return waitTrigger + t.Wait.String()
	case t.Event != "":
		return eventTrigger + t.Event
	}
	return signalTrigger
}

const (
	waitTrigger   = "futex-wait>"
	eventTrigger  = "event="
	signalTrigger = "signal"
)

// ParseTrigger reads futex-wait>TIME, event=SYSTEM:NAME or signal.
func ParseTrigger(word string) (Trigger, error) {
	if after, ok := strings.CutPrefix(word, waitTrigger); ok {
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
	if word == signalTrigger {
		return Trigger{Signal: true}, nil
	}
	return Trigger{}, fmt.Errorf("unknown trigger %q (futex-wait>TIME, event=SYSTEM:NAME or signal)", word)
}

// Detector looks for triggers in a trace.
type Detector struct {
	wait   tracefs.Time // 0: none
	events [][]byte     // as the text has them: "NAME:" or "sys_NAME("
	// waits are when threads began to wait.
	waits map[int32]tracefs.Time
	call  syscalls.Event
}

// maxWaits bounds the threads that are kept: Linux has no more by default.
const maxWaits = 1 << 15

// NewDetector returns a Detector of these triggers.
func NewDetector(triggers []Trigger) *Detector {
	d := &Detector{waits: make(map[int32]tracefs.Time)}
	for _, t := range triggers {
		if t.Wait > 0 && (d.wait == 0 || tracefs.Time(t.Wait) < d.wait) {
			d.wait = tracefs.Time(t.Wait)
		}
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

// Batch reports whether a trigger is in a batch, which must have events, and
// which one.
func (d *Detector) Batch(h *resolve.Pending) (why string, fired bool) {
	for i := range h.Records {
		rec := &h.Records[i]
		if rec.Kind != tracefs.KindEvent || rec.Body <= rec.Off {
			continue
		}
		body := h.Text[rec.Body:rec.End]
		for _, e := range d.events {
			if bytes.HasPrefix(body, e) {
				return eventTrigger + string(bytes.TrimRight(e, ": (->")), true
			}
		}
		if d.wait > 0 && syscalls.Parse(body, &d.call) {
			if t := d.waited(rec.TID, h, rec); t > d.wait {
				return waitTrigger + time.Duration(d.wait).String() + " (" + time.Duration(t).String() + ")", true
			}
		}
	}
	return "", false
}

// waited returns how long the wait was that an event ends, 0 for other events.
func (d *Detector) waited(tid int32, h *resolve.Pending, rec *tracefs.Record) tracefs.Time {
	switch c := &d.call; {
	case c.Call == syscalls.RestartSyscall && !c.Exit:
		return 0 // the wait goes on
	case !c.Exit:
		if c.Futex.Cmd.Waits() && len(d.waits) < maxWaits {
			d.waits[tid] = h.Time(rec)
		}
		return 0
	case c.HasResult && interrupted(c.Result):
		return 0 // and begins again
	}
	begun, ok := d.waits[tid]
	delete(d.waits, tid)
	if !ok {
		return 0
	}
	return h.Time(rec) - begun
}

// interrupted reports whether a wait goes on after a signal: ERESTARTSYS to
// ERESTART_RESTARTBLOCK (include/linux/errno.h).
func interrupted(result int64) bool { return result <= -512 && result >= -516 }
