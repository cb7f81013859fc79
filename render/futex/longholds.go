package futex

import "container/heap"

// longestHolds are the longest holds, the shortest of them first.
type longestHolds []*hold

func (l longestHolds) Len() int           { return len(l) }
func (l longestHolds) Less(i, k int) bool { return l[i].low() < l[k].low() }
func (l longestHolds) Swap(i, k int)      { l[i], l[k] = l[k], l[i] }

// Push implements heap.Interface.
func (l *longestHolds) Push(x any) { *l = append(*l, x.(*hold)) }

// Pop implements heap.Interface.
func (l *longestHolds) Pop() any {
	n := len(*l) - 1
	x := (*l)[n]
	*l = (*l)[:n]
	return x
}

// add keeps a hold if it is one of the longest.
func (l *longestHolds) add(h *hold) {
	switch {
	case len(*l) < maxLongest:
		h.kept = true
		heap.Push(l, h)
	case h.low() > (*l)[0].low():
		h.kept = true
		(*l)[0] = h
		heap.Fix(l, 0)
	}
}
