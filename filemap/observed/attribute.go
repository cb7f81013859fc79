package observed

import (
	"slices"

	"ustack/filemap"
	"ustack/filemap/procmap"
	"ustack/filemap/proof"
	"ustack/filemap/resolve"
	"ustack/tracefs/text"
)

// notRandom is where addresses end that programs have which are linked to a
// fixed place: the small and medium code models.
const notRandom = 1 << 32

// address gives a raw address its file: what proof.Address decides on by what the dump
// has of the process at that time.
func (e *Mappings) address(m *moment, tid int32, f *frame, o *resolve.Attribution) {
	a, found := m.look(tid, f.offset)
	v := a.Decide()
	f.landed(m, v, found)
	switch {
	case v.Act == proof.Name:
		*o = resolve.Named(e.file(found.run), v.Trust)
		o.Offset, o.HasOffset = f.offset-found.start+found.offset, true
	case v.By == proof.Fileless:
		*o = resolve.Unnamed(v.Reason)
		o.Memory = found.memory
		if found.kind == procmap.VDSO {
			o.Offset, o.HasOffset = f.offset-found.start, true
		}
	default:
		*o = resolve.Unnamed(v.Reason)
	}
}

// look finds what is known of a raw address at a moment, and the mapping that it is in,
// nil if there is none.
func (m *moment) look(tid int32, addr uint64) (a proof.Address, found *mapping) {
	a = proof.Address{Addr: addr, Whole: true, Sampled: true}
	fixed := m.fixed(addr)
	if !m.covered || m.beyond || fixed && (!m.bracketed() || tid != m.key.pid) {
		a.Sure = proof.Afterwards
	}
	if fixed && m.strange {
		return a, nil // it is another program, which has something else there
	}
	if found = mappingIn(m.versions, &a); !a.Missing() || fixed {
		if !m.between(&a) {
			a.Unknown()
		}
		return a, found
	}
	// The versions of the thread's name lack it, which can be a name that it had
	// later. Another program of the process has something at another place.
	around := proof.Address{Addr: addr, Whole: true, Sampled: true, Sure: proof.Afterwards}
	if found = mappingIn(m.around, &around); !around.Missing() {
		return around, found
	}
	// What the process had there at other times can have come and gone again.
	sometime := proof.Address{Addr: addr}
	if mappingIn(m.all, &sometime); !sometime.Missing() {
		a.Unknown()
	}
	return a, nil
}

// fixed reports whether another program that the process ran can have had something
// else at an address: programs are there at no random place.
func (m *moment) fixed(addr uint64) bool {
	if addr < notRandom {
		return true
	}
	for i := range m.versions {
		if m.versions[i].fixed {
			return true
		}
	}
	return false
}

// bracketed reports whether the process was read before and after.
func (m *moment) bracketed() bool { return len(m.versions) > 1 }

// anonCode says what a frame is in of which the kernel says that it has no file.
// It gives the address of anonymous memory, and the offset in the vDSO.
func (e *Mappings) anonCode(versions []version, addr uint64, o *resolve.Attribution) {
	a := proof.Address{Addr: addr}
	if m := mappingIn(versions, &a); a.Found() {
		o.Memory = m.memory
	}
}

// mappingIn is the mapping of an address in versions, nil if none has one; each of them
// is a moment of a.
func mappingIn(versions []version, a *proof.Address) (found *mapping) {
	if len(versions) > maxAgreed {
		a.Unknown()
		return nil
	}
	for i := range versions {
		m := versions[i].mappingAt(a.Addr)
		switch {
		case m == nil:
			a.Nothing(true)
		case a.In(m.ground(), m.exec, false, found == nil || found.isSame(m)):
			found = m
		}
	}
	return found
}

// between reports whether the process had at an address what it had there at a moment, in
// the readings before and after. A dump that does not say when processes were read may lack
// one of them, if the process never had anything else there. Where files come and go, two
// readings do not show what was between them.
func (m *moment) between(a *proof.Address) bool {
	switch {
	case slices.ContainsFunc(m.versions, func(v version) bool { return v.passing(a.Addr) }):
		return false
	case m.noted():
		return m.covered && !m.open && a.Always()
	case m.covered && !m.open && a.Always():
		return true
	}
	sometime := proof.Address{Addr: a.Addr}
	mappingIn(m.all, &sometime)
	return sometime.Found()
}

// ground is the kind of a mapping; one without an inode has no file, whatever its name.
func (m *mapping) ground() procmap.Kind {
	if m.file == nil && m.kind.HasFile() {
		return procmap.Anonymous
	}
	return m.kind
}

// isSame reports whether two mappings are one file of one name, with the same offset at an
// address that both have, or memory that is called the same; the vDSO has offsets, too.
func (m *mapping) isSame(o *mapping) bool {
	if file := m.ground().HasFile(); file || o.ground().HasFile() {
		return file && o.ground().HasFile() && m.start-m.offset == o.start-o.offset &&
			m.file.isSame(o.file) && bareName(m.file.name) == bareName(o.file.name)
	}
	return sameMemory(m.memory, o.memory) && (m.kind != procmap.VDSO || m.start == o.start)
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
// the offset in a mapping, which is enough if the file has one mapping only.
func (e *Mappings) object(m *moment, line []byte, o *resolve.Attribution) {
	if len(m.versions) > maxHolding {
		return
	}
	name, offset := text.Object(line)
	a := proof.Address{Whole: true, Sampled: true}
	if !m.covered || m.beyond {
		a.Sure = proof.Afterwards
	}
	var found *mapping
	for i := range m.versions {
		one, only := m.versions[i].sole(name)
		switch {
		case !only, one != nil && offset >= one.end-one.start:
			return
		case one == nil:
			a.Nothing(true)
		case a.In(one.ground(), one.exec, false, found == nil || found.file == one.file && found.offset == one.offset):
			found = one
		}
	}
	if v := a.Decide(); v.Act == proof.Name {
		*o = resolve.Named(e.file(found.run), v.Trust)
		o.Offset, o.HasOffset = offset+found.offset, true
	}
}

// sole is a mapping of the file of a path, nil if there is none. only: others of it are
// of the same part of the file.
func (v *version) sole(path string) (found *mapping, only bool) {
	for _, r := range v.offsets().byName[bareName(path)] {
		if r.file.name != path {
			continue
		}
		for _, k := range v.offsets().parts[r] {
			m := &v.maps[k]
			if found != nil && (found.file != m.file || found.offset != m.offset) {
				return found, false
			}
			if found == nil || m.exec {
				found = m
			}
		}
	}
	return found, true
}
