package live

import (
	"sync"

	"ustack/filemap/procmap"
	"ustack/filemap/space"
	"ustack/tracefs"
)

// early reads processes when their first events are read. Deferred stacks come long
// after the event that waits for them; when both are attributed, the process may
// have ended. A nil one reads nothing.
type early struct {
	fl     *following
	reader *procmap.Reader // of all mappings

	mu    sync.Mutex
	byTID map[int]int // process
	byPID map[int]*earlyReading
}

// earlyReading is what a process had mapped at a time.
type earlyReading struct {
	mappings []procmap.Mapping
	at       tracefs.Time
	space    *space.Space // as it was known then
}

const (
	// maxEarly bounds the processes that are kept, and a quarter of the threads.
	maxEarly = 1 << 10
	// earlyAgain is how soon a process is read again whose code has changed.
	earlyAgain = tracefs.Time(50e6)
)

// newEarly returns an early that reads with a follower.
func newEarly(proc string, fl *following) (*early, error) {
	reader, err := procmap.NewReader(procmap.Options{Proc: proc, Stat: true, VDSO: true})
	if err != nil {
		return nil, err
	}
	return &early{fl: fl, reader: reader, byTID: make(map[int]int), byPID: make(map[int]*earlyReading)}, nil
}

// visit reads the processes of a batch that are new, or have changed. All that
// happened before is known.
func (e *early) visit(b *tracefs.Batch) {
	if e == nil {
		return
	}
	last := int32(tracefs.NoTID)
	for i := range b.Records {
		r := &b.Records[i]
		if r.Kind != tracefs.KindEvent || r.TID <= 0 || r.TID == last || !b.Timed(r) {
			continue
		}
		last = r.TID
		if pid, late, ok := e.fl.threads.PID(int(r.TID), b.Time(r)+stampSlack); ok && !late {
			e.read(int(r.TID), pid)
		}
	}
}

// read reads a process, if it is time to.
func (e *early) read(tid, pid int) {
	e.mu.Lock()
	if len(e.byTID) >= 4*maxEarly {
		clear(e.byTID)
	}
	e.byTID[tid] = pid
	known := e.byPID[pid]
	e.mu.Unlock()
	sp := e.fl.spaces.Space(pid)
	if known != nil && (known.space == sp || space.Monotonic()-known.at < earlyAgain) {
		return
	}
	var p procmap.Process
	if e.reader.Process(pid, &p) != nil || e.fl.settle() != nil {
		return
	}
	now := space.Monotonic()
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.byPID) >= maxEarly {
		clear(e.byPID)
	}
	e.byPID[pid] = &earlyReading{mappings: p.Mappings, at: now, space: e.fl.spaces.Space(pid)}
}

// process returns the process that a thread was of when its last event was
// read.
func (e *early) process(tid int) (pid int, ok bool) {
	if e == nil {
		return 0, false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	pid, ok = e.byTID[tid]
	return pid, ok
}

// layout returns what a process had mapped, and when.
func (e *early) layout(pid int) (list []procmap.Mapping, at tracefs.Time, ok bool) {
	if e == nil {
		return nil, 0, false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	r := e.byPID[pid]
	if r == nil {
		return nil, 0, false
	}
	return r.mappings, r.at, true
}

// at returns what a process had at an address.
func (e *early) at(pid int, addr uint64) (m procmap.Mapping, ok bool) {
	list, _, _ := e.layout(pid)
	for i := range list {
		if list[i].Contains(addr) {
			return list[i], true
		}
	}
	return m, false
}
