package sums

import (
	"time"

	"ustack/filemap"
	"ustack/filemap/procmap"
	"ustack/filemap/resolve"
	"ustack/tracefs/bpffutex"
)

// memory is what the process of a wait has mapped now, or had when it was last read, if it has
// ended. It is opened when the first address is looked up. To ask the kernel takes most of the time
// of a stack, so a mapping that a frame is in is asked for once.
type memory struct {
	files  *files
	wait   *bpffutex.Wait
	handle *procmap.Handle // nil if it has not been opened, or cannot be
	opened bool
	found  procmap.Mapping // the last one that At returned, if End is not 0
}

func (m *memory) open() {
	m.opened = true
	h, err := m.files.places.Open(int(m.wait.TGID))
	if err != nil {
		return
	}
	if !m.files.same(m.wait.TGID, m.wait.Born) {
		h.Close()
		return
	}
	m.handle = h
}

func (m *memory) close() {
	if m.handle != nil {
		m.handle.Close()
	}
}

// attribution returns the attribution of a frame with an address.
func (m *memory) attribution(addr uint64) resolve.Attribution {
	if !m.opened {
		m.open()
	}
	if m.handle == nil {
		return m.before(addr)
	}
	at, ok, err := m.at(addr)
	switch {
	case err != nil:
		return m.before(addr)
	case !ok:
		return resolve.Unnamed(filemap.NoAddressSpace)
	case at.Kind == procmap.VDSO || at.Kind == procmap.Vsyscall || at.Kind == procmap.Special:
		return resolve.Unnamed(filemap.VDSO)
	case !at.Kind.HasFile():
		return resolve.Unnamed(filemap.Anonymous)
	case at.Perms&procmap.Exec == 0:
		return resolve.Unnamed(filemap.NotCode)
	}
	return m.files.mapped(m.identified(&at), addr)
}

// at returns the mapping of an address.
func (m *memory) at(addr uint64) (at procmap.Mapping, ok bool, err error) {
	if m.found.Contains(addr) {
		return m.found, true, nil
	}
	if at, ok, err = m.handle.At(addr); ok && err == nil {
		m.found = at
	}
	return at, ok, err
}

// identified returns a mapping with the build ID of its file, which takes much longer to find
// than the mapping: it is read with all others of the process, at most once a second.
func (m *memory) identified(at *procmap.Mapping) *procmap.Mapping {
	p := m.files.program(&m.wait.Futex)
	if known := p.known(at); known != nil {
		return known
	}
	if time.Since(p.read) >= readAgain {
		m.files.read(m.wait.TGID, p)
		if known := p.known(at); known != nil {
			return known
		}
	}
	return at
}

// before returns the attribution by what the process had mapped.
func (m *memory) before(addr uint64) resolve.Attribution {
	p := m.files.program(&m.wait.Futex)
	for i := range p.code {
		if p.code[i].Contains(addr) {
			return m.files.mapped(&p.code[i], addr)
		}
	}
	return resolve.Unnamed(filemap.NoAddressSpace)
}
