package timeline

import (
	"ustack/filemap"
	"ustack/filemap/procmap"
	"ustack/filemap/resolve"
	"ustack/filemap/space"
	"ustack/tracefs"
)

// verdict is the result of a lookup: what an address was.
type verdict struct {
	place space.Place
	found bool
	// clash is set if the address was two things within the precision of the time
	// stamp.
	clash bool
	// partial is set if the process may have had more mappings than are known.
	partial bool
}

func (v *verdict) none() bool { return !v.found && !v.clash }

// nameless reports whether it was memory that may have a name, which the kernel
// reports only on request (PR_SET_VMA_ANON_NAME).
func (v *verdict) nameless() bool {
	return v.found && v.place.Mapping.Exact && v.place.Mapping.File.Kind == procmap.Anonymous
}

// stretch is the time in which an answer holds, nothing if to is not after
// from.
type stretch struct{ from, to tracefs.Time }

func (s stretch) exact() bool { return s.to > s.from }

// find looks an address up at a time. A stack is of some moment within the
// precision of its time stamp: what changed in that time decides only if it
// does not matter. span is the time of stamps for which the answer is the same.
func (j *Judge) find(sp *space.Space, addr uint64, t tracefs.Time) (v verdict, span stretch) {
	end, ok := sp.Lookup(addr, t+j.opt.Stamp.After)
	v = verdict{place: end, found: ok}
	if span = j.holds(sp, end, ok, t); span.exact() {
		return v, span
	}
	if !sp.At(t + j.opt.Stamp.After).Knows(addr) {
		v.partial = true
	}
	begin, had := sp.Lookup(addr, t-j.opt.Stamp.Before)
	switch {
	case had && ok && !same(begin, end):
		v.clash, v.found = true, false
	case had && !ok:
		v.place, v.found = begin, true
	}
	return v, stretch{}
}

// holds is the time of stamps around t for which what was found is so, nothing
// if it began or ended within the precision.
func (j *Judge) holds(sp *space.Space, p space.Place, ok bool, t tracefs.Time) stretch {
	v := sp.At(t)
	if !ok || p.Late || v == nil {
		return stretch{}
	}
	s := stretch{max(v.From, p.Mapping.Since) + j.opt.Stamp.Before, v.To - j.opt.Stamp.After}
	if t < s.from || t >= s.to {
		return stretch{}
	}
	return s
}

// same reports whether two places are the same one in the same file.
func same(a, b space.Place) bool {
	return a.Mapping.File == b.Mapping.File && a.Offset == b.Offset
}

// outcome converts the result to an Outcome.
func (j *Judge) outcome(v verdict, addr uint64) resolve.Outcome {
	switch {
	case v.clash:
		return resolve.Unnamed(filemap.Ambiguous)
	case !v.found && !isUser(addr):
		return resolve.Unnamed(filemap.NoVMA)
	case !v.found && (v.partial || j.late): // a later reading does not show what has gone
		return resolve.Unnamed(filemap.NoAddressSpace)
	case !v.found:
		return resolve.Unnamed(filemap.NotCode)
	}
	m := v.place.Mapping
	if !m.File.Kind.HasFile() {
		return j.memory(v.place)
	}
	if m.Perms&procmap.Exec == 0 {
		return resolve.Unnamed(filemap.NotCode)
	}
	o := resolve.Named(j.files.of(m.File), j.trust(v.place))
	o.Offset, o.HasOffset = v.place.Offset, true
	return o
}

// trust is how sure a place in a file is.
func (j *Judge) trust(p space.Place) filemap.Trust {
	if j.late || p.Late {
		return filemap.Late
	}
	return filemap.Verified
}

// memory says which memory without a file a place is in.
func (j *Judge) memory(p space.Place) resolve.Outcome {
	f := p.Mapping.File
	o := resolve.Unnamed(filemap.Anonymous)
	switch f.Kind {
	case procmap.VDSO:
		o = resolve.Unnamed(filemap.VDSO)
		o.Offset, o.HasOffset = p.Offset, true
	case procmap.Special:
		o = resolve.Unnamed(filemap.VDSO)
	case procmap.Vsyscall:
		o = resolve.Unnamed(filemap.NoVMA)
	}
	o.Memory = j.files.memory(p.Mapping)
	return o
}
