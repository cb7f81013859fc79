package timeline

import (
	"ustack/filemap"
	"ustack/filemap/procmap"
	"ustack/filemap/proof"
	"ustack/filemap/space"
	"ustack/tracefs"
)

// Layouts has all mappings of processes, also data, which the spaces do not have:
// it reads the processes while they run.
type Layouts struct {
	attributor *Attributor
	opt        LayoutOptions
	known      map[int]*reading
	kept       map[int]keptReading
	saved      map[int][]*reading
}

// LayoutOptions configure Layouts.
type LayoutOptions struct {
	// Reader reads all mappings, whatever their permissions.
	Reader *procmap.Reader
	// Clock is the clock of the trace.
	Clock func() tracefs.Time
	// Settle brings the spaces up to date.
	Settle func() error
	// Early is what a process had mapped when it was read before, and when that
	// was: for one that has ended. nil if it has not been read.
	Early func(pid int) (list []procmap.Mapping, at tracefs.Time, ok bool)
	// Keep, if it is set, gets what decides about addresses in the data of programs and
	// libraries when it is read, for Saved of a replay.
	Keep func(pid int, list []procmap.Mapping, at tracefs.Time)
	// Saved has what Keep got of a process. If it is set, no process is read: only it is
	// used.
	Saved func(pid int) []space.Reading
}

// reading is the mappings of a process when it was read.
type reading struct {
	space  *space.Space // that was known then
	began  tracefs.Time // the program
	at     tracefs.Time
	layout filemap.Layout
	code   []int // which areas are code
}

const (
	// maxReadings bounds the processes that are kept.
	maxReadings = 1 << 10
	// A process is read again after this time if its code has changed, or if it
	// only uses memory that is not known yet.
	afterChange = tracefs.Time(10e6)
	readAgain   = tracefs.Time(100e6)
)

// NewLayouts returns the Layouts of the processes that an Attributor knows.
func NewLayouts(j *Attributor, opt LayoutOptions) *Layouts {
	return &Layouts{attributor: j, opt: opt, known: make(map[int]*reading), kept: make(map[int]keptReading), saved: make(map[int][]*reading)}
}

// Layout is the part of what a thread's process had mapped at t that decides
// whether an address is in the data of a program or library (Layout.Around); nil if
// that is not known. The process may have been read at another time. It counts only
// if the code of the program or library was in its place at t.
func (ls *Layouts) Layout(tid int, t tracefs.Time, addr uint64) (filemap.Layout, filemap.Trust) {
	j := ls.attributor
	pid, sp, late := j.process(tid, t)
	if sp == nil {
		return nil, filemap.NoTrust
	}
	if _, doubtful := j.doubtful(sp, t); doubtful {
		return nil, filemap.NoTrust
	}
	r := ls.reading(pid, sp, t, addr)
	if r == nil {
		return nil, filemap.NoTrust
	}
	near := r.layout.Owner(addr)
	if near == nil || !ls.inPlace(j.opt.Spaces.Space(pid), r, near.File, t) {
		return nil, filemap.NoTrust
	}
	if late || j.opt.Late || j.opt.Foreign != nil && j.opt.Foreign() {
		return r.layout.Around(addr), filemap.Late
	}
	return r.layout.Around(addr), filemap.Verified
}

// reading is the last one of the program that a process was at t, nil if there
// is none. It reads the process if that may add something.
func (ls *Layouts) reading(pid int, sp *space.Space, t tracefs.Time, addr uint64) *reading {
	if ls.opt.Saved != nil {
		return ls.ofSaved(pid, sp, t, addr)
	}
	r := ls.known[pid]
	if r.of(sp, t) != nil && !r.stale(sp, addr, ls.opt.Clock()) {
		return r
	}
	if fresh := ls.read(pid, sp, t); fresh != nil {
		if len(ls.known) >= maxReadings {
			clear(ls.known)
		}
		ls.known[pid], r = fresh, fresh
	}
	return r.of(sp, t)
}

// of is the reading if it is of the program that was running at t.
func (r *reading) of(sp *space.Space, t tracefs.Time) *reading {
	if r == nil || sp.Began(t) != r.began {
		return nil
	}
	return r
}

// stale reports whether reading the process again may add something about an address.
func (r *reading) stale(sp *space.Space, addr uint64, now tracefs.Time) bool {
	age := now - r.at
	return r.space != sp && age >= afterChange || r.layout.At(addr) == nil && age >= readAgain
}

