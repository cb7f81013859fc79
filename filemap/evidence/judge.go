package evidence

import (
	"slices"
	"strings"

	"ustack/filemap"
	"ustack/filemap/procmap"
	"ustack/filemap/resolve"
	"ustack/tracefs/text"
)

// file is the File of a mapped file. Its build ID is the one that the dump gives,
// or that of an announcement made when the kernel looked at this very file.
func (e *Evidence) file(m *mapped) *filemap.File {
	if m.file != nil {
		return m.file
	}
	m.file = &filemap.File{Path: m.name, BuildID: m.id, HasID: m.hasID}
	if l := m.learned; !m.hasID && l != nil && !m.disputed {
		m.file.BuildID, m.file.HasID, m.file.Words = l.BuildID, l.HasID, l.Words
		if bareName(l.Path) == bareName(m.name) {
			m.file.Path = l.Path
		}
	}
	return m.file
}

// notRandom is where addresses end that programs have which are linked to a
// fixed place: those of the small and medium code models.
const notRandom = 1 << 32

// address gives a raw address its file.
func (e *Evidence) address(m *moment, tid int32, f *frame, o *resolve.Outcome) {
	addr := f.offset
	found, clash, all := mappingIn(m.versions, addr)
	if addr < notRandom && m.strange {
		found, clash = nil, false // it is another program
	}
	covered := m.covered && all && (addr >= notRandom || m.bracketed() && tid == m.key.pid)
	if found == nil && !clash && addr >= notRandom {
		// Not there around the time of the stack. If the process had it at
		// another time, it is the poller that was late. Another program of
		// the process has it elsewhere, unless it is not at a random place.
		found, clash, _ = mappingIn(e.dump.all(tid), addr)
		covered = false
	}
	switch {
	case clash:
		*o = resolve.Unnamed(filemap.Ambiguous)
	case found == nil:
		*o = resolve.Unnamed(filemap.NoVMA)
	case found.file == nil:
		*o = resolve.Unnamed(kindReason(found.kind))
		o.Memory = found.memory
		if found.kind == procmap.VDSO {
			o.Offset, o.HasOffset = addr-found.start, true
		}
	case !found.exec:
		*o = resolve.Unnamed(filemap.NotCode)
	default:
		f.mapped(m, candidate{run: found.run, seen: seenIn(covered, m)})
		*o = resolve.Named(e.file(found.file), trustOf(covered))
		o.Offset, o.HasOffset = addr-found.start+found.offset, true
	}
}

// seenIn is in how many versions of a moment a mapping counts as seen.
func seenIn(all bool, m *moment) int {
	if all {
		return len(m.versions)
	}
	return 0
}

// bracketed reports whether the process was read before and after.
func (m *moment) bracketed() bool { return len(m.versions) > 1 }

// unfiled says what a frame is in of which the kernel says that it has no file.
// It gives the address of anonymous memory, and the offset in the vDSO.
func (e *Evidence) unfiled(versions []version, addr uint64, o *resolve.Outcome) {
	if m, clash, _ := mappingIn(versions, addr); m != nil && !clash {
		o.Memory = m.memory
	}
}

// mappingIn is the mapping of an address in the versions that have one. clash:
// they do not agree. all: each of them has it.
func mappingIn(versions []version, addr uint64) (found *mapping, clash, all bool) {
	if len(versions) > maxAgreed {
		versions = versions[:maxAgreed]
	}
	all = true
	for i := range versions {
		m := versions[i].mappingAt(addr)
		switch {
		case m == nil:
			all = false
		case found == nil:
			found = m
		case found.file != m.file && (found.file == nil || m.file == nil || !found.file.isSame(m.file)) || !sameMemory(found.memory, m.memory),
			(m.file != nil || m.kind == procmap.VDSO) && found.start-found.offset != m.start-m.offset:
			return nil, true, false
		case m.exec && !found.exec && m.file == nil:
			found = m // code is made in memory that is not for code yet
		}
	}
	return found, false, all
}

// mappingAt is the mapping of an address, nil if there is none.
func (v *version) mappingAt(addr uint64) *mapping {
	if v.sorted {
		i, _ := slices.BinarySearchFunc(v.maps, addr, func(m mapping, a uint64) int {
			if m.end <= a {
				return -1
			}
			return 1
		})
		if i < len(v.maps) && v.maps[i].start <= addr {
			return &v.maps[i]
		}
		return nil
	}
	for i := range v.maps {
		if m := &v.maps[i]; m.start <= addr && addr < m.end {
			return m
		}
	}
	return nil
}

// sameMemory reports whether memory is called the same.
func sameMemory(a, b *filemap.Memory) bool { return a == b || a != nil && b != nil && a.Name == b.Name }

// object gives a frame of option sym-userobj its offset in the file: it has
// the offset in a mapping, which is enough if the file has one executable
// mapping only.
func (e *Evidence) object(versions []version, covered bool, line []byte, o *resolve.Outcome) {
	stem := string(line)
	at := strings.LastIndex(stem, "[+0x")
	name := strings.TrimPrefix(stem[:max(at, 0)], " => ")
	offset := text.ObjectOffset(line)
	var found *mapping
	for i := range versions {
		if i == maxHolding {
			return
		}
		for _, r := range versions[i].offsets().byName[bareName(name)] {
			if r.file.name != name {
				continue
			}
			for _, k := range versions[i].offsets().parts[r] {
				m := &versions[i].maps[k]
				if found != nil && (found.file != m.file || found.offset != m.offset) {
					return
				}
				found = m
			}
		}
	}
	if found == nil || offset >= found.end-found.start {
		return
	}
	*o = resolve.Named(e.file(found.file), trustOf(covered))
	o.Offset, o.HasOffset = offset+found.offset, true
}

func trustOf(covered bool) filemap.Trust {
	if covered {
		return filemap.Verified
	}
	return filemap.Late
}
