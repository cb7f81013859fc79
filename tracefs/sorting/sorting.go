// Package sorting sorts slices of structs that are sorted seldom, with code that all element
// types share.
//
// slices.SortFunc is compiled anew for each element type, 6 to 20 KB of code and tables each.
// That pays where sorting takes time: symbol tables, side band records. A report sorts each of
// its lists once.
package sorting

import "sort"

// Func sorts list as slices.SortFunc does: compare returns a negative number where a sorts
// before b, and must be a strict weak ordering. Equal elements may change places, the same way
// in each run.
func Func[T any](list []T, compare func(a, b T) int) {
	sort.Sort(byIndex{
		n:    len(list),
		less: func(i, j int) bool { return compare(list[i], list[j]) < 0 },
		swap: func(i, j int) { list[i], list[j] = list[j], list[i] },
	})
}

// StableFunc is Func, but equal elements keep their places.
func StableFunc[T any](list []T, compare func(a, b T) int) {
	sort.Stable(byIndex{
		n:    len(list),
		less: func(i, j int) bool { return compare(list[i], list[j]) < 0 },
		swap: func(i, j int) { list[i], list[j] = list[j], list[i] },
	})
}

// byIndex is a list that is known by its indexes only, so that its code needs no element type.
type byIndex struct {
	n    int
	less func(i, j int) bool
	swap func(i, j int)
}

func (b byIndex) Len() int           { return b.n }
func (b byIndex) Less(i, j int) bool { return b.less(i, j) }
func (b byIndex) Swap(i, j int)      { b.swap(i, j) }
