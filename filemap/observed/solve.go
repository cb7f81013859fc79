package observed

import (
	"slices"
	"strings"

	"ustack/filemap"
	"ustack/filemap/proof"
	"ustack/tracefs"
)

// Solve ends a reading of the trace. It reports whether all is known by now that
// can be, so that the next reading gets attributions.
func (e *Mappings) Solve() bool {
	e.watched = true
	if e.clocks != nil {
		e.clocks.hearEnds(e.dump)
		e.dump.skew = e.clocks.skew()
		e.clocks = nil
		return false
	}
	e.dump.toTrace(e.lived)
	e.dump.doubt(&e.given)
	for _, x := range e.list {
		for i := range x.owned {
			e.own(x, &x.owned[i])
		}
		if x.id.IsInode() {
			e.number(x)
		}
	}
	e.dump.lives()
	for _, x := range e.list {
		e.open(x)
		e.push(x)
	}
	for len(e.queue) > 0 {
		x := e.queue[0]
		e.queue = e.queue[1:]
		x.queued = false
		if !x.proven {
			e.prove(x)
		}
	}
	e.deciding = true
	return true
}

// push has an observation looked at, again if something has changed.
func (e *Mappings) push(x *observation) {
	if !x.queued && !x.proven {
		x.queued = true
		e.queue = append(e.queue, x)
	}
}

// own pins an identifier to the mapping that the kernel looked at because of this
// very stack, by its name and by the offset.
func (e *Mappings) own(x *observation, o *ownedFrame) {
	found, more, _ := x.moment.find(o.offset, func(v *version) []*run { return v.called(o.file) })
	if found.run == nil {
		// In a chroot the process has another path for it than the dump.
		found, more, _ = x.moment.find(o.offset, func(v *version) []*run { return v.calledByEnd(o.file) })
	}
	switch {
	case found.run == nil:
		e.pins.Absent(x.id, o.file, o.at)
	case !more && !found.several:
		r := found.run
		r.first, r.last = min(r.first, o.at), max(r.last, o.at)
		r.learned.learn(o.file)
		r.file.learned.learn(o.file)
		e.pinned(x.id, r, e.pins.Add(x.id, r, o.at))
	}
}

// number pins an inode to the mapping that has its number and device.
func (e *Mappings) number(x *observation) {
	for _, s := range x.samples {
		found, more, _ := x.moment.find(s.offset, func(v *version) []*run { return v.numbered(x.id) })
		if found.run == nil || more || found.several && !(found.run.is(x.from) && found.run.is(x.to)) {
			continue
		}
		found.run.first, found.run.last = min(found.run.first, x.from), max(found.run.last, x.to)
		a, b := e.pins.Add(x.id, found.run, x.from), e.pins.Add(x.id, found.run, x.to)
		e.pinned(x.id, found.run, a || b)
	}
}

// calledByEnd are the runs of a version whose name ends in the path that was
// announced, or is the end of it.
func (v *version) calledByEnd(f *filemap.File) (list []*run) {
	if !strings.HasPrefix(f.Path, "/") || len(v.runs) > maxHolding {
		return nil
	}
	for _, r := range v.runs {
		if strings.HasPrefix(r.file.name, "/") && r.file.endsAs(f) {
			list = append(list, r)
		}
	}
	return list
}

// endsAs reports whether a mapping event can be about the file: its path is the name, or
// one of them is the end of the other, as in other mount namespaces, and the build IDs do
// not differ.
func (m *mapped) endsAs(f *filemap.File) bool {
	a := bareName(f.Path)
	called := slices.ContainsFunc(m.names(), func(n string) bool {
		return n == a || strings.HasPrefix(a, "/") && strings.HasPrefix(n, "/") && (strings.HasSuffix(n, a) || strings.HasSuffix(a, n))
	})
	return called && !m.differs(f)
}

// differs reports whether a mapping event gives another build ID than the dump.
func (m *mapped) differs(f *filemap.File) bool { return m.hasID && f.HasID && m.id != f.BuildID }

// pinned has all looked at that can follow from what is known of a run now.
func (e *Mappings) pinned(id tracefs.Identifier, r *run, fresh bool) {
	if !fresh {
		return
	}
	for _, x := range e.byID[id] {
		e.push(x)
	}
	for _, x := range r.waiting {
		e.push(x)
	}
}

// open finds the runs in which all frames of an observation can lie, if all that
// the process had is known.
func (e *Mappings) open(x *observation) {
	if !x.moment.whole {
		return
	}
	for i, s := range x.samples {
		list, many := x.moment.candidates(s.offset)
		if many {
			x.candidates = nil
			return
		}
		x.candidates = inAll(x.candidates, list, i == 0)
	}
	x.open = true
	x.candidates = e.look(x.candidates, x.samples)
	for _, r := range x.candidates {
		r.waiting = append(r.waiting, x)
	}
}

// inAll returns the runs in which frames before and one more, which can lie in the list,
// can lie. Parts of one open file can be in several runs: after mremap, or where something
// was mapped over its middle.
func inAll(before []*run, list []candidate, first bool) []*run {
	runs := make([]*run, 0, len(list)+len(before))
	for _, r := range before {
		if slices.ContainsFunc(list, func(c candidate) bool { return c.run.file.isOne(r.file) }) {
			runs = append(runs, r)
		}
	}
	for _, c := range list {
		again := slices.Contains(before, c.run)
		if first || !again && slices.ContainsFunc(before, func(r *run) bool { return c.run.file.isOne(r.file) }) {
			runs = append(runs, c.run)
		}
	}
	return runs
}

// prove proves which run the frames of an observation are in, if anything does.
func (e *Mappings) prove(x *observation) {
	if pin, ok := e.pins.Through(x.id, x.from, x.to); ok {
		e.follow(x, pin)
		return
	}
	if !x.open {
		return
	}
	left, only := e.pins.Only(x.id, x.candidates, x.from, x.to)
	x.candidates = left
	if only {
		x.proven = true
		x.pin = proof.Pin[*run]{Mapping: left[0], First: x.from, Last: x.to, Inferred: true}
		e.pinned(x.id, left[0], e.pins.Infer(x.id, left[0], x.from, x.to))
	}
}

// follow proves an observation by a pin of its identifier: its frames are in the
// same file, which the process must have mapped, too.
func (e *Mappings) follow(x *observation, pin proof.Pin[*run]) {
	x.proven, x.pin = true, pin
	file := pin.Mapping.file
	var own *run
	for _, s := range x.samples {
		found, more, _ := x.moment.find(s.offset, func(v *version) []*run { return v.sameFile(file) })
		if found.run == nil || more || found.several || own != nil && own != found.run {
			return
		}
		own = found.run
	}
	if own == nil || own == pin.Mapping || !e.pins.There(own, x.from) || !e.pins.There(own, x.to) {
		return
	}
	add := func(from, to tracefs.Time) bool {
		if pin.Inferred {
			return e.pins.Infer(x.id, own, from, to)
		}
		a, b := e.pins.Add(x.id, own, from), e.pins.Add(x.id, own, to)
		return a || b
	}
	e.pinned(x.id, own, add(x.from, x.to))
}

// sameFile are the runs of a version that are of a file.
func (v *version) sameFile(f *mapped) (list []*run) {
	for _, r := range v.offsets().byInode[f.key.inode] {
		if r.file.isOne(f) {
			list = append(list, r)
		}
	}
	return list
}
