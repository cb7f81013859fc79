package futex

import "math/rand/v2"

// first moves the n elements that come first in an order to the front of a list,
// in any order, in a time that grows with the length of the list.
func first[T any](list []T, n int, before func(x, y *T) bool) {
	for from, to := 0, len(list); to-from > 1 && n > from && n < to; {
		at := from + split(list[from:to], before)
		if n <= at {
			to = at
		} else {
			from = at + 1
		}
	}
}

// split moves what comes before some element of a list in front of it, and returns
// where the element is then.
func split[T any](list []T, before func(x, y *T) bool) (n int) {
	last := len(list) - 1
	some := rand.IntN(len(list)) // no list can be made for which this is the worst
	list[some], list[last] = list[last], list[some]
	for i := range list[:last] {
		if before(&list[i], &list[last]) {
			list[i], list[n] = list[n], list[i]
			n++
		}
	}
	list[n], list[last] = list[last], list[n]
	return n
}
