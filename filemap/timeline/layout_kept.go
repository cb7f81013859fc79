package timeline

import (
	"sort"

	"ustack/filemap/procmap"
	"ustack/filemap/space"
	"ustack/tracefs"
)

// keptReading is what was passed to Keep last of a program.
type keptReading struct {
	began tracefs.Time
	list  []procmap.Mapping
}

// maxBeside bounds the mappings of memory without a file that follow a program or library.
// Its .bss is one or two.
const maxBeside = 64

// keep passes a reading on, unless it has been.
func (ls *Layouts) keep(pid int, r *reading, list []procmap.Mapping) {
	part := r.decides(list)
	if last, ok := ls.kept[pid]; ok && last.began == r.began && sameMappings(last.list, part) {
		return
	}
	if len(ls.kept) >= maxReadings {
		clear(ls.kept)
	}
	ls.kept[pid] = keptReading{r.began, part}
	ls.opt.Keep(pid, part, r.at)
}

func sameMappings(a, b []procmap.Mapping) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// decides returns the mappings of programs and libraries, and the memory without a file right
// after them: no other address is in their data.
func (r *reading) decides(list []procmap.Mapping) (part []procmap.Mapping) {
	end, beside := uint64(0), 0
	for i := range r.layout {
		switch a := &r.layout[i]; {
		case a.File != nil:
			beside = 0
		case a.Anonymous && a.Start == end && beside < maxBeside:
			beside++
		default:
			continue
		}
		part, end = append(part, list[i]), list[i].End
	}
	return part
}

// maxTried bounds the readings after a time, and before it, that are tried for an address.
const maxTried = 64

// ofSaved returns the reading of the program that a process was at t in which an address is
// in the data of a program or library: the first one since t, else the last one before.
func (ls *Layouts) ofSaved(pid int, sp *space.Space, t tracefs.Time, addr uint64) *reading {
	list := ls.allSaved(pid)
	since := sort.Search(len(list), func(i int) bool { return list[i].at >= t })
	fits := func(i int) bool { return list[i].of(sp, t) != nil && list[i].layout.Owner(addr) != nil }
	for i := since; i < min(since+maxTried, len(list)); i++ {
		if fits(i) {
			return list[i]
		}
	}
	for i := since - 1; i >= max(since-maxTried, 0); i-- {
		if fits(i) {
			return list[i]
		}
	}
	return nil
}

// allSaved returns the saved readings of a process, in order of time, as live saves them: one
// that is not is left out.
func (ls *Layouts) allSaved(pid int) []*reading {
	if list, ok := ls.saved[pid]; ok {
		return list
	}
	var list []*reading
	for _, s := range ls.opt.Saved(pid) {
		r := ls.made(pid, s.Mappings, s.At, s.At)
		if r != nil && (len(list) == 0 || r.at >= list[len(list)-1].at) {
			list = append(list, r)
		}
	}
	if list != nil {
		ls.saved[pid] = list
	}
	return list
}
