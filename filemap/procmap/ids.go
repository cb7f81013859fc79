package procmap

import (
	"sync"

	"ustack/filemap/elfid"
)

// FileID tells the files of one machine apart while they exist: the inode
// number of a deleted file is soon another file's.
type FileID struct {
	Dev   Dev
	Inode uint64
}

// A Guard is told of the files whose build IDs are remembered and says when
// that is over (filemap/watch is one).
type Guard interface {
	// Watch reports whether, from now on, Drain will call IDs.Forget when the
	// file that a process has mapped is replaced, deleted or written.
	Watch(pid int, m *Mapping) bool
	// Drain handles all that has happened to watched files until now.
	Drain()
}

// IDs remembers the build IDs of files, so that each is asked for once per
// device, inode and generation, however often it is mapped. An answer holds
// for a round (see NextRound), that of a guarded file until the guard says
// otherwise. IDs may be shared by Readers and goroutines.
type IDs struct {
	guard Guard

	mu    sync.Mutex
	known map[FileID]answer
	round uint32
	// forgets counts calls of Forget, so that one between a question and its
	// answer is not missed.
	forgets uint64
	// base is the generation of a file not seen before, above all others
	// whenever something was dropped.
	base, highest uint32
	asked         int64
}

// answer is what asking for a build ID gave.
type answer struct {
	name       string
	id         elfid.ID
	generation uint32
	round      uint32
	guarded    bool
	stale      bool
}

// question is a build ID being asked for.
type question struct {
	guarded bool
	forgets uint64
}

// maxFiles bounds the files remembered.
const maxFiles = 1 << 16

// NewIDs returns an empty memory. Without a guard (nil) all is asked again
// each round.
func NewIDs(guard Guard) *IDs {
	return &IDs{guard: guard, known: make(map[FileID]answer)}
}

// SetGuard sets the guard, before the first use.
func (c *IDs) SetGuard(g Guard) { c.guard = g }

// NextRound ends what was learned of files that no guard watches: their inode
// numbers may have gone to other files since.
func (c *IDs) NextRound() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.round++
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

// Asked is the number of times a build ID was asked for.
func (c *IDs) Asked() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.asked
}

// drain lets the guard handle what has happened.
func (c *IDs) drain() {
	if c != nil && c.guard != nil {
		c.guard.Drain()
	}
}

// forgotten is the number of calls of Forget. Who takes answers, drains, and
// finds it unchanged, knows that they hold for what he had seen before.
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
	if !ok || a.stale || a.name != m.Name || !a.guarded && a.round != c.round {
		return false
	}
	m.BuildID, m.Generation = a.id, a.generation
	return true
}

// ask begins a question. The guard watches before the answer comes: a file
// cannot lose its number while it is mapped, and what happens later is seen.
func (c *IDs) ask(pid int, m *Mapping) question {
	c.mu.Lock()
	c.asked++
	q := question{forgets: c.forgets}
	c.mu.Unlock()
	q.guarded = c.guard != nil && c.guard.Watch(pid, m)
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
	c.known[file] = answer{
		name: m.Name, id: m.BuildID, generation: m.Generation, round: c.round,
		guarded: q.guarded && q.forgets == c.forgets,
	}
}
