package timeline

import (
	"ustack/filemap"
	"ustack/filemap/procmap"
	"ustack/filemap/proof"
	"ustack/filemap/rawstack"
	"ustack/filemap/resolve"
	"ustack/filemap/space"
	"ustack/tracefs"
)

// A deferred stack is the unwinding of the same user stack as the raw stacks of
// its thread since the first event that asked for it: the thread was in the
// kernel all the time. So a frame's raw address is known, and by that its
// mapping, exactly as that of a stock stack is. The frame's offset must agree.
// But after sigreturn(2) it is another stack: what the signal has interrupted.

// maxRaw is how many raw stacks of an entry into the kernel are looked at.
const maxRaw = 4

// pageMask are the bits of an address that an offset in a file has, too.
const pageMask = pageSize - 1

// raw finds the raw stack that a deferred one is the unwinding of, nil if there is
// none. What was there before the process executed its program is another
// program's stack.
func (j *Attributor) raw(sp *space.Space, s *resolve.Query) *rawstack.Stack {
	if j.opt.Stacks == nil || !s.Deferred || s.Jumped || s.Continued || s.Asked == 0 || len(s.Frames) == 0 {
		return nil
	}
	from, to := s.Asked-j.opt.Stamp.Before, s.Time+j.opt.Stamp.After
	if j.opt.Stacks.Missing(from, to) {
		from = s.Asked + j.opt.Stamp.After // or it could be one of before
	}
	began := sp.Began(to)
	j.raws = j.opt.Stacks.Between(j.raws[:0], int(s.TID), from, to, maxRaw)
	best, most := -1, 0
	for i := range j.raws {
		r := &j.raws[i]
		if sp.At(to) != nil && r.Time < began || sp.Loading(r.Time, r.Time+1) {
			continue
		}
		if n := agreeing(r.Addrs, s); n > most {
			best, most = i, n
		}
	}
	if best < 0 {
		return nil
	}
	r := &j.raws[best]
	j.raised = raise(j.raised[:0], r.Addrs[:most], s)
	return r
}

// agreeing is how many of the kernel's frames, from the first one on, have the place in
// a page that the raw stack has.
func agreeing(addrs []uint64, s *resolve.Query) int {
	n := 0
	for k := range s.Frames {
		f := &s.Frames[k]
		if leftOut(f) {
			continue
		}
		if n == len(addrs) || f.Form != tracefs.FormIdentifier || (f.Address(s.Text)^addrs[n])&pageMask != 0 {
			break
		}
		n++
	}
	return n
}

// leftOut reports whether a frame is one that the kernel has left out, and ustack has
// found.
func leftOut(f *tracefs.Frame) bool { return f.Form == tracefs.FormPlain && f.Followed() }

// raise appends the raw addresses of frames, 0 for a frame that the kernel has left out,
// up to the last one that has any.
func raise(out, addrs []uint64, s *resolve.Query) []uint64 {
	for k := 0; len(addrs) > 0; k++ {
		if leftOut(&s.Frames[k]) {
			out = append(out, 0)
			continue
		}
		out, addrs = append(out, addrs[0]), addrs[1:]
	}
	return out
}

// at gives a frame the file of its raw address, of which v is the place and place
// the attribution. It reports false if the address proves nothing.
func (j *Attributor) at(v *verdict, place resolve.Attribution, f *tracefs.Frame, s *resolve.Query, o *resolve.Attribution) bool {
	switch {
	case f.ID.NoVMA():
		return true // the kernel found nothing there
	case place.Reason == filemap.NoAddressSpace:
		return false
	case !v.found():
		if place.Reason != filemap.NotCode || j.late {
			return false
		}
	case f.ID.NoFile() && v.place.Mapping.File.Kind.HasFile(),
		v.place.Mapping.File.Kind.HasFile() && (v.place.Offset != f.Address(s.Text) || j.another(v.place.Mapping.File, f.ID, o.File)):
		return false // what is known of the process is not what the kernel saw
	}
	*o = place
	return true
}

// another reports whether an identifier is that of another inode than a mapped
// file's. What the kernel's own identifiers have on overlayfs is the inode below,
// of another device; then the announced name decides, where mappings are found by
// reading the process.
func (j *Attributor) another(file *space.File, id tracefs.Identifier, announced *filemap.File) bool {
	if !id.IsInode() || file.Inode == 0 {
		return false
	}
	inode, major, minor := id.Inode()
	if file.Dev == (procmap.Dev{Major: major, Minor: minor}) {
		return file.Inode != inode
	}
	return j.opt.Late && announced != nil && !isFile(file, announced)
}

// doubt is whether what is known of a process at a time may be wrong.
type doubt struct {
	is    bool
	until tracefs.Time
	stays bool // the thread is one of the process then
	// soft: only changes that tracepoints report can be missing. missing: one of that
	// very time can be.
	soft, missing bool
}

