// Package sched decodes the text of scheduler and task events
// (include/trace/events/sched.h, task.h): which task leaves a CPU and in what
// state, which one is woken, which tasks are threads of one process, which end.
package sched

import "bytes"

// Kind is the kind of an event.
type Kind uint8

// The events that are decoded.
const (
	None Kind = iota
	// Switch: the header's task goes off the CPU in State, TID comes on.
	Switch
	// Waking: the header's task wakes TID. Wakeup: TID has become runnable;
	// the header's task need not be its waker.
	Waking
	Wakeup
	// Exec: TID, OldTID before, runs another program now.
	Exec
	// Exit: the header's task ends. Group is set if it is the last one of its
	// process.
	Exit
	// NewTask: the header's task has made the task TID; Thread is set if that is a
	// thread of the same process.
	NewTask
)

// Event is a decoded event. Comm points into the text.
type Event struct {
	Kind   Kind
	TID    int32
	OldTID int32
	// State is the first letter of prev_state: S and D sleep, R may run, X
	// and Z have ended.
	State  byte
	Thread bool
	Group  bool
	// Prio is the priority of TID in a Switch, Waking or Wakeup as the kernel has it: 100
	// and more are of nice values, less is real time (rtprio 1 is 98), -1 a deadline; the
	// smaller it is the sooner the thread runs. It is NoPrio if unknown.
	Prio int32
	// Comm is the name of TID.
	Comm []byte
	prev []byte // of a Switch: what stands before prev_state
}

// NoPrio is an unknown priority.
const NoPrio = 1 << 30

var names = [...]struct {
	name string
	kind Kind
}{
	{"sched_switch", Switch}, {"sched_waking", Waking}, {"sched_wakeup", Wakeup},
	{"sched_process_exec", Exec}, {"sched_process_exit", Exit}, {"task_newtask", NewTask},
}

// Parse decodes the body of an event. It reports false if it is none of those,
// or lacks what is needed.
func Parse(body []byte, e *Event) bool {
	const longest = 24
	at := bytes.IndexByte(body[:min(len(body), longest)], ':')
	if at < 0 {
		return false
	}
	kind := None
	for i := range names {
		if string(body[:at]) == names[i].name {
			kind = names[i].kind
			break
		}
	}
	if kind == None {
		return false
	}
	*e = Event{Kind: kind, Prio: NoPrio}
	text := body[at+1:]
	for len(text) > 0 && (text[0] == ' ' || text[0] == '\t') {
		text = text[1:]
	}
	if end := bytes.LastIndexByte(text, '\n'); end >= 0 {
		text = text[:end]
	}
	switch kind {
	case Switch:
		return e.sched(text)
	case Waking, Wakeup:
		return e.wake(text)
	case Exec:
		return e.last(text, "pid=", &e.TID, " old_pid=") && e.last(text, " old_pid=", &e.OldTID, "")
	case Exit:
		e.Group = bytes.Contains(text, []byte("group_dead=true")) || bytes.Contains(text, []byte("group_dead=1"))
		return true
	case NewTask:
		return e.newTask(text)
	}
	return false
}

// sched reads "prev_comm=a prev_pid=1 prev_prio=120 prev_state=S ==>
// next_comm=b next_pid=2 next_prio=120", by trace-cmd "a:1 [120] S ==> b:2 [120]".
// A comm can hold any of these words, so what is looked for is what stands
// last before a place that is known.
func (e *Event) sched(text []byte) bool {
	return e.usualSwitch(text) || e.anySwitch(text)
}

// anySwitch reads all forms.
func (e *Event) anySwitch(text []byte) bool {
	arrow := lastIndex(text, " ==> ")
	if arrow < 0 {
		return false
	}
	prev, next := text[:arrow], text[arrow+len(" ==> "):]
	if name, ok := bytes.CutPrefix(next, []byte("next_comm=")); ok {
		at := lastIndex(name, " next_pid=")
		state := lastIndex(prev, " prev_state=")
		if at < 0 || state < 0 || state+len(" prev_state=") >= len(prev) {
			return false
		}
		e.State = prev[state+len(" prev_state=")]
		e.prev = prev[:state]
		e.Comm = name[:at]
		if prio := lastIndex(name, " next_prio="); prio > at {
			e.Prio = priority(name[prio+len(" next_prio="):])
		}
		return decimal(name[at+len(" next_pid="):], &e.TID)
	}
	if len(prev) == 0 {
		return false
	}
	state := bytes.LastIndexByte(prev, ' ')
	if state < 0 || state+1 >= len(prev) {
		return false
	}
	e.State = prev[state+1]
	e.prev = prev[:state]
	return e.named(next)
}

// usualSwitch reads the kernel's own form from its end on. It returns false, with
// the Event as it was, if that does not go.
func (e *Event) usualSwitch(text []byte) bool {
	const arrow, comm, pid, prio, state = " ==> ", "next_comm=", " next_pid=", " next_prio=", " prev_state="
	next, end, ok := endsIn(text, prio)
	if !ok {
		return false
	}
	tid, end, ok := endsIn(text[:end], pid)
	if !ok {
		return false
	}
	// The blank before next_pid can be an arrow's, too.
	at := lastIndex(text[:end+1], arrow)
	name := at + len(arrow+comm)
	if at < len(state)+2 || name > end || string(text[name-len(comm):name]) != comm {
		return false
	}
	from := at - len("S") - len(state)
	if text[at-1] == '+' && string(text[from:from+len(state)]) != state {
		from--
	}
	if string(text[from:from+len(state)]) != state {
		return false
	}
	e.State, e.prev, e.Comm, e.TID, e.Prio = text[from+len(state)], text[:from], text[name:end], tid, next
	return true
}

