package futex

// A chain leads from a wait to its root: who owned the lock waited itself for another
// lock, whose owner perhaps waited too. The last owner is the root.

// link is an owner of a lock that waits for another one.
type link struct {
	// tid is the owner, 0 in chains of locks without their owners. cause is what it
	// waits for.
	tid, cause int32
	next       int32 // the chain from the owner of that on, 0 if that one is the root
}

// links numbers chains, from 1 on. 0 is a root that owns the lock itself.
//
// Invariants:
//   - The chain of number n is list[n-1], which is there once; next is a smaller number.
//   - No chain has more than maxDepth links, and there are no more than maxLinks chains.
type links struct {
	list    []link
	depths  []uint8
	numbers map[link]int32
}

const (
	maxLinks = 1 << 14
	maxDepth = 32
	// tooMany stands for chains beyond these bounds. Their roots are known all the same.
	tooMany = -1
)

// number returns the number of a chain.
func (ls *links) number(l link) int32 {
	if l.next == tooMany {
		return tooMany
	}
	if n, ok := ls.numbers[l]; ok {
		return n
	}
	depth := ls.depth(l.next) + 1
	if len(ls.list) >= maxLinks || depth > maxDepth {
		return tooMany
	}
	if ls.numbers == nil {
		ls.numbers = make(map[link]int32)
	}
	ls.list, ls.depths = append(ls.list, l), append(ls.depths, uint8(depth))
	n := int32(len(ls.list))
	ls.numbers[l] = n
	return n
}

// depth returns how many links a chain has.
func (ls *links) depth(n int32) int {
	if n <= 0 {
		return 0
	}
	return int(ls.depths[n-1])
}

// locks returns the number of the same chain without owners.
func (ls *links) locks(n int32) int32 {
	if n <= 0 {
		return n
	}
	l := ls.list[n-1]
	return ls.number(link{cause: l.cause, next: ls.locks(l.next)})
}

// each passes the links of a chain, from the lock that is waited for on.
func (ls *links) each(n int32, f func(l link)) {
	for n > 0 {
		f(ls.list[n-1])
		n = ls.list[n-1].next
	}
}

// ground is what the root of a wait rests on: that a futex is a lock that one thread owns
// at a time, that its owner owned it until its call, see wake.sureOwner, and so on in the
// chain.
type ground struct {
	lock *lock
	call *wake
	next *ground
}

// hold reports whether all of them are so, as far as is known by now.
func (g *ground) hold(a *activity) bool {
	for ; g != nil; g = g.next {
		if !g.lock.find().kind().exclusive() || !g.call.sureOwner(a) {
			return false
		}
	}
	return true
}

// chainKey is a root of a lock at the end of a chain of locks.
type chainKey struct {
	locks, tid, cause, stack int32
}
