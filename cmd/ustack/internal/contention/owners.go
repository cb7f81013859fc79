package contention

import (
	"time"

	"ustack/cmd/ustack/internal/live"
	"ustack/filemap/owner"
	"ustack/filemap/space"
	"ustack/render/futex"
	"ustack/tracefs"
)

// owners reads the owners of the locks that threads wait for.
type owners struct {
	processes *live.Processes
	reader    *owner.Reader
	next      time.Time
}

const (
	// ownersEvery is how often locks are read.
	ownersEvery = 50 * time.Millisecond
	// ownersAfter is how long a wait must have lasted for that.
	ownersAfter = tracefs.Time(time.Millisecond)
)

func newOwners(processes *live.Processes) *owners {
	return &owners{processes: processes, reader: owner.NewReader(processes.Reader())}
}

// now reads the locks, if it is time to. The trace goes on meanwhile: it shows
// whether the waiters went on waiting.
func (o *owners) now(a *futex.Analysis) {
	if now := time.Now(); now.After(o.next) {
		o.next = now.Add(ownersEvery)
		o.read(a, space.Monotonic()-ownersAfter)
	}
}

// read reads the locks of waits that have gone on since a time. One of which
// nothing can be said has no owner.
func (o *owners) read(a *futex.Analysis, since tracefs.Time) {
	for _, w := range a.Waiting(since) {
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
