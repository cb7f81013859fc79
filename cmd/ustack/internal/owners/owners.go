// Package owners reads the owners of the locks that threads wait for, in a live trace, from the
// memory of their processes: a lock that was got without waiting leaves nothing in a trace.
package owners

import (
	"time"

	"ustack/cmd/ustack/internal/live"
	"ustack/filemap/owner"
	"ustack/filemap/space"
	"ustack/render/futex"
	"ustack/tracefs"
)

// Owners reads the owners of locks for an analysis.
type Owners struct {
	processes *live.Processes
	reader    *owner.Reader
	next      time.Time
}

const (
	// Every is how often Now reads locks.
	Every = 50 * time.Millisecond
	// after is how long a wait must have lasted for that.
	after = tracefs.Time(time.Millisecond)
)

// New returns one for the processes of a trace.
func New(processes *live.Processes) *Owners {
	return &Owners{processes: processes, reader: owner.NewReader(processes.Reader(), processes.AllReader())}
}

// Now reads the locks, if it is time to. The trace goes on meanwhile: it shows
// whether the waiters went on waiting.
func (o *Owners) Now(a *futex.Analysis) {
	if now := time.Now(); now.After(o.next) {
		o.next = now.Add(Every)
		o.Read(a)
	}
}

// Read reads the locks of waits that have gone on for a while. One of which nothing can be said
// has no owner.
func (o *Owners) Read(a *futex.Analysis) {
	for _, w := range a.Waiting(space.Monotonic() - after) {
		pid, ok := o.processes.Process(w.TID)
		if !ok {
			continue
		}
		at := space.Monotonic()
		if held, err := o.reader.Read(int(pid), int(w.TID), w.Address); err == nil {
			a.Owned(w, int32(held.TID), o.reader.Comm(int(pid), held.TID), at)
		}
	}
}
