package evidence

import (
	"slices"

	"ustack/filemap/procmap"
)

// place is where a program's vDSO is mapped: exec puts it at a random place,
// and fork keeps it.
type place struct{ start, end uint64 }

func (v *version) vdso() (place, bool) {
	at := slices.IndexFunc(v.maps, func(m mapping) bool { return m.kind == procmap.VDSO })
	if at < 0 {
		return place{}, false
	}
	return place{v.maps[at].start, v.maps[at].end}, true
}

// order sorts versions by time and finds lineages: processes that have the
// vDSO at one place are the same program. Where two programs have it at one
// place, places are not random, and each process is by itself.
func (d *Dump) order() {
	type program struct {
		place
		exe string
		pid int32 // 0 if the place tells
	}
	fixed := d.fixedPlaces()
	known := map[program]int{}
	next := 0
	started := false
	for pid, versions := range d.spaces {
		slices.SortStableFunc(versions, func(a, b version) int { return int(min(max(a.at-b.at, -1), 1)) })
		for i := range versions {
			v := &versions[i]
			if !started || v.at < d.first {
				d.first = v.at
			}
			if !started || v.at > d.last {
				d.last = v.at
			}
			started = true
			at, ok := v.vdso()
			p := program{place: at}
			if fixed[at] {
				p.exe, p.pid = v.exe, pid
			}
			if known[p] == 0 || !ok {
				next++
				known[p] = next
			}
			v.lineage = known[p]
		}
	}
}

// fixedPlaces are the places of the vDSO that several programs have.
func (d *Dump) fixedPlaces() map[place]bool {
	exes, fixed := map[place]string{}, map[place]bool{}
	for _, versions := range d.spaces {
		for i := range versions {
			v := &versions[i]
			at, ok := v.vdso()
			if !ok || v.exe == "" {
				continue
			}
			if exe, seen := exes[at]; seen && exe != v.exe {
				fixed[at] = true
			}
			exes[at] = v.exe
		}
	}
	return fixed
}
