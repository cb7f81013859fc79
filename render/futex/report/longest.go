package report

import (
	"cmp"

	"ustack/tracefs"
	"ustack/tracefs/sorting"
)

// longest keeps the longest of things, of equal ones the first, and gives the others
// to drop.
type longest[T any] struct {
	most int
	drop func(*T)
	list []*sized[T]
	free []*sized[T]
	// shortest is how long a thing must be that has come since the list was cut.
	shortest tracefs.Time
	seen     int64
}

// sized is a thing with its length and its place in the order of all.
type sized[T any] struct {
	length tracefs.Time
	number int64
	thing  T
}

// add adds a thing, which is copied if it is kept.
func (l *longest[T]) add(thing *T, length tracefs.Time) {
	if l.seen++; length <= l.shortest && len(l.list) >= l.most {
		l.drop(thing)
		return
	}
	x := new(sized[T])
	if n := len(l.free) - 1; n >= 0 {
		x, l.free = l.free[n], l.free[:n]
	}
	*x = sized[T]{length, l.seen, *thing}
	l.list = append(l.list, x)
	if len(l.list) > 2*l.most {
		l.cut()
	}
}

// each calls f for the kept ones, the longest first.
func (l *longest[T]) each(f func(*T)) {
	l.cut()
	for _, x := range l.list {
		f(&x.thing)
	}
}

func (l *longest[T]) cut() {
	sorting.Func(l.list, func(x, y *sized[T]) int {
		return cmp.Or(cmp.Compare(y.length, x.length), cmp.Compare(x.number, y.number))
	})
	if len(l.list) <= l.most {
		return
	}
	for _, x := range l.list[l.most:] {
		l.drop(&x.thing)
		l.free = append(l.free, x)
	}
	l.list = l.list[:l.most]
	if l.most > 0 {
		l.shortest = l.list[l.most-1].length
	}
}
