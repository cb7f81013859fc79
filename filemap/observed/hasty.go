package observed

// Readings are samples: what a process has in two of them in a row can have gone in
// between and come again, and another file can have been in its place. Programs that
// load and unload plugins do so. The readings show it: some files of such a program come
// and go.

// steady is in how many readings, one after the other, a file has to be.
const steady = 3

// findHasty finds the programs of a process whose files come and go between readings. What
// comes and goes is then another mapping in each reading.
func findHasty(versions []version) {
	for i := 0; i < len(versions); {
		end := i + 1
		for end < len(versions) && versions[end].program == versions[i].program {
			end++
		}
		if p := versions[i].program; comesAndGoes(versions[i:end]) {
			p.hasty = true
			stay := staying(versions[i:end])
			for r := range stay {
				r.stays = true
			}
			for k := i + 1; k < end; k++ {
				versions[k].separate(stay)
			}
		}
		i = end
	}
}

// staying are the runs that are in all versions.
func staying(versions []version) map[*run]bool {
	count, stay := make(map[*run]int), make(map[*run]bool)
	for i := range versions {
		for _, r := range versions[i].runs {
			if count[r]++; count[r] == len(versions) {
				stay[r] = true
			}
		}
	}
	return stay
}

// separate gives a version runs of its own, but for the ones that stay.
func (v *version) separate(stay map[*run]bool) {
	own := make(map[*run]*run)
	for i, r := range v.runs {
		if !stay[r] && r.first < v.at {
			own[r] = &run{file: r.file, pid: r.pid, bias: r.bias, first: v.at, last: v.until}
			v.runs[i], v.unchanged = own[r], false
		}
	}
	for i := range v.maps {
		if r := own[v.maps[i].run]; r != nil {
			v.maps[i].run = r
		}
	}
}

// comesAndGoes reports whether a program has a file that was there for less than steady
// readings, or that came twice.
func comesAndGoes(versions []version) bool {
	present, gone := make(map[ident]int), make(map[ident]bool)
	for i := range versions {
		if v := &versions[i]; i > 0 && v.unchanged {
			continue
		}
		now := make(map[ident]bool, len(present))
		for _, r := range versions[i].runs {
			now[r.file.ident()] = true
		}
		for f, since := range present {
			switch {
			case now[f]:
			case since > 0 && i-since < steady:
				return true
			default:
				gone[f] = true
				delete(present, f)
			}
		}
		for f := range now {
			if gone[f] {
				return true
			}
			if _, known := present[f]; !known {
				present[f] = i
			}
		}
	}
	return false
}

// passing reports whether what a version has at an address can have been something else
// between two readings that have it.
func (v *version) passing(addr uint64) bool {
	if !v.program.hasty {
		return false
	}
	m := v.mappingAt(addr)
	return m != nil && m.run != nil && !m.run.stays
}

// hasty reports whether a version is of a program whose files come and go between
// readings.
func hasty(versions []version) bool {
	for i := range versions {
		if versions[i].program.hasty {
			return true
		}
	}
	return false
}
