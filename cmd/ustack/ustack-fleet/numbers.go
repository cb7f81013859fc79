package main

import "slices"

// numbers are a set of numbers, in four bytes each. A number that was added last costs nothing.
type numbers struct {
	list []int32 // one can be there several times
}

// add adds a number.
func (s *numbers) add(n int32) {
	if k := len(s.list); k > 0 && s.list[k-1] == n {
		return
	}
	if len(s.list) == cap(s.list) {
		s.compact()
		s.list = slices.Grow(s.list, len(s.list)+1) // so that half of it at least is free
	}
	s.list = append(s.list, n)
}

// count returns how many there are.
func (s *numbers) count() int64 {
	s.compact()
	return int64(len(s.list))
}

func (s *numbers) compact() {
	slices.Sort(s.list)
	s.list = slices.Compact(s.list)
}
