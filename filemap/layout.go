package filemap

import "sort"

// Layout is what a process had mapped at one time, in order of address. It is
// never changed.
type Layout []Area

// Area is a mapping of a Layout.
type Area struct {
	// Start and End are addresses; End is the first one after.
	Start, End uint64
	// Offset is where in the file Start is.
	Offset uint64
	// File is the program or library that is mapped privately, nil for all
	// else.
	File *File
	// Anonymous: private memory without a file.
	Anonymous bool
	// Code: it is code of the File.
	Code bool
}

// At returns the area that an address lies in, nil if there is none.
func (l Layout) At(addr uint64) *Area {
	if a := l.before(addr); a != nil && addr < a.End {
		return a
	}
	return nil
}

// Owner returns the last area of a program or library that begins at an address or
// before: an address in the data of any is in the data of that one. It is nil if the
// address is in no area.
func (l Layout) Owner(addr uint64) *Area {
	if l.At(addr) == nil {
		return nil
	}
	for i := l.index(addr); i >= 0; i-- {
		if l[i].File != nil {
			return &l[i]
		}
	}
	return nil
}

// maxBetween bounds the areas between a program's file and an address in its
// .bss, which are one or two.
const maxBetween = 64

// Around returns the part of a layout that decides whether an address is in the
// data of a program or library: all areas of its Owner, and the memory without a
// file from there to the address. It is nil if the address cannot be in such data.
func (l Layout) Around(addr uint64) Layout {
	last := l.index(addr)
	near, at := l.Owner(addr), l.At(addr)
	if near == nil || at.File == nil && !at.Anonymous {
		return nil
	}
	var part Layout
	between := 0
	for i := range l {
		switch a := &l[i]; {
		case a.File == near.File:
			part = append(part, *a)
		case a.Start > near.Start && i <= last && a.Anonymous:
			if between++; between > maxBetween {
				return nil
			}
			part = append(part, *a)
		}
	}
	return part
}

func (l Layout) before(addr uint64) *Area {
	if i := l.index(addr); i >= 0 {
		return &l[i]
	}
	return nil
}

// index returns the index of the last area that begins at or before an address,
// -1 if there is none.
func (l Layout) index(addr uint64) int {
	return sort.Search(len(l), func(i int) bool { return l[i].Start > addr }) - 1
}
