package timeline

import (
	"ustack/filemap/procmap"
	"ustack/filemap/proof"
	"ustack/filemap/resolve"
	"ustack/filemap/space"
	"ustack/tracefs"
)

// verdict is the result of a lookup: what is known of an address, and the place that it
// was in, if it was in any.
type verdict struct {
	known proof.Address
	place space.Place
}

func (v *verdict) found() bool { return v.known.Found() }

func (v *verdict) none() bool { return v.known.Missing() }

// nameless reports whether it was memory that may have a name, which the kernel
// reports only on request (PR_SET_VMA_ANON_NAME).
func (v *verdict) nameless() bool {
	return v.found() && v.place.Mapping.Exact && v.place.Mapping.File.Kind == procmap.Anonymous
}

// stretch is the time in which an answer holds, nothing if to is not after
// from.
type stretch struct{ from, to tracefs.Time }

func (s stretch) exact() bool { return s.to > s.from }

// has reports whether the answer holds from a time to another one.
func (s stretch) has(from, to tracefs.Time) bool { return s.from <= from && to < s.to }

// since returns the earliest stamp of the stack at hand, whose own is t: that of its event.
func (j *Attributor) since(t tracefs.Time) tracefs.Time { return t - (j.before - j.opt.Stamp.Before) }

// find looks an address up at a time. A stack is of some moment within the
// precision of its time stamp, or since its event: what the address was at any time in it has to
// be the same. span is the time of stamps for which the answer, v, is the same.
func (j *Attributor) find(v *verdict, sp *space.Space, addr uint64, t tracefs.Time) (span stretch) {
	*v = verdict{known: proof.Address{Addr: addr, Sure: j.sure()}}
	end, ok := sp.Lookup(addr, t+j.opt.Stamp.After)
	if span = j.holds(sp, end, ok, t); span.exact() {
		v.in(end)
		return span
	}
	v.add(sp, t+j.opt.Stamp.After)
	for in := range sp.Between(t-j.before, t+j.opt.Stamp.After) {
		if in.To <= t+j.opt.Stamp.After { // what came in its time stayed until its end
			v.add(sp, in.To-1)
		}
	}
	v.add(sp, t-j.before)
	return stretch{}
}

// add adds what the address was at a time. There was no such moment if the process had
// not begun, or had ended.
func (v *verdict) add(sp *space.Space, t tracefs.Time) {
	if p, ok := sp.Lookup(v.known.Addr, t); ok {
		v.in(p)
	} else if now := sp.At(t); now != nil {
		v.known.Nothing(now.Knows(v.known.Addr))
	}
}

// in adds a place that the address was in.
func (v *verdict) in(p space.Place) {
	m := p.Mapping
	if v.known.In(m.File.Kind, m.Perms&procmap.Exec != 0, p.Late, v.known.Missing() || same(v.place, p)) {
		v.place = p
	}
}

// sure is how well process and time of the stack at hand are known.
func (j *Attributor) sure() proof.Sure {
	if j.late {
		return proof.Afterwards
	}
	return proof.Proven
}

// holds is the time of stamps around t for which what was found is so, nothing
// if it began or ended within the precision.
func (j *Attributor) holds(sp *space.Space, p space.Place, ok bool, t tracefs.Time) stretch {
	v := sp.At(t)
	if !ok || p.Late || v == nil {
		return stretch{}
	}
	s := stretch{max(v.From, p.Mapping.Since) + j.opt.Stamp.Before, v.To - j.opt.Stamp.After}
	if !s.has(j.since(t), t) {
		return stretch{}
	}
	return s
}

// same reports whether two places are the same one in the same file, or the same
// memory; the vDSO has offsets, too.
func same(a, b space.Place) bool {
	f, g := a.Mapping.File, b.Mapping.File
	if f.Kind.HasFile() || f.Kind == procmap.VDSO {
		return a.Offset == b.Offset && f.Same(g)
	}
	return f.Same(g)
}

// attribution is what becomes of a frame with an address.
func (j *Attributor) attribution(v *verdict) resolve.Attribution {
	d := v.known.Decide()
	if d.Act == proof.Name {
		o := resolve.Named(j.files.of(v.place.Mapping.File), d.Trust)
		o.Offset, o.HasOffset = v.place.Offset, true
		return o
	}
	o := resolve.Unnamed(d.Reason)
	if d.By == proof.Fileless {
		o.Memory = j.files.memory(v.place.Mapping)
		if v.place.Mapping.File.Kind == procmap.VDSO {
			o.Offset, o.HasOffset = v.place.Offset, true
		}
	}
	return o
}
