package space

import (
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"ustack/tracefs"
)

// The mappings of programs must not cost us any amount of memory. The size of the
// history is counted from time to time; if it is too large, the past of the
// largest spaces is forgotten, then their present.

// MaxBytes is how much memory the history of all spaces may take.
const MaxBytes = 64 << 20

const (
	nodeBytes    = int64(unsafe.Sizeof(node{}))
	versionBytes = int64(unsafe.Sizeof(Version{}))
	fileBytes    = int64(unsafe.Sizeof(File{})) + 64 // with its place in the map
)

// budget keeps count of what the history takes.
type budget struct {
	limit int64
	// made is about how many bytes have been made since the last census.
	made   atomic.Int64
	mu     sync.Mutex // held during a census
	number uint32     // of the census

	past, present atomic.Int64
}

// Forgotten is what was forgotten because there was too much of it.
type Forgotten struct {
	// Changes are changes of the past, Processes the processes of which not
	// even the present is known, until they execute another program.
	Changes, Processes int64
}

// Forgotten returns what was forgotten until now to save memory.
func (s *Spaces) Forgotten() Forgotten {
	return Forgotten{Changes: s.budget.past.Load(), Processes: s.budget.present.Load()}
}

// spend notes that a space was made of another one, and counts all if that may be
// too much.
func (s *Spaces) spend(old, next *Space) {
	before, after := old.newest().Len(), next.newest().Len()
	path := int64(2 * bits.Len(uint(after)))
	grown := int64(max(after-before, before-after))
	b := &s.budget
	if b.made.Add((path+2*grown)*nodeBytes+versionBytes) > b.limit/4 {
		s.census()
	}
}

// newest returns the mappings of the last version.
func (s *Space) newest() Mappings {
	if s == nil || len(s.versions) == 0 {
		return Mappings{}
	}
	return s.versions[len(s.versions)-1].Mappings
}

// census counts, and forgets the excess. It does nothing if another one is under
// way.
func (s *Spaces) census() {
	b := &s.budget
	if !b.mu.TryLock() {
		return
	}
	defer b.mu.Unlock()
	b.made.Store(0)
	if _, sum := s.count(nil); sum <= b.limit {
		return
	}
	for _, less := range []func(*Space, *budget) *Space{(*Space).withoutPast, (*Space).withoutAll, nil} {
		used := make(map[*File]bool)
		list, sum := s.count(used)
		s.files.sweep(used)
		if sum <= b.limit || less == nil {
			return
		}
		s.forget(list, sum, less)
	}
}

// share is what a space takes that no other one counted before does: bytes, then
// the PID in its last pidBits. So shares are in order of size.
type share int

const pidBits = 22 // PID_MAX_LIMIT

func (sh share) pid() int     { return int(sh & (1<<pidBits - 1)) }
func (sh share) bytes() int64 { return int64(sh >> pidBits) }

// sweepFiles forgets the files that nothing refers to any more.
func sweepFiles(s *Spaces) {
	s.budget.mu.Lock()
	defer s.budget.mu.Unlock()
	used := make(map[*File]bool)
	s.count(used)
	s.files.sweep(used)
}

// count sums the size of all spaces, and lists them by size, the largest last. With
// used, which gets the files that they have, files count for the spaces.
func (s *Spaces) count(used map[*File]bool) (list []int, sum int64) {
	s.budget.number++
	c := counter{census: s.budget.number, files: used}
	s.Snapshot().Each(func(sp *Space) bool {
		n := removalBytes * int64(len(sp.gone))
		sp.chain(func(link *Space, _ int) bool {
			for i := range link.versions {
				n += versionBytes + link.versions[i].Mappings.root.count(&c)
			}
			return true
		})
		list, sum = append(list, int(n)<<pidBits|sp.PID), sum+n
		return true
	})
	slices.Sort(list)
	if used == nil {
		sum += s.files.size()
	}
	return list, sum
}

// counter is a census that is going on.
type counter struct {
	census uint32
	files  map[*File]bool // that were counted, nil if files do not count
}

// count returns the size of the nodes that were not counted before.
func (n *node) count(c *counter) int64 {
	if n == nil || n.census == c.census {
		return 0
	}
	n.census = c.census
	bytes := nodeBytes
	if c.files != nil && !c.files[n.File] {
		c.files[n.File] = true
		bytes += fileBytes + int64(len(n.File.Name))
	}
	return bytes + n.left.count(c) + n.right.count(c)
}

// forget forgets what less leaves out, of the spaces that take most, until there
// is a quarter of room again.
func (s *Spaces) forget(list []int, sum int64, less func(sp *Space, b *budget) *Space) {
	for _, sh := range slices.Backward(list) {
		sh := share(sh)
		if sum <= s.budget.limit*3/4 {
			return
		}
		sum -= sh.bytes()
		in := s.shard(sh.pid())
		in.mu.Lock()
		if sp := in.load()[sh.pid()]; sp != nil {
			if next := less(sp, &s.budget); next != sp {
				in.replace(in.load(), sh.pid(), next)
			}
		}
		in.mu.Unlock()
	}
}

// withoutPast returns the space with its present only.
func (s *Space) withoutPast(b *budget) *Space {
	past := s.total() - 1
	if past <= 0 {
		if len(s.gone) > 1 {
			return removing(s, s, s.gone.one())
		}
		return s
	}
	b.past.Add(int64(past))
	last := s.versions[len(s.versions)-1]
	return &Space{PID: s.PID, versions: []Version{last}, changed: s.changed, loads: s.loads.since(last.From), forked: s.ForkedOf(last.From), first: programOf(s, last.From), gone: s.gone.one()}
}

// withoutAll returns the space without mappings, now and as long as it is the
// same program.
func (s *Space) withoutAll(b *budget) *Space {
	next := s.withoutPast(b)
	if len(next.versions) == 0 || next.versions[0].Mappings.Len() == 0 {
		return next
	}
	b.present.Add(1)
	v := next.versions[0]
	v.Mappings, v.Partial, v.Forgotten = Mappings{}, true, true
	return &Space{PID: s.PID, versions: []Version{v}, changed: s.changed, loads: next.loads, forked: next.forked, first: next.first, gone: next.gone}
}

// total returns how many versions there are.
func (s *Space) total() (n int) {
	s.chain(func(link *Space, newer int) bool {
		n = newer + len(link.versions)
		return true
	})
	return n
}

// forgotten reports whether the version of a time was dropped to save memory.
func (s *Space) forgotten(t tracefs.Time) bool {
	i := s.at(t)
	return i >= 0 && s.versions[i].Forgotten
}
