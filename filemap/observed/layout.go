package observed

import (
	"ustack/filemap"
	"ustack/filemap/proof"
	"ustack/tracefs"
)

// Process is the process of a thread, as the dump has it.
func (e *Mappings) Process(tid int32) (pid int32, ok bool) { return e.dump.Process(tid) }

// SharedFile is the dump's.
func (e *Mappings) SharedFile(tid int32, at tracefs.Time, timed bool, addr uint64) (id, path string, offset uint64, ok bool) {
	return e.dump.SharedFile(tid, at, timed, addr)
}

// maxAreas bounds the areas of all layouts, maxAgreed the versions of a process
// that are looked at for one address.
const (
	maxAreas  = 1 << 20
	maxAgreed = 1 << 10
)

// Layout is the part of what a thread's process had mapped that decides whether an address
// is in the data of a program or library (Layout.Around): in all versions that the process
// can have had then, the next program or library below must be the same one in the same
// place, and the thread's name must be the one in the dump. comm is nil if the name is
// unknown; tgid is the process, if the dump does not list the thread. It is late: another
// file can have come to its place and gone again between two readings.
func (e *Mappings) Layout(tid, tgid int32, comm []byte, at tracefs.Time, timed bool, addr uint64) (filemap.Layout, filemap.Trust) {
	of := e.dump.ofProcess(tid, tgid)
	if of != tid {
		comm = nil
	}
	m := e.dump.at(of, at, timed, comm)
	found := e.agreed(m.versions, addr)
	if m.strange {
		return nil, filemap.NoTrust
	}
	if found == nil {
		m = e.dump.at(of, at, false, comm)
		found = e.agreed(m.versions, addr)
	}
	if found == nil || m.strange {
		return nil, filemap.NoTrust
	}
	return e.layout(found).Around(addr), filemap.Late
}

// held is whose an address was at a moment: of which program or library, and where in
// memory its file would begin. file is nil if that is not known.
type held struct {
	file *filemap.File
	bias uint64
}

// heldKey is an address at a moment of a process.
type heldKey struct {
	moment momentKey
	addr   uint64
}

// maxHeld bounds what is kept of that.
const maxHeld = 1 << 16

// Stays reports whether a part that Layout returned for an address holds at another time
// of a thread, by the versions that its process can have had then.
func (e *Mappings) Stays(tid, tgid int32, comm []byte, at tracefs.Time, timed bool, addr uint64, l filemap.Layout) proof.Stay {
	of := e.dump.ofProcess(tid, tgid)
	if of != tid {
		comm = nil
	}
	m := e.dump.at(of, at, timed, comm)
	a := l.Owner(addr)
	if !m.covered || m.strange || a == nil {
		return proof.Assumed
	}
	h := e.held(&m, addr)
	switch {
	case h.file == nil:
		return proof.Assumed
	case h.file.Path != a.File.Path || h.file.BuildID != a.File.BuildID || h.bias != a.Start-a.Offset:
		return proof.Gone
	}
	return proof.Stayed
}

func (e *Mappings) held(m *moment, addr uint64) held {
	key := heldKey{m.key, addr}
	h, known := e.whose[key]
	if known {
		return h
	}
	if v := e.agreed(m.versions, addr); v != nil {
		owner := v.owner(addr)
		h = held{e.file(owner.run), owner.start - owner.offset}
	}
	if e.whose == nil || len(e.whose) == maxHeld {
		e.whose = make(map[heldKey]held)
	}
	e.whose[key] = h
	return h
}

// agreed is the first version that has an address, nil if there is none or they
// do not agree about whose it can be.
func (e *Mappings) agreed(versions []version, addr uint64) *version {
	var found *version
	var first *mapping
	if len(versions) > maxAgreed {
		return nil
	}
	for i := range versions {
		m := versions[i].owner(addr)
		switch {
		case m == nil:
		case found == nil:
			found, first = &versions[i], m
		case m.file != first.file || m.start-m.offset != first.start-first.offset:
			return nil
		}
	}
	return found
}

// owner is the last mapping of a program or library at or below an address that
// is mapped, nil if there is none.
func (v *version) owner(addr uint64) (found *mapping) {
	if v.mappingAt(addr) == nil {
		return nil
	}
	for i := range v.maps {
		if m := &v.maps[i]; m.start <= addr && m.isProgram() && (found == nil || found.start <= m.start) {
			found = m
		}
	}
	return found
}

func (m *mapping) isProgram() bool { return m.file != nil && !m.shared && m.kind.HasFile() }

// layout makes a version's Layout, once.
func (e *Mappings) layout(v *version) filemap.Layout {
	if l, ok := e.layouts[v]; ok {
		return l
	}
	if e.areas += len(v.maps); e.areas > maxAreas {
		return nil
	}
	l := make(filemap.Layout, 0, len(v.maps))
	end := uint64(0)
	for i := range v.maps {
		m := &v.maps[i]
		if m.start < end {
			l = nil // the process has changed while it was read
			break
		}
		end = m.end
		a := filemap.Area{Start: m.start, End: m.end, Offset: m.offset, Anonymous: !m.shared && m.kind.IsData(), Code: m.isProgram() && m.exec}
		if m.isProgram() {
			a.File = e.file(m.run)
		}
		l = append(l, a)
	}
	if e.layouts == nil {
		e.layouts = make(map[*version]filemap.Layout)
	}
	e.layouts[v] = l
	return l
}
