//go:build !device

package sideband

import (
	"slices"
	"time"

	"ustack/filemap/elfid"
	"ustack/filemap/openfile"
	"ustack/tracefs"
)

// While a file is held, its inode's number is not another one's. So that the file at its path can
// be known later to be this one, what is held is noted with the time of its last change, once a
// change after that has another time. It counts only while each mapping of a file with the same
// path and build ID is known to be of it (see openfile.Begin): another user can have removed it,
// and put another one there. So each mapping has to be there still when it is looked at.

// proof is what is noted of the files that are mapped.
type proof struct {
	to *openfile.Begin // nil for none
	// open are those that are of the file, if their mappings were there when they were looked at.
	open []suspect
}

// newProof returns a proof that notes all mappings. The Begin may be nil.
func newProof(to *openfile.Begin) proof {
	if to != nil {
		to.Fed()
	}
	return proof{to: to}
}

// holds notes that a mapping is of a file that is held. stays is whether its device has one file
// system as long as we run.
func (p *proof) holds(f *stamped, stays bool) {
	if p.to == nil {
		return
	}
	if f.layered || !stays && !inMemory(f.fd) {
		p.unsure(f.name, f.id) // another file system can have the device next, with any times
		return
	}
	dev := f.at.id.Dev
	p.to.Mapped(f.name, f.id.Hex(), openfile.Mapped{Major: dev.Major, Minor: dev.Minor, Inode: f.at.id.Inode, Changed: f.at.changed})
}

// looked notes a mapping that was looked at. is reports whether it is of the file that is held, if
// it was still there then.
func (p *proof) looked(is bool, f suspect) {
	switch {
	case p.to == nil:
	case !is || len(p.open) >= maxStamped:
		p.unsure(f.name, f.id)
	default:
		p.to.Open(f.name, f.id.Hex())
		p.open = append(p.open, f)
	}
}

// check makes sure of the mappings that were looked at before a time, until which all changes are
// known. had reports whether one was still there.
func (p *proof) check(known tracefs.Time, had func(*suspect) bool) {
	p.open = slices.DeleteFunc(p.open, func(f suspect) bool {
		if f.looked > known {
			return false
		}
		if !had(&f) {
			p.unsure(f.name, f.id)
		}
		p.to.Sure(f.name, f.id.Hex())
		return true
	})
}

// settle notes that a file that is held was not changed for long enough.
func (p *proof) settle(f *stamped) {
	if p.to == nil || f.settled || !f.at.changedBefore(time.Now()) {
		return
	}
	f.settled = true
	p.to.Settled(f.name, f.id.Hex())
}

// unsure notes that a mapping is not known to be of the file that is held.
func (p *proof) unsure(name string, id elfid.ID) {
	if p.to != nil {
		p.to.Unsure(name, id.Hex())
	}
}
