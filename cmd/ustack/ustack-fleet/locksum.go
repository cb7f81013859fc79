package main

import (
	"maps"
	"slices"
)

// lockSum sums up a lock.
type lockSum struct {
	key            uint64
	total          [2]float64 // of all, or for diff of A and of B
	waits          int64
	times          []int64 // empty if there are lengths
	lengths        map[int64]int64
	devices        [2]numbers
	kind, name, id *string
	offset         *int64
	ran            *bool
	function       *string // of the site
	// paths are the devices that report each path of the site's file.
	paths map[string]*numbers
}

// add adds waits of a device.
func (l *lockSum) add(row *sumRow, device int32, side int) {
	l.total[side] += float64(row.NS) * row.Weight
	l.waits += row.Waits
	l.devices[side].add(device)
	least(&l.kind, row.LockKind)
	least(&l.name, row.LockName)
	if row.LockName == nil {
		l.addPath(row.SitePath, device)
		least(&l.id, row.SiteBuildID)
		least(&l.offset, row.SiteOffset)
	}
	if row.SiteRan != nil && (l.ran == nil || *l.ran) {
		l.ran = row.SiteRan
	}
}

// addPath notes that a device reports a path.
func (l *lockSum) addPath(path *string, device int32) {
	if path == nil {
		return
	}
	if l.paths == nil {
		l.paths = make(map[string]*numbers)
	}
	if l.paths[*path] == nil {
		l.paths[*path] = new(numbers)
	}
	l.paths[*path].add(device)
}

// path returns the path that most devices report, the least of several: a report that gives a known
// build ID a path of its own does not rename the file for others.
func (l *lockSum) path() *string {
	var first *string
	most := int64(0)
	for _, path := range slices.Sorted(maps.Keys(l.paths)) {
		if n := l.paths[path].count(); n > most {
			first, most = &path, n
		}
	}
	return first
}

// where are the columns that say which lock it is.
func (l *lockSum) where() []any {
	if l.name != nil { // threads may wait for it at several sites
		return []any{textOf(l.kind), *l.name, nil, nil, nil, nil}
	}
	return []any{textOf(l.kind), textOf(l.name), textOf(l.path()), textOf(l.id), numberOf(l.offset), textOf(l.function)}
}

func textOf(s *string) any {
	if s == nil {
		return nil
	}
	return *s
}

func numberOf(n *int64) any {
	if n == nil {
		return nil
	}
	return *n
}

// nameSites gives locks the functions of their sites, as far as they have been named.
func nameSites(dir string, locks []*lockSum) error {
	tables, err := functionTables(dir)
	if err != nil || len(tables) == 0 {
		return err
	}
	at := make(map[string]map[place][]*lockSum)
	for _, l := range locks {
		if l.name != nil || l.id == nil || l.offset == nil || l.ran == nil {
			continue
		}
		if at[*l.id] == nil {
			at[*l.id] = make(map[place][]*lockSum)
		}
		p := place{*l.offset, *l.ran}
		at[*l.id][p] = append(at[*l.id][p], l)
	}
	return eachRow(tables[len(tables)-1].dir, tableFunctions, func(f *functionRow) error {
		for _, l := range at[f.BuildID][place{f.Offset, f.Ran}] {
			l.function = f.Function
		}
		return nil
	})
}

// countOf returns how many waits there are of all durations.
func countOf(lengths map[int64]int64) (n int64) {
	for _, waits := range lengths {
		n += waits
	}
	return n
}

// p99 returns the smallest time that is not shorter than 99 of 100.
func (l *lockSum) p99() int64 {
	const of, all = 99, 100
	if l.lengths == nil {
		return l.times[(of*len(l.times)+all-1)/all-1]
	}
	n, below := countOf(l.lengths), int64(0)
	for _, ns := range slices.Sorted(maps.Keys(l.lengths)) {
		if below += l.lengths[ns]; all*below >= of*n {
			return ns
		}
	}
	return 0
}
