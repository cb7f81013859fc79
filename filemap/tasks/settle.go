package tasks

import (
	"errors"
	"slices"
	"time"

	"ustack/filemap/procmap"
	"ustack/tracefs"
)

// change is a process whose mappings change: the times of the first and the last
// event that say so, and what was read after that.
type change struct {
	first, last tracefs.Time
	touched     touched
	read        *procmap.Process // what was read last
	stale       bool             // there was an event since
	gone        bool
}

// maxChanges bounds the processes that are to be read.
const maxChanges = 1 << 12

// change notes that a process maps code at a time, by the entry to a system
// call, or executes a program, if there is none. Earlier readings are of no use.
func (t *Tasks) change(pid int, at tracefs.Time, body []byte) {
	c := t.changing[pid]
	if c == nil {
		if len(t.changing) >= maxChanges {
			t.unknown(pid, at)
			return
		}
		c = &change{first: at}
		t.changing[pid] = c
	}
	if body != nil {
		c.touched.add(body)
	}
	c.last, c.stale = max(at, c.last), true
}

// giveUp ends the history of a process that has changed and can no longer be read.
func (t *Tasks) giveUp(pid int) {
	if c := t.changing[pid]; c != nil {
		t.unknown(pid, c.first)
		delete(t.changing, pid)
	}
}

// unknown notes that a process is unknown from a time on, until it is read
// again.
func (t *Tasks) unknown(pid int, from tracefs.Time) {
	t.spaces.ReplacePart(&procmap.Process{PID: pid}, from)
}

// maxReads is how often processes are read that do not hold still.
const maxReads = 4

// Settle reads the processes that have changed. drain is called to Record what
// has happened meanwhile, until they hold still.
func (t *Tasks) Settle(drain func() error) error {
	err := drain()
	for n := 0; n < maxReads && err == nil && t.read(); n++ {
		err = drain()
	}
	t.apply()
	return err
}

// read reads the processes that have changed since they were read, and reports
// whether there were any.
func (t *Tasks) read() bool {
	t.wait()
	t.mu.Lock()
	defer t.mu.Unlock()
	some := false
	for pid, c := range t.changing {
		if !c.stale || c.gone || t.executing[pid] {
			continue
		}
		var p procmap.Process
		switch err := t.reader.Process(pid, &p); {
		case err == nil:
			c.read, c.stale, some = &p, false, true
		case errors.Is(err, procmap.ErrGone), errors.Is(err, procmap.ErrNoMemory):
			c.gone = true
		}
	}
	return some
}

// soon is how long a system call that maps a file mostly takes: the event marks its
// beginning.
const soon = 200 * time.Microsecond

// wait lets the system calls that were begun end.
func (t *Tasks) wait() {
	t.mu.Lock()
	n := len(t.changing)
	t.mu.Unlock()
	if n > 0 {
		time.Sleep(soon)
	}
}

// apply notes what was read, as of the last event before the reading. Between the
// first event and the last, only what was there before and after, and not mapped
// anew, is known to have been there all the time. If a process is gone, or keeps
// changing, or is executing a program, all is unknown from the first event on.
func (t *Tasks) apply() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for pid, c := range t.changing {
		delete(t.changing, pid)
		switch {
		case c.stale || c.gone:
			t.unknown(pid, c.first)
		default:
			t.note(c)
		}
	}
}

// note notes what was read.
func (t *Tasks) note(c *change) {
	if c.first < c.last {
		t.spaces.ReplacePart(t.common(c), c.first)
	}
	t.spaces.ReplaceAfter(c.read, c.last, c.first)
}

// common returns what a process had mapped before a change and after it, and
// has not mapped anew.
func (t *Tasks) common(c *change) *procmap.Process {
	p := *c.read
	v := t.spaces.Space(p.PID).At(c.first)
	p.Mappings = slices.DeleteFunc(slices.Clone(p.Mappings), func(m procmap.Mapping) bool {
		if v == nil || c.touched.may(&m) {
			return true
		}
		was := v.Find(m.Start)
		return was == nil || was.Start != m.Start || was.End != m.End || was.Offset != m.Offset ||
			was.File.Name != m.Name || was.File.Inode != m.Inode || was.File.Dev != m.Dev || was.File.Generation != m.Generation
	})
	return &p
}
