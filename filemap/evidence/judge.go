package evidence

import (
	"iter"
	"slices"
	"strings"

	"ustack/filemap"
	"ustack/filemap/procmap"
	"ustack/filemap/proof"
	"ustack/filemap/resolve"
	"ustack/tracefs"
	"ustack/tracefs/text"
)

// frame is a frame to be decided about: for a raw address, offset is that.
type frame struct {
	id     tracefs.Identifier
	offset uint64
	at     tracefs.Time
	why    *proof.Steps
}

// decide gives a frame with an identifier the file that is proven, or what is left
// of the kernel's claim once it is held against what the process had mapped.
func (e *Evidence) decide(m *moment, f *frame, o *resolve.Outcome) {
	switch {
	case len(m.versions) == 0 || m.crowded:
	case o.Owned() && o.File != nil:
		e.owned(m, f, o)
	case e.byInode(m, f, o), m.covered && e.byPin(m, f, o), !m.covered && e.byOthers(f, o):
	case o.File != nil:
		e.claim(m, f, o)
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
		q := &frame{id: f.ID, offset: f.Address(s.Text), at: s.Time, why: s.Why(k)}
		switch {
		case e.byOthers(q, o):
		case o.File == nil:
		case f.ID.IsInode():
			q.why.Add(proof.Step{Statement: proof.Claimed, File: o.File.Path})
		case e.reused(f.ID, o.File):
			q.why.Add(proof.Step{Statement: proof.Claimed, File: o.File.Path})
			q.why.Add(proof.Step{Statement: proof.Reused})
			*o = resolve.Unnamed(filemap.Ambiguous)
		case e.dump.hasCode(o.File, q.offset) == no:
			q.why.Add(proof.Step{Statement: proof.Claimed, File: o.File.Path})
			q.why.Add(proof.Step{Statement: proof.NotMapped, File: o.File.Path})
			*o = resolve.Unnamed(filemap.Contradicted)
		default:
			q.why.Add(proof.Step{Statement: proof.Claimed, File: o.File.Path})
		}
	}
}

// byOthers proves a file by a mapping of any process that carries the identifier
// at a time. ok is false if there is none.
func (e *Evidence) byOthers(f *frame, o *resolve.Outcome) (ok bool) {
	pin, ok := e.pins.Through(f.id, f.at, f.at)
	if !ok {
		return false
	}
	f.carried(pin)
	trust := filemap.Verified
	if pin.Inferred {
		trust = filemap.Inferred
	}
	e.name(pin.Mapping, trust, o)
	return true
}

// answer is yes, no or unknown.
type answer uint8

const (
	unknown answer = iota
	no
	yes
)

// hasCode reports whether a file has code at an offset, in any mapping of any
// file with its name.
func (d *Dump) hasCode(f *filemap.File, offset uint64) answer {
	known := unknown
	for i, m := range d.named[bareName(f.Path)] {
		switch {
		case i == maxHolding || len(m.code) == maxCode:
			return unknown
		case slices.ContainsFunc(m.code, func(p place) bool { return p.start <= offset && offset < p.end }):
			return yes
		case len(m.code) > 0:
			known = no
		}
	}
	return known
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
func (e *Evidence) owned(m *moment, f *frame, o *resolve.Outcome) {
	found, more, known := m.find(f.offset, func(v *version) []*run { return v.called(o.File) })
	f.why.Add(proof.Step{Statement: proof.Looked, File: o.File.Path})
	switch {
	case found.run != nil && !found.code:
		f.data(found.run, o)
	case found.run != nil && !more && m.covered:
		f.mapped(m, found)
		*o = resolve.Named(o.File, filemap.Verified)
	case known && m.whole:
		f.why.Add(proof.Step{Statement: proof.NotMapped, File: o.File.Path})
		*o = resolve.Unnamed(filemap.NotCode) // in none of the file's mappings
	}
}

// byInode proves a file by the device and inode of its mapping. ok is false if no
// mapping has them: some file systems have other numbers in /proc (overlayfs).
func (e *Evidence) byInode(m *moment, f *frame, o *resolve.Outcome) (ok bool) {
	if !f.id.IsInode() {
		return false
	}
	found, _, known := m.find(f.offset, func(v *version) []*run { return v.numbered(f.id) })
	switch {
	case !known:
		return false
	case found.run != nil && found.code:
		f.why.Add(proof.Step{Statement: proof.Numbered, File: found.run.file.name})
		f.mapped(m, found)
		e.name(found.run, trustOf(m.covered && found.seen == len(m.versions)), o)
	case found.run != nil:
		f.data(found.run, o)
	default:
		*o = resolve.Unnamed(filemap.Contradicted)
	}
	return true
}

// byPin proves a file by a mapping that carries the identifier. ok is false if
// there is none.
func (e *Evidence) byPin(m *moment, f *frame, o *resolve.Outcome) (ok bool) {
	x := e.seen[observed{m.key, f.id}]
	if x == nil || !x.proven {
		return false
	}
	f.carried(x.pin)
	if x.pin.Inferred {
		e.others(m, f, x.pin.Mapping)
	}
	file := x.pin.Mapping.file
	found, _, known := m.find(f.offset, func(v *version) []*run { return v.sameFile(file) })
	switch {
	case found.run != nil && found.code:
		f.mapped(m, found)
		trust := filemap.Verified
		if x.pin.Inferred {
			trust = filemap.Inferred
		}
		e.name(found.run, trust, o)
	case found.run != nil:
		f.data(found.run, o)
	case known || m.whole || o.File != nil:
		f.why.Add(proof.Step{Statement: proof.NotMapped, File: file.name})
		*o = resolve.Unnamed(filemap.Contradicted)
	}
	return true
}

// claim holds a claim that nothing proves against what the process had mapped.
func (e *Evidence) claim(m *moment, f *frame, o *resolve.Outcome) {
	claimed := o.File
	f.why.Add(proof.Step{Statement: proof.Claimed, File: claimed.Path})
	found, _, _ := m.find(f.offset, func(v *version) []*run { return v.canBe(f.id, claimed) })
	switch {
	case found.run != nil && !found.code && f.id.IsInode():
		f.data(found.run, o)
	case found.run == nil || !found.code: // code of another file has it, or nothing
		f.why.Add(proof.Step{Statement: proof.NotMapped, File: claimed.Path})
		e.others(m, f, nil)
		*o = resolve.Unnamed(filemap.Contradicted)
	default:
		e.left(m, f, found, o)
	}
}

// left is what is left of a claim of a run that has the frame.
func (e *Evidence) left(m *moment, f *frame, found candidate, o *resolve.Outcome) {
	list, many := m.candidates(f.offset)
	left := e.pins.Claim(f.id, found.run, code(list))
	if many && left == proof.Stands && !f.id.IsInode() && e.pins.Known(f.id) {
		left = proof.Open
	}
	switch left {
	case proof.Refuted:
		e.others(m, f, nil)
		*o = resolve.Unnamed(filemap.Contradicted)
	case proof.Open:
		f.why.Add(proof.Step{Statement: proof.Reused})
		e.others(m, f, nil)
		*o = resolve.Unnamed(filemap.Ambiguous)
	default:
		f.mapped(m, found)
		e.name(found.run, filemap.Claimed, o)
	}
}

// code are the runs of candidates that have code there.
func code(list []candidate) iter.Seq[*run] {
	return func(yield func(*run) bool) {
		for _, c := range list {
			if c.code && !yield(c.run) {
				return
			}
		}
	}
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
