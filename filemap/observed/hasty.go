package observed

// Readings are samples: what a process has in two of them in a row can have gone in
// between and come again, and another file can have been in its place. Programs that
// load and unload plugins do so. The readings show it: some files of such a program come
// and go.

// steady is in how many readings, one after the other, a file has to be.
const steady = 3

// findHasty finds the programs of a process whose files come and go between readings.
func findHasty(versions []version) {
	for i := 0; i < len(versions); {
		end := i + 1
		for end < len(versions) && versions[end].program == versions[i].program {
			end++
		}
		versions[i].program.hasty = comesAndGoes(versions[i:end])
		i = end
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
