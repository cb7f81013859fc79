package procmap

import (
	"errors"
	"sync"
	"time"

	"ustack/filemap/bounded"
	"ustack/filemap/elfid"
)

// FileID identifies a file of one machine while it exists: the inode
// number of a deleted file is soon another file's.
type FileID struct {
	Dev   Dev
	Inode uint64
}

// A Guard gets the files whose build IDs are remembered and says when they no
// longer hold (filemap/watch is one).
type Guard interface {
	// Watch reports whether, from now on, Drain will call IDs.Forget when the
	// file that a process has mapped is replaced, deleted or written.
	Watch(pid int, m *Mapping) bool
	// Drain handles all that has happened to watched files until now.
	Drain()
}

// IDs remembers the build IDs of files, so that each is read once per
// device, inode and generation, however often it is mapped. An answer holds for
// a round (see nextRound), for a guarded file until the guard reports a change.
// IDs may be shared by Readers and goroutines.
type IDs struct {
	guard Guard
	// reads open and read files, guarding calls the guard, which looks at the
	// directories of files: both can take long.
	reads, guarding *bounded.Calls

	mu sync.Mutex
	// slow are devices whose files could not be read in time, and when.
	slow map[Dev]time.Time
	// alone: the guard has not come back from a call. It is not called again.
	alone bool
	known map[FileID]answer
	round uint32
	// forgets counts calls of Forget, so that one between a question and its
	// answer is not missed.
	forgets uint64
	// base is the generation of a file not seen before, above all others
	// whenever something was dropped.
	base, highest uint32
	asked         int64
	pins          pins // of the answers of this round that are not guarded
}

// answer is what asking for a build ID gave.
type answer struct {
	name       string
	id         elfid.ID
	generation uint32
	round      uint32
	guarded    bool
	stale      bool
	pin        pin // if it is not guarded
}

// question is a build ID being asked for.
type question struct {
	guarded bool
	forgets uint64
	pin     pin // keeps the file from being another one
}

// Bounds on the answers that are kept.
const (
	maxFiles = 1 << 16
	maxSlow  = 1 << 10
	// slowAge is how long no file of a device is read after one took too long.
	slowAge = time.Minute
)

// NewIDs returns an empty memory. Without a guard (nil) all is asked again
// each round.
func NewIDs(guard Guard) *IDs {
	return &IDs{guard: guard, known: make(map[FileID]answer), reads: bounded.New(0), guarding: bounded.New(0)}
}

// SetGuard sets the guard, before the first use.
func (c *IDs) SetGuard(g Guard) { c.guard = g }

// nextRound ends what was learned of files that no guard watches: their inode
// numbers may have gone to other files since, and can from now on.
func (c *IDs) nextRound() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.round++
	c.pins.release()
}

// endRound ends a round, see pins. There may be no IDs.
func (c *IDs) endRound() {
	if c != nil {
		c.nextRound()
	}
}

// Forget starts a new generation of a file: it is no longer what it was.
func (c *IDs) Forget(file FileID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forgets++
	if a, ok := c.known[file]; ok {
		a.stale = true
		c.known[file] = a
	}
}

// Asked returns the number of times a build ID was asked for.
func (c *IDs) Asked() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.asked
}

// drain lets the guard handle what has happened.
func (c *IDs) drain() {
	if c != nil && c.guard != nil {
		c.call(c.guard.Drain)
	}
}

// call calls the guard, and reports whether it came back in time. If it did not,
// it may be holding a lock for ever: what it has watched is forgotten, and it is
// not called again.
func (c *IDs) call(fn func()) bool {
	c.mu.Lock()
	alone := c.alone
	c.mu.Unlock()
	if alone || c.guarding.Do(fn) == nil {
		return !alone
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.alone = true
	c.forgets++
	for file, a := range c.known {
		a.guarded = false
		c.known[file] = a
	}
	return false
}

// Alone reports whether the guard is no longer called, not even to be closed,
// because a call of it did not come back.
func (c *IDs) Alone() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.alone
}

// Slow returns the number of devices a file of which could not be read in time:
// the files there have no build ID.
func (c *IDs) Slow() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.slow)
}

// readBounded reads a file, and reports whether that was done. Where it is not on a disk,
// a server may take any time to answer, and is not asked again for a while.
func (c *IDs) readBounded(f *mappedFile, disk bool) bool {
	if disk {
		return c.reads.Do(f.read) == nil
	}
	c.mu.Lock()
	since, slow := c.slow[f.m.Dev]
	c.mu.Unlock()
	if slow && time.Since(since) < slowAge {
		return false
	}
	err := c.reads.Do(f.read)
	if errors.Is(err, bounded.ErrSlow) {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.slow == nil || len(c.slow) >= maxSlow {
			c.slow = make(map[Dev]time.Time)
		}
		c.slow[f.m.Dev] = time.Now()
	}
	return err == nil
}

// forgotten returns the number of calls of Forget. If it is unchanged after
// answers were taken and the guard was drained, the answers hold for what was
// seen before.
func (c *IDs) forgotten() uint64 {
	if c == nil {
		return 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.forgets
}

// lookup gives a mapping the ID and generation of its file if they are known.
func (c *IDs) lookup(m *Mapping) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	a, ok := c.known[FileID{m.Dev, m.Inode}]
	// Another name can be another file that got the number.
	if !ok || a.stale || a.name != m.Name || !a.guarded && (a.round != c.round || !a.pin.same()) {
		return false
	}
	m.BuildID, m.Generation = a.id, a.generation
	return true
}

// ask begins a question. The guard, if it can watch the file, does so before the
// answer comes: a file cannot lose its number while it is mapped, and what
// happens later is seen.
func (c *IDs) ask(pid int, m *Mapping, watch bool) question {
	c.mu.Lock()
	c.asked++
	q := question{forgets: c.forgets, pin: pin{fd: -1}}
	c.mu.Unlock()
	if watch && c.guard != nil {
		of, watched := *m, new(bool) // the call may go on without us
		q.guarded = c.call(func() { *watched = c.guard.Watch(pid, &of) }) && *watched
	}
	return q
}

// answer notes the ID that a mapping now has, and sets its generation.
func (c *IDs) answer(q question, m *Mapping) {
	c.mu.Lock()
	defer c.mu.Unlock()
	file := FileID{m.Dev, m.Inode}
	old, ok := c.known[file]
	m.Generation = old.generation
	switch {
	case !ok:
		if len(c.known) >= maxFiles {
			clear(c.known)
			c.base = c.highest + 1
		}
		m.Generation = c.base
	case old.stale || old.id != m.BuildID:
		m.Generation++
	}
	c.highest = max(c.highest, m.Generation)
	a := answer{
		name: m.Name, id: m.BuildID, generation: m.Generation, round: c.round,
		guarded: q.guarded && q.forgets == c.forgets, pin: q.pin,
	}
	if a.guarded {
		q.pin.drop()
	} else if !c.pins.add(q.pin) {
		a.round-- // it is not for others
	}
	c.known[file] = a
}
