package evidence

import (
	"slices"
	"strings"

	"ustack/filemap"
	"ustack/filemap/procmap"
	"ustack/filemap/resolve"
	"ustack/tracefs"
	"ustack/tracefs/text"
)

// decide gives a frame with an identifier its outcome.
func (e *Evidence) decide(v *version, versions []version, covered bool, id tracefs.Identifier, offset uint64, o *resolve.Outcome) {
	g := e.groups[groupKey{v.lineage, id}]
	if g == nil {
		return
	}
	if g.decided == nil {
		if o.File != nil && g.reason != filemap.NoReason {
			*o = resolve.Unnamed(g.reason)
		}
		return
	}
	if !slices.Contains(candidates(v, versions, offset), g.decided) {
		*o = resolve.Unnamed(filemap.Contradicted)
		return
	}
	file, trust := o.File, filemap.Verified
	if file == nil || !g.decided.is(file) {
		// Whatever the time of the dump: the announced name is not kept.
		file, trust = e.file(g.decided), filemap.Inferred
	}
	if !covered {
		trust = filemap.Late
	}
	*o = resolve.Named(file, trust)
}

// file is the File of a mapped file. Its build ID is that of the announcement
// tied to the inode, or the dump's, or that of the only announced file with
// this path; else it is not known.
func (e *Evidence) file(m *mapped) *filemap.File {
	if m.known != nil {
		return m.known
	}
	if m.file != nil {
		return m.file
	}
	path := m.name
	m.file = &filemap.File{Path: path, BuildID: m.id, HasID: m.hasID}
	if m.hasID || e.hasRival(m) {
		return m.file
	}
	var same []*filemap.File
	for _, name := range []string{path, strings.TrimSuffix(path, " (deleted)")} {
		same = append(same, e.byPath[name]...)
	}
	if len(same) == 1 {
		m.file = same[0]
	}
	return m.file
}

// hasRival reports whether the dump has another file of the same path, or has
// had: then the path does not tell the build ID.
func (e *Evidence) hasRival(m *mapped) bool {
	if len(m.generations) > 1 {
		return true
	}
	name := strings.TrimSuffix(m.name, " (deleted)")
	for _, other := range e.dump.files {
		if other != m && strings.TrimSuffix(other.name, " (deleted)") == name && other.key.inode != m.key.inode {
			return true
		}
	}
	return false
}

// notRandom is where addresses end that programs have which are linked to a
// fixed place: those of the small and medium code models.
const notRandom = 1 << 32

// address gives a raw address its file.
func (e *Evidence) address(s *resolve.Subject, tid int32, versions []version, covered bool, addr uint64, o *resolve.Outcome) {
	found, clash := mappingIn(versions, addr)
	if found == nil {
		// Not there around the time of the stack. If the process had it at
		// another time, it is the poller that was late. Another program of
		// the process has it elsewhere, unless it is not at a random place.
		all := e.dump.all(tid)
		covered = false
		if addr < notRandom {
			all = e.dump.named(all, s.TID, s.Comm)
		}
		found, clash = mappingIn(all, addr)
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
	default:
		*o = resolve.Named(e.file(found.file), trustOf(covered))
		o.Offset, o.HasOffset = addr-found.start+found.offset, true
	}
}

// unfiled tells what a frame is in of which the kernel says that it has no file.
// It gives the address of anonymous memory, and the offset in the vDSO.
func (e *Evidence) unfiled(versions []version, addr uint64, o *resolve.Outcome) {
	if m, clash := mappingIn(versions, addr); m != nil && !clash {
		o.Memory = m.memory
	}
}

// mappingIn is the mapping of an address in the versions that have one. clash
// tells that they do not agree.
func mappingIn(versions []version, addr uint64) (found *mapping, clash bool) {
	for i := range versions {
		m := versions[i].mappingAt(addr)
		switch {
		case m == nil:
		case found == nil:
			found = m
		case found.file != m.file || !sameMemory(found.memory, m.memory),
			(m.file != nil || m.kind == procmap.VDSO) && found.start-found.offset != m.start-m.offset:
			return nil, true
		case m.exec && !found.exec && m.file == nil:
			found = m // code is made in memory that is not for code yet
		}
	}
	return found, false
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
		for k := range versions[i].maps {
			m := &versions[i].maps[k]
			if m.file == nil || m.file.name != name {
				continue
			}
			if found != nil && (found.file != m.file || found.offset != m.offset) {
				return
			}
			found = m
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
