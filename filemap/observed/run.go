package observed

import (
	"cmp"
	"slices"
	"strings"

	"ustack/filemap/procmap"
	"ustack/tracefs"
	"ustack/tracefs/sorting"
)

// run is the mappings of one open file that a process made at once, next to each
// other: the segments of a program or library. It lasts from when it was made
// until it goes away, and all that time it is of one open file.
type run struct {
	file *mapped
	pid  int32
	// bias is the address that offset 0 would have.
	bias uint64
	// first and last are when it is known to have been there, at both ends of
	// that time and in between: by the clock of the trace, see toTrace.
	first, last tracefs.Time
	// waiting are the observations that it is a candidate of.
	waiting []*observation
	// doubted: the trace contradicts a reading that has it (given).
	doubted bool
	// learned is what the kernel announced when it looked at it, life the time of the
	// file that it is in; listed: it was looked at for that.
	learned learned
	life    *life
	listed  bool
	// stays: it is in all versions of a program whose files come and go.
	stays bool
}

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

// order sorts versions by time and finds out what stayed from one to the next.
func (d *Dump) order() {
	started := false
	for pid, versions := range d.spaces {
		sorting.StableFunc(versions, func(a, b version) int { return cmp.Compare(a.at, b.at) })
		if from, to := versions[0].at, versions[len(versions)-1].until; !started {
			d.first, d.last, started = from, to, true
		} else {
			d.first, d.last = min(d.first, from), max(d.last, to)
		}
		for i := range versions {
			v := &versions[i]
			v.sorted, v.fixed = v.inOrder(), v.isFixed()
			var before *version
			if i > 0 {
				before = &versions[i-1]
			}
			v.connect(pid, before)
		}
		findHasty(versions)
		if hasty(versions) {
			d.hasty[pid] = true
		}
		d.see(versions)
	}
	d.seenAll()
	d.findPauses()
	d.named = make(map[string][]*mapped)
	for _, f := range d.files {
		for _, name := range f.names() {
			d.named[name] = append(d.named[name], f)
		}
	}
	d.skew = newCalibration().skew()
}

// toTrace gives the runs the times of the trace. lived is when processes with the
// mappings of their last version were last seen: the dump does not say when they
// ended.
func (d *Dump) toTrace(lived map[int32]tracefs.Time) {
	seen := make(map[*run]bool)
	for pid, versions := range d.spaces {
		for i := range versions {
			for _, r := range versions[i].runs {
				if !seen[r] {
					seen[r] = true
					r.first, r.last = r.first+d.skew.most, r.last+d.skew.least
				}
			}
		}
		if t, ok := lived[pid]; ok {
			for _, r := range versions[len(versions)-1].runs {
				r.last = max(r.last, t)
			}
		}
		keepPrograms(versions)
	}
}

// inOrder reports whether the mappings are in order and do not overlap, as they
// do if the process changed while it was read.
func (v *version) inOrder() bool {
	end := uint64(0)
	for i := range v.maps {
		if v.maps[i].start < end {
			return false
		}
		end = v.maps[i].end
	}
	return true
}

// isFixed reports whether the stack ends where it does in programs that are at no random
// place.
func (v *version) isFixed() bool {
	at := slices.IndexFunc(v.maps, func(m mapping) bool { return m.kind == procmap.Stack && m.memory.Name == "[stack]" })
	return at >= 0 && atTop(v.maps[at].end)
}

// connect finds the runs of a version, also from the version before.
func (v *version) connect(pid int32, before *version) {
	type key struct {
		ident ident
		bias  uint64
	}
	known := map[key]*run{}
	if before != nil && v.continues(before) {
		v.program = before.program
		for _, r := range before.runs {
			if !v.paused(before) {
				known[key{r.file.ident(), r.bias}] = r
			}
		}
	} else {
		v.program = &program{exe: v.exe}
	}
	var last *mapping
	for i := range v.maps {
		m := &v.maps[i]
		if m.file == nil {
			continue
		}
		if last != nil && last.file == m.file && (m.offset > last.offset || m.offset == last.offset && m.start == last.end) {
			m.run = last.run
		} else {
			k := key{m.file.ident(), m.start - m.offset}
			r := known[k]
			if r == nil || r.file != m.file && r.file.hasID && m.file.hasID {
				r = &run{file: m.file, pid: pid, bias: k.bias, first: v.at}
			}
			delete(known, k)
			r.last, m.run = v.until, r
			v.runs = append(v.runs, r)
		}
		last = m
	}
	v.unchanged = before != nil && v.program == before.program && slices.Equal(v.runs, before.runs)
}

// program is what a process runs from one exec to the next.
type program struct {
	exe string
	// hasty: its files come and go between readings.
	hasty bool
}

// continues reports whether a version is of the program of the version before.
func (v *version) continues(before *version) bool {
	if v.exe != "" && before.exe != "" && bareName(v.exe) != bareName(before.exe) {
		return false
	}
	if v.fixed && v.paused(before) {
		return false // its vDSO is where that of any program is
	}
	now, known := v.vdso()
	was, had := before.vdso()
	return !known || !had || now == was
}

// keepPrograms notes that the program's own file stays open for as long as the
// process runs it (mm->exe_file in the kernel), from the first version of it to
// the last.
func keepPrograms(versions []version) {
	last := map[*program]tracefs.Time{}
	for i := range versions {
		for _, r := range versions[i].runs {
			last[versions[i].program] = max(last[versions[i].program], r.last)
		}
	}
	for i := range versions {
		for _, r := range versions[i].runs {
			if exe := versions[i].exe; exe != "" && bareName(r.file.name) == bareName(exe) {
				r.last = last[versions[i].program]
				break
			}
		}
	}
}

// ident is which file a mapped file is, whatever becomes of its name.
type ident struct {
	dev   procmap.Dev
	inode uint64
	name  string
}

func (m *mapped) ident() ident { return ident{m.key.dev, m.key.inode, bareName(m.name)} }

// isSame reports whether two mapped files can be one file, whatever they are called.
func (m *mapped) isSame(o *mapped) bool {
	return m.key.dev == o.key.dev && m.key.inode == o.key.inode && (!m.hasID || !o.hasID || m.id == o.id)
}

// isOne reports whether two mapped files are one file. On a file system without a device
// of its own files can share a number: those in subvolumes of btrfs do, in layers of
// overlayfs that are on several file systems, and in FUSE. There the name decides.
func (m *mapped) isOne(o *mapped) bool {
	return m.isSame(o) && (m.key.dev.Major != 0 || bareName(m.name) == bareName(o.name))
}

// bareName is a name without what the kernel appends once the file is deleted.
func bareName(name string) string { return strings.TrimSuffix(name, " (deleted)") }

// is reports whether the run was there at a time for certain.
func (r *run) is(t tracefs.Time) bool { return r.first <= t && t <= r.last }
