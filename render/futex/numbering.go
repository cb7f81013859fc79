package futex

// numbering gives locks numbers, from 0 on, for a log that is read when some of them have
// become parts of others. It does not keep those in memory: they may be many more than locks
// has at a time.
//
// Invariants:
//   - list has the lock of each number, or one of which it is a part; nil if none was given.
//   - A number whose lock may become a part of another one yet is in open.
type numbering struct {
	list   []*lock
	open   []int32
	looked int // how long open was when it was looked through

	locks *locks
}

// add gives a lock a number. It may be nil.
func (n *numbering) add(l *lock) int32 {
	number := int32(len(n.list))
	n.list = append(n.list, l)
	if l == nil {
		return number
	}
	if n.open = append(n.open, number); len(n.open) >= n.looked+max(n.looked/8, 1<<10) {
		n.lookThrough()
	}
	return number
}

// lookThrough replaces what has become a part of another lock.
func (n *numbering) lookThrough() {
	left := n.open[:0]
	for _, number := range n.open {
		l := n.list[number].find()
		if n.list[number] = l; !n.locks.folded(l) {
			left = append(left, number)
		}
	}
	n.open, n.looked = left, len(left)
}