// identifiers gives the frames with identifiers their files. First those whose raw
// address is known; what they prove of identifiers helps the others.
func (j *Attributor) identifiers(pid int, sp *space.Space, s *resolve.Query, d doubt) {
	j.proofs, j.space = j.proofs[:0], sp
	j.same = j.same[:0]
	var addrs []uint64
	if r := j.raw(sp, s); r != nil {
		sp = j.byAddress(pid, sp, s, r, d)
		j.space, addrs = sp, j.raised
	}
	for k := range s.Frames {
		f, raw := &s.Frames[k], uint64(0)
		if k < len(addrs) && addrs[k] != 0 {
			if j.proofs[k] {
				continue
			}
			raw = addrs[k]
		}
		if f.Form == tracefs.FormIdentifier {
			j.identifier(pid, sp, f, raw, s, d, s.Why(k), &s.Attributions[k])
		}
	}
}

// byAddress gives frames the files of their raw addresses. j.proofs says which got
// theirs, and j.same what that proves of identifiers. It returns the space, which is
// a new one if the process was read.
func (j *Attributor) byAddress(pid int, sp *space.Space, s *resolve.Query, r *rawstack.Stack, d doubt) *space.Space {
	for k, addr := range j.raised {
		if addr == 0 {
			j.proofs = append(j.proofs, false)
			continue
		}
		f, o := &s.Frames[k], &s.Attributions[k]
		var place resolve.Attribution
		if d.is {
			j.doubted(sp, addr, r.Time, d, &place)
		} else {
			sp = j.address(pid, sp, addr, r.Time, &place)
		}
		v := j.found
		proven := (!d.is || place.File != nil || place.Memory != nil) && j.at(v, place, f, s, o)
		if proven && o.File != nil && j.opt.Stamp.differs(sp, addr, &v.place, s) || !proven && j.opt.Stamp.replaced(sp, addr, s) {
			*o, proven = resolve.Unnamed(filemap.Ambiguous), true // it is of what came after the event
		}
		j.proofs = append(j.proofs, proven)
		if why := s.Why(k); proven && why != nil && o.File != nil {
			why.Add(proof.Step{Statement: proof.Addressed, File: o.File.Path})
			why.Add(proof.Step{Statement: proof.Mapped, PID: pid, File: o.File.Path, From: r.Time, To: s.Time})
		}
		if !proven || !v.found() || f.ID.NoFile() || f.ID.NoVMA() || !v.place.Mapping.File.Kind.HasFile() ||
			!stayed(sp, &v.place, addr, s.Time+j.opt.Stamp.After) {
			continue
		}
		m := v.place.Mapping
		j.prove(f.ID, m.File)
		if !v.place.Late {
			j.learn(f.ID, pid, m, r.Time)
		}
	}
	return sp
}

// replaced reports whether an address was in something at the event of a stack, and in another
// place when the kernel has unwound that.
func (p Precision) replaced(sp *space.Space, addr uint64, s *resolve.Query) bool {
	now, ok := sp.Lookup(addr, s.Time+p.After)
	return ok && p.differs(sp, addr, &now, s)
}

// differs reports whether a process, which has a place at an address later, is known to have
// had another one there at the event of a stack, or none.
func (p Precision) differs(sp *space.Space, addr uint64, now *space.Place, s *resolve.Query) bool {
	at := s.Asked - p.Before
	if s.Asked == 0 || s.Jumped || sp.At(at) == nil || sp.Began(s.Time+p.After) > at {
		return false
	}
	was, ok := sp.Lookup(addr, at)
	return !ok || !same(was, *now)
}

// stayed reports whether what an address was in is there still at t. The raw stack
// is of the time of its event, the identifiers are of the time of unwinding: another
// file can have been mapped meanwhile, with the same offset.
func stayed(sp *space.Space, p *space.Place, addr uint64, t tracefs.Time) bool {
	after, ok := sp.Lookup(addr, t)
	return ok && after.Mapping.File == p.Mapping.File && after.Mapping.Since == p.Mapping.Since && after.Offset == p.Offset
}

// identity is what a frame of the stack at hand proves an identifier to be.
type identity struct {
	id   tracefs.Identifier
	file *space.File
}

// prove notes what a frame of the stack at hand proves an identifier to be. If two
// frames prove different things, neither counts.
func (j *Attributor) prove(id tracefs.Identifier, file *space.File) {
	for i := range j.same {
		if known := &j.same[i]; known.id == id {
			if known.file != file {
				known.file = nil
			}
			return
		}
	}
	j.same = append(j.same, identity{id, file})
}

// sameAs is the file that a frame of the stack at hand proves an identifier to be,
// nil if none does.
func (j *Attributor) sameAs(id tracefs.Identifier) *space.File {
	for i := range j.same {
		if j.same[i].id == id {
			return j.same[i].file
		}
	}
	return nil
}

// lesson is what was learnt of an identifier lately, to avoid repeating it for
// every stack.
type lesson struct {
	id    tracefs.Identifier
	place place
	at    tracefs.Time
}

const (
	learntBits = 8
	// learnAgain is how soon the same is learnt again.
	learnAgain = tracefs.Time(1e6)
)

// learn notes that an identifier is that of a mapping at a time.
func (j *Attributor) learn(id tracefs.Identifier, pid int, m *space.Mapping, t tracefs.Time) {
	if j.alien || m.Since > t {
		return
	}
	p := placeOf(pid, m)
	known := &j.learnt[id.Hash()>>(64-learntBits)]
	if known.id == id && known.place == p && t >= known.at && t-known.at < learnAgain {
		return
	}
	*known = lesson{id, p, t}
	j.pins.Add(id, p, t)
}
