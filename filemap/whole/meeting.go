package whole

import (
	"ustack/filemap/procmap"
	"ustack/filemap/space"
	"ustack/filemap/unwind"
	"ustack/tracefs"
)

// meeting is a deferred stack and what was found of the same user stack at the entry into
// its call. The kernel has left out callers of functions without frame pointers, and goes
// on after them with what only looks like a frame; what it has of the others is a place in
// a file, with an identifier of that.
type meeting struct {
	found  []held
	end    *unwind.End
	kernel []tracefs.Frame
	text   []byte
	// at is which frame of the kernel's each found one is, -1 for none.
	at []int
	// next is the first of the kernel's frames that is none of the found ones.
	next int
}

// inFile reports whether a frame is known to be in a file.
func (f *held) inFile() bool { return f.place.Mapping != nil && f.place.Mapping.File.Kind.HasFile() }

// agree matches the frames of both. It reports false if they are not of one user stack:
// the thread is in the first frame, so both must have it, and an identifier is one file.
func (m *meeting) agree() bool {
	m.at, m.next = make([]int, len(m.found)), 0
	for i := range m.found {
		m.at[i] = -1
		if m.next < len(m.kernel) && m.is(&m.found[i], &m.kernel[m.next]) {
			m.at[i] = m.next
			m.next++
		}
	}
	if len(m.found) == 0 || m.at[0] != 0 {
		return false
	}
	for i := range m.found {
		if m.at[i] >= 0 && !m.oneFile(i) {
			return false
		}
	}
	return true
}

// is reports whether a found frame has the place of one of the kernel's: the address, or
// the offset in a file or in the vDSO.
func (m *meeting) is(f *held, k *tracefs.Frame) bool {
	number := k.Address(m.text)
	switch k.Form {
	case tracefs.FormPlain:
		return number == f.pc || f.inFile() && number == f.place.Offset
	case tracefs.FormIdentifier:
	default:
		return false
	}
	switch {
	case k.ID.NoVMA() || f.place.Mapping == nil:
		return false
	case k.ID.NoFile():
		return !f.inFile() && (number == f.pc || number == f.place.Offset)
	}
	return number == f.place.Offset && !another(f.place.Mapping.File, k.ID)
}

// another reports whether an identifier is that of another inode than a file's. Devices
// differ on overlayfs, where the kernel has the inode below.
func another(file *space.File, id tracefs.Identifier) bool {
	if !id.IsInode() || file.Inode == 0 {
		return false
	}
	inode, major, minor := id.Inode()
	return file.Dev == (procmap.Dev{Major: major, Minor: minor}) && file.Inode != inode
}

// oneFile reports whether the identifier of a frame is that of the same file in the
// frames before it, and of no other one.
func (m *meeting) oneFile(i int) bool {
	f, k := &m.found[i], &m.kernel[m.at[i]]
	if k.Form != tracefs.FormIdentifier || k.ID.NoFile() {
		return true
	}
	for n := i - 1; n >= 0; n-- {
		if m.at[n] < 0 {
			continue
		}
		before, id := &m.found[n], m.kernel[m.at[n]].ID
		if before.place.Mapping == f.place.Mapping {
			return id == k.ID // which is none of the frames before that
		}
		if id == k.ID && !sameFile(before.place.Mapping.File, f.place.Mapping.File) {
			return false
		}
	}
	return true
}

// sameFile reports whether two files can be one, by two names.
func sameFile(a, b *space.File) bool {
	return a == b || a.Inode != 0 && a.Inode == b.Inode && a.Dev == b.Dev || !a.BuildID.IsZero() && a.BuildID == b.BuildID
}

// frames appends the stack as it goes into the batch: the kernel's own words for the
// frames that it has, the addresses of the ones that it has left out, and what it has
// beyond that.
func (m *meeting) frames(out []tracefs.Frame) []tracefs.Frame {
	for i := range m.found {
		f := tracefs.Frame{Addr: m.found[i].pc, HasAddr: true, Form: tracefs.FormPlain}
		if k := m.at[i]; k >= 0 && m.kernel[k].Form == tracefs.FormIdentifier {
			f = m.own(k)
		}
		f.SetUnwound(unwind.HowOf(m.found[i].how), tracefs.NoStop)
		out = append(out, f)
	}
	stop := unwind.StopOf(m.end.Why)
	if from := m.beyond(stop); from < len(m.kernel) {
		for k := from; k < len(m.kernel); k++ {
			out = append(out, m.own(k))
		}
		return out
	}
	last := &out[len(out)-1]
	how, _ := last.Unwound()
	last.SetUnwound(how, stop)
	return out
}

// own is a frame of the kernel's, without its text.
func (m *meeting) own(k int) tracefs.Frame {
	f := &m.kernel[k]
	return tracefs.Frame{Addr: f.Address(m.text), HasAddr: true, Form: f.Form, ID: f.ID}
}

// beyond returns which of the kernel's frames goes on where the tables end, see
// Stage.beyond; there is none where they do not agree so far.
func (m *meeting) beyond(stop tracefs.Stop) int {
	none := len(m.kernel)
	for k := m.next; k < len(m.kernel); k++ {
		if form := m.kernel[k].Form; form != tracefs.FormIdentifier && form != tracefs.FormPlain {
			return none
		}
	}
	switch stop {
	case tracefs.AtCopy, tracefs.AtFile:
		if m.next == len(m.found) {
			return m.next
		}
	case tracefs.AtNoMap, tracefs.AtContradiction:
		if k := m.next; k < none && m.kernel[k].Address(m.text) == m.end.Addr && (m.kernel[k].Form == tracefs.FormPlain || m.kernel[k].ID.NoFile()) {
			return k
		}
	}
	return none
}