// endsIn reads a key and a decimal number at the end of text, and returns where
// the key begins.
func endsIn(text []byte, key string) (v int32, at int, ok bool) {
	i, scale := len(text), int32(1)
	for i > 0 && text[i-1]-'0' <= 9 {
		v += int32(text[i-1]-'0') * scale
		scale *= 10
		if i--; len(text)-i > 7 {
			return 0, 0, false
		}
	}
	at = i - len(key)
	return v, at, i < len(text) && v <= maxTID && at >= 0 && string(text[at:i]) == key
}

// PrevPrio returns the priority of the header's task, as Prio, if the event is a Switch and
// has it, else NoPrio.
func (e *Event) PrevPrio() int32 {
	if v, _, ok := endsIn(e.prev, " prev_prio="); ok {
		return v
	}
	if at := lastIndex(e.prev, " prev_prio="); at >= 0 {
		return priority(e.prev[at+len(" prev_prio="):])
	}
	if at := lastIndex(e.prev, " ["); at >= 0 {
		return priority(e.prev[at+len(" ["):])
	}
	return NoPrio
}

// priority reads the number at the beginning of b, as a priority.
func priority(b []byte) (v int32) {
	rest, negative := bytes.CutPrefix(b, []byte("-"))
	switch {
	case !decimal(rest, &v):
		return NoPrio
	case negative:
		return -v
	}
	return v
}

// PrevComm returns the name of the header's task, if the event is a Switch in the kernel's
// own form.
func (e *Event) PrevComm() []byte {
	if pid := lastIndex(e.prev, " prev_pid="); pid > 0 {
		return bytes.TrimPrefix(e.prev[:pid], []byte("prev_comm="))
	}
	return nil
}

// wake reads "comm=a pid=1 prio=120 target_cpu=001", by trace-cmd
// "a:1 [120] CPU:001".
func (e *Event) wake(text []byte) bool {
	if name, ok := bytes.CutPrefix(text, []byte("comm=")); ok {
		at := lastIndex(name, " pid=")
		if at < 0 {
			return false
		}
		e.Comm = name[:at]
		if prio := lastIndex(name, " prio="); prio > at {
			e.Prio = priority(name[prio+len(" prio="):])
		}
		return decimal(name[at+len(" pid="):], &e.TID)
	}
	return e.named(text)
}

// named reads "comm:pid [prio]".
func (e *Event) named(text []byte) bool {
	end := lastIndex(text, " [")
	if end < 0 {
		return false
	}
	at := bytes.LastIndexByte(text[:end], ':')
	if at < 0 {
		return false
	}
	e.Comm, e.Prio = text[:at], priority(text[end+len(" ["):])
	return decimal(text[at+1:end], &e.TID)
}

// cloneThread is CLONE_THREAD.
const cloneThread = 0x10000

// newTask reads "pid=2 comm=a clone_flags=3d0f00 oom_score_adj=0"; the flags
// are hexadecimal.
func (e *Event) newTask(text []byte) bool {
	at := lastIndex(text, " clone_flags=")
	rest, ok := bytes.CutPrefix(text, []byte("pid="))
	if at < 0 || !ok || !decimal(rest, &e.TID) {
		return false
	}
	var flags uint64
	for _, c := range bytes.TrimPrefix(text[at+len(" clone_flags="):], []byte("0x")) {
		switch {
		case c >= '0' && c <= '9':
			flags = flags<<4 | uint64(c-'0')
		case c >= 'a' && c <= 'f':
			flags = flags<<4 | uint64(c-'a'+10)
		default:
			e.Thread = flags&cloneThread != 0
			return true
		}
	}
	e.Thread = flags&cloneThread != 0
	return true
}

// last reads the number after the last occurrence of key that stands before
// the last occurrence of limit, "" for none.
func (e *Event) last(text []byte, key string, to *int32, limit string) bool {
	if limit != "" {
		at := lastIndex(text, limit)
		if at < 0 {
			return false
		}
		text = text[:at]
	}
	at := lastIndex(text, key)
	return at >= 0 && decimal(text[at+len(key):], to)
}

// lastIndex is bytes.LastIndex for keys whose last two bytes are rare.
func lastIndex(b []byte, key string) int {
	k := len(key)
	last, before := key[k-1], key[k-2]
	for i := len(b); i >= k; i-- {
		if b[i-1] == last && b[i-2] == before && string(b[i-k:i]) == key {
			return i - k
		}
	}
	return -1
}

// maxTID is PID_MAX_LIMIT.
const maxTID = 4 << 20

// decimal reads the digits at the beginning of b.
func decimal(b []byte, to *int32) bool {
	v, n := int32(0), 0
	for n < len(b) && b[n] >= '0' && b[n] <= '9' {
		if v = v*10 + int32(b[n]-'0'); v > maxTID {
			return false
		}
		n++
	}
	*to = v
	return n > 0
}