// read reads a process, if it is still the program that it was at t.
func (ls *Layouts) read(pid int, sp *space.Space, t tracefs.Time) *reading {
	if v := sp.At(t); v == nil {
		return nil
	}
	var p procmap.Process
	if err := ls.opt.Reader.Process(pid, &p); err != nil {
		return ls.early(pid, sp, t)
	}
	if err := ls.opt.Settle(); err != nil {
		return nil
	}
	now := ls.opt.Clock()
	return ls.made(pid, p.Mappings, t, now)
}

// early is the reading of a process that was there before.
func (ls *Layouts) early(pid int, sp *space.Space, t tracefs.Time) *reading {
	if ls.opt.Early == nil {
		return nil
	}
	list, at, ok := ls.opt.Early(pid)
	if known := ls.known[pid].of(sp, t); !ok || known != nil && known.at >= at {
		return nil
	}
	return ls.made(pid, list, t, at)
}

// made is the reading of a process at a time, if it was the program then that it
// was at t.
func (ls *Layouts) made(pid int, list []procmap.Mapping, t, at tracefs.Time) *reading {
	sp := ls.attributor.opt.Spaces.Space(pid)
	if sp.At(at) == nil || sp.Began(t) != sp.Began(at) {
		return nil
	}
	r := &reading{space: sp, began: sp.Began(at), at: at}
	if !r.fill(ls.attributor, sp, list, at) {
		return nil
	}
	if ls.opt.Keep != nil {
		ls.keep(pid, r, list)
	}
	return r
}

// fill makes the layout. Programs and libraries are the files of which the
// process has code, by the spaces.
func (r *reading) fill(j *Attributor, sp *space.Space, list []procmap.Mapping, now tracefs.Time) bool {
	type key struct {
		dev   procmap.Dev
		inode uint64
		name  string
	}
	of := func(m *procmap.Mapping) key { return key{m.Dev, m.Inode, m.Name} }
	files := make(map[key]*filemap.File)
	for i := range list {
		m := &list[i]
		if m.Perms&procmap.Exec == 0 || !m.Kind.HasFile() {
			continue
		}
		if p, ok := sp.Lookup(m.Start, now); ok && p.Offset == m.Offset && p.Mapping.File.Is(m) {
			files[of(m)] = j.files.of(p.Mapping.File)
		}
	}
	end := uint64(0)
	for i := range list {
		m := &list[i]
		if m.Start < end {
			return false // it has changed while it was read
		}
		end = m.End
		a := filemap.Area{Start: m.Start, End: m.End, Offset: m.Offset}
		if m.Perms&procmap.Shared == 0 {
			a.Anonymous = m.Kind.IsData()
			if m.Kind.HasFile() {
				a.File = files[of(m)]
			}
		}
		if a.Code = a.File != nil && m.Perms&procmap.Exec != 0; a.Code {
			r.code = append(r.code, i)
		}
		r.layout = append(r.layout, a)
	}
	return true
}

// inPlace reports whether a process had the code of a file at t where the
// reading has it.
func (ls *Layouts) inPlace(sp *space.Space, r *reading, f *filemap.File, t tracefs.Time) bool {
	found := false
	for _, i := range r.code {
		a := &r.layout[i]
		if a.File != f {
			continue
		}
		var v verdict
		ls.attributor.find(&v, sp, a.Start, t)
		if !v.found() || v.place.Late || v.place.Offset != a.Offset || ls.attributor.files.of(v.place.Mapping.File) != f {
			return false
		}
		found = true
	}
	return found
}

// Stays reports whether what Layout returned for a thread holds at another time: the code
// of the program or library is in its place.
func (ls *Layouts) Stays(tid int, t tracefs.Time, l filemap.Layout) proof.Stay {
	j := ls.attributor
	_, sp, _ := j.process(tid, t)
	if sp == nil {
		return proof.Assumed
	}
	if _, doubtful := j.doubtful(sp, t); doubtful {
		return proof.Assumed
	}
	stay := proof.Stayed
	for i := range l {
		if a := &l[i]; a.Code {
			stay = min(stay, ls.stays(sp, a, t))
		}
	}
	return stay
}

// stays reports whether a process has an area of code at a time.
func (ls *Layouts) stays(sp *space.Space, a *filemap.Area, t tracefs.Time) proof.Stay {
	var v verdict
	ls.attributor.find(&v, sp, a.Start, t)
	switch {
	case v.found() && (v.place.Offset != a.Offset || ls.attributor.files.of(v.place.Mapping.File) != a.File):
		return proof.Gone
	case v.found() && !v.place.Late:
		return proof.Stayed
	case v.none() && v.known.Decide().Reason == filemap.NoVMA:
		return proof.Gone
	}
	return proof.Assumed
}
