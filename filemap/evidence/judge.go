package evidence

import (
	"slices"
	"strings"

	"ustack/filemap"
	"ustack/filemap/procmap"
	"ustack/filemap/proof"
	"ustack/filemap/resolve"
	"ustack/tracefs"
	"ustack/tracefs/text"
)

// decide gives a frame with an identifier the file that is proven, or what is left
// of the kernel's claim once it is held against what the process had mapped.
func (e *Evidence) decide(m *moment, id tracefs.Identifier, offset uint64, o *resolve.Outcome) {
	switch {
	case len(m.versions) == 0 || m.crowded:
	case o.Owned() && o.File != nil:
		e.owned(m, offset, o)
	case e.byInode(m, id, offset, o), e.byPin(m, id, offset, o):
	case o.File != nil:
		e.claim(m, id, offset, o)
	}
}

// unread is about a stack of a process that the dump lacks. What is proven of the
// identifiers in other processes holds for it, too.
func (e *Evidence) unread(s *resolve.Subject) {
	for k := range s.Frames {
		f, o := &s.Frames[k], &s.Outcomes[k]
		if f.Form != tracefs.FormIdentifier || f.ID.NoFile() || f.ID.NoVMA() || o.Owned() {
			continue
		}
		pin, ok := e.pinAt(f.ID, s.Time, s.Time)
		switch {
		case ok && pin.Inferred:
			e.name(pin.Mapping, filemap.Inferred, o)
		case ok:
			e.name(pin.Mapping, filemap.Verified, o)
		case o.File != nil && !f.ID.IsInode() && e.reused(f.ID, o.File):
			*o = resolve.Unnamed(filemap.Ambiguous)
		}
	}
}

// reused reports whether an identifier was proven to be another file than the one
// that was announced, at any time.
func (e *Evidence) reused(id tracefs.Identifier, f *filemap.File) bool {
	return slices.ContainsFunc(e.pins.Of(id), func(p proof.Pin[*run]) bool {
		return !slices.Contains(p.Mapping.file.names(), bareName(f.Path))
	})
}

// owned is about a frame of which the kernel looked at the mapping because of
// this very stack.
func (e *Evidence) owned(m *moment, offset uint64, o *resolve.Outcome) {
	found, more, known := m.find(offset, func(v *version) []*run { return v.called(o.File) })
	switch {
	case found.run != nil && !found.code:
		*o = resolve.Unnamed(filemap.NotCode)
	case found.run != nil && !more && m.covered:
		*o = resolve.Named(o.File, filemap.Verified)
	case known && m.whole:
		*o = resolve.Unnamed(filemap.NotCode) // in none of the file's mappings
	}
}

// byInode proves a file by the device and inode of its mapping. ok is false if no
// mapping has them: some file systems have other numbers in /proc (overlayfs).
func (e *Evidence) byInode(m *moment, id tracefs.Identifier, offset uint64, o *resolve.Outcome) (ok bool) {
	if !id.IsInode() {
		return false
	}
	found, _, known := m.find(offset, func(v *version) []*run { return v.numbered(id) })
	switch {
	case !known:
		return false
	case found.run != nil && found.code:
		e.name(found.run, trustOf(m.covered && found.seen == len(m.versions)), o)
	case found.run != nil:
		*o = resolve.Unnamed(filemap.NotCode)
	default:
		*o = resolve.Unnamed(filemap.Contradicted)
	}
	return true
}

// byPin proves a file by a mapping that carries the identifier. ok is false if
// there is none.
func (e *Evidence) byPin(m *moment, id tracefs.Identifier, offset uint64, o *resolve.Outcome) (ok bool) {
	x := e.seen[observed{m.key, id}]
	if x == nil || !x.proven {
		return false
	}
	file := x.pin.Mapping.file
	found, _, known := m.find(offset, func(v *version) []*run { return v.sameFile(file) })
	switch {
	case found.run != nil && found.code:
		trust := filemap.Verified
		if x.pin.Inferred {
			trust = filemap.Inferred
		}
		e.name(found.run, trust, o)
	case found.run != nil:
		*o = resolve.Unnamed(filemap.NotCode)
	case known || m.whole || o.File != nil:
		*o = resolve.Unnamed(filemap.Contradicted)
	}
	return true
}

// claim holds a claim that nothing proves against what the process had mapped.
func (e *Evidence) claim(m *moment, id tracefs.Identifier, offset uint64, o *resolve.Outcome) {
	claimed := o.File
	found, _, _ := m.find(offset, func(v *version) []*run { return v.canBe(id, claimed) })
	switch {
	case found.run != nil && !found.code && id.IsInode():
		*o = resolve.Unnamed(filemap.NotCode)
	case found.run == nil || !found.code: // code of another file has it, or nothing
		*o = resolve.Unnamed(filemap.Contradicted)
	case e.excluded(id, found.run):
		*o = resolve.Unnamed(filemap.Contradicted)
	case e.rival(m, id, offset, found.run):
		*o = resolve.Unnamed(filemap.Ambiguous)
	default:
		e.name(found.run, filemap.Claimed, o)
	}
}

// rival reports whether an identifier that once was proven to be a mapping's,
// which has gone, can be another file's by now.
func (e *Evidence) rival(m *moment, id tracefs.Identifier, offset uint64, r *run) bool {
	if id.IsInode() || len(e.pins.Of(id)) == 0 {
		return false
	}
	list, many := m.candidates(offset)
	return many || slices.ContainsFunc(list, func(c candidate) bool {
		return c.code && !c.run.file.isSame(r.file) && !e.excluded(id, c.run)
	})
}

// name gives a frame the file of a run, as the kernel called it if that is the
// same.
func (e *Evidence) name(r *run, trust filemap.Trust, o *resolve.Outcome) {
	file := e.file(r.file)
	if o.File != nil && slices.Contains(r.file.names(), bareName(o.File.Path)) && o.File.BuildID == file.BuildID {
		file = o.File
	}
	*o = resolve.Named(file, trust)
}

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
func (e *Evidence) address(m *moment, tid int32, addr uint64, o *resolve.Outcome) {
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
		*o = resolve.Named(e.file(found.file), trustOf(covered))
		o.Offset, o.HasOffset = addr-found.start+found.offset, true
	}
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
