package space

import "iter"

// Mappings are mappings in order of address that do not overlap. They are never
// changed: what changes them returns others, which share all but a path of
// O(log n) nodes with them. The zero value has none.
//
// They are a weight-balanced tree with joins (Blelloch, Ferizovic and Sun, "Just
// Join for Parallel Ordered Sets", 2016).
type Mappings struct{ root *node }

type node struct {
	Mapping
	left, right *node
	size        int32
	// census is that in which the node was counted last.
	census uint32
}

func (n *node) len() int {
	if n == nil {
		return 0
	}
	return int(n.size)
}

// Len returns how many there are.
func (ms Mappings) Len() int { return ms.root.len() }

// Find returns the mapping that an address lies in, nil if there is none. It is
// not to be changed.
func (ms Mappings) Find(addr uint64) *Mapping {
	for n := ms.root; n != nil; {
		switch {
		case addr < n.Start:
			n = n.left
		case addr >= n.End:
			n = n.right
		default:
			return &n.Mapping
		}
	}
	return nil
}

// All returns the mappings in order of address. They are not to be changed.
func (ms Mappings) All() iter.Seq[*Mapping] {
	return func(yield func(*Mapping) bool) { ms.root.each(0, ^uint64(0), yield) }
}

// Between yields the mappings of which a part lies between two addresses.
func (ms Mappings) Between(start, end uint64) iter.Seq[*Mapping] {
	return func(yield func(*Mapping) bool) { ms.root.each(start, end, yield) }
}

func (n *node) each(start, end uint64, yield func(*Mapping) bool) bool {
	if n == nil {
		return true
	}
	if n.Start > start && !n.left.each(start, end, yield) {
		return false
	}
	if n.Start < end && n.End > start && !yield(&n.Mapping) {
		return false
	}
	return n.End >= end || n.right.each(start, end, yield)
}

// same reports whether mappings are the same ones.
func (ms Mappings) same(other Mappings) bool {
	if ms.root == other.root {
		return true
	}
	if ms.Len() != other.Len() {
		return false
	}
	for m := range ms.All() {
		if o := other.Find(m.Start); o == nil || *o != *m {
			return false
		}
	}
	return true
}

// put returns the mappings with one more, and whether it took the place of
// others.
func (ms Mappings) put(m Mapping) (out Mappings, clash bool) {
	left, right, clash := ms.root.around(m.Start, m.End)
	return Mappings{join(left, &m, right)}, clash
}

// cut returns the mappings without what lies between two addresses, and whether
// there was something.
func (ms Mappings) cut(start, end uint64) (out Mappings, clash bool) {
	for range ms.Between(start, end) {
		clash = true
		break
	}
	if !clash {
		return ms, false
	}
	left, right, _ := ms.root.around(start, end)
	return Mappings{join2(left, right)}, true
}

// around returns the trees of the mappings before and after a range of
// addresses. Mappings that reach into it are cut.
func (n *node) around(start, end uint64) (left, right *node, clash bool) {
	left, at, rest := n.split(start)
	if at != nil { // it begins before the range and reaches into it
		clash = true
		before := *at
		before.End = start
		left = join(left, &before, nil)
		if at.End > end {
			after := at.from(end)
			return left, join(nil, &after, rest), true
		}
	}
	middle, at, right := rest.split(end)
	if at != nil {
		after := at.from(end)
		right = join(nil, &after, right)
	}
	return left, right, clash || middle != nil || at != nil
}

// from returns the part of a mapping from an address on.
func (m *Mapping) from(addr uint64) Mapping {
	part := *m
	part.Start, part.Offset = addr, m.Offset+(addr-m.Start)
	return part
}

// split returns the trees of what ends at an address or before, and of what
// begins there or after, and the mapping that lies on both sides.
func (n *node) split(addr uint64) (left *node, at *Mapping, right *node) {
	switch {
	case n == nil:
		return nil, nil, nil
	case n.End <= addr:
		left, at, right = n.right.split(addr)
		return join(n.left, &n.Mapping, left), at, right
	case n.Start >= addr:
		left, at, right = n.left.split(addr)
		return left, at, join(right, &n.Mapping, n.right)
	}
	return n.left, &n.Mapping, n.right
}

// join returns the tree of a mapping and what lies to the left and right of it.
func join(left *node, m *Mapping, right *node) *node {
	switch {
	case heavy(left, right):
		return balance(left.left, &left.Mapping, join(left.right, m, right))
	case heavy(right, left):
		return balance(join(left, m, right.left), &right.Mapping, right.right)
	}
	return newNode(left, m, right)
}

// join2 is join without a mapping between.
func join2(left, right *node) *node {
	if left == nil {
		return right
	}
	rest, last := left.withoutLast()
	return join(rest, last, right)
}

func (n *node) withoutLast() (rest *node, last *Mapping) {
	if n.right == nil {
		return n.left, &n.Mapping
	}
	rest, last = n.right.withoutLast()
	return join(n.left, &n.Mapping, rest), last
}

// weight returns one more than the number of mappings; ratio is how much
// heavier one side may be than the other.
func (n *node) weight() int { return n.len() + 1 }

const ratio = 3

func heavy(n, than *node) bool { return n.len() > 1 && n.weight() > ratio*than.weight() }

// balance makes a node of which one side may be too heavy by little.
func balance(left *node, m *Mapping, right *node) *node {
	switch {
	case heavy(right, left):
		if in := right.left; in.weight() >= 2*right.right.weight() { // turn twice
			return newNode(newNode(left, m, in.left), &in.Mapping, newNode(in.right, &right.Mapping, right.right))
		}
		return newNode(newNode(left, m, right.left), &right.Mapping, right.right)
	case heavy(left, right):
		if in := left.right; in.weight() >= 2*left.left.weight() {
			return newNode(newNode(left.left, &left.Mapping, in.left), &in.Mapping, newNode(in.right, m, right))
		}
		return newNode(left.left, &left.Mapping, newNode(left.right, m, right))
	}
	return newNode(left, m, right)
}

func newNode(left *node, m *Mapping, right *node) *node {
	return &node{Mapping: *m, left: left, right: right, size: int32(left.len() + right.len() + 1)}
}

// build returns the tree of mappings that are in order and do not overlap.
func build(ms []Mapping) *node {
	if len(ms) == 0 {
		return nil
	}
	i := len(ms) / 2
	return newNode(build(ms[:i]), &ms[i], build(ms[i+1:]))
}
