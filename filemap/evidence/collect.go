package evidence

import (
	"slices"

	"ustack/filemap"
	"ustack/filemap/procmap"
	"ustack/filemap/resolve"
	"ustack/tracefs"
)

// Evidence is a dump and what the frames of a trace say about identifiers.
type Evidence struct {
	dump   *Dump
	root   *sysroot
	groups map[groupKey]*group
	// ids are the identifiers that each announced file has had: a file with
	// two of them is one of a kernel that hashes pointers.
	ids map[*filemap.File]tracefs.Identifier
	// pointers tells that there is such a file: then announcements go stale.
	pointers bool
	byPath   map[string][]*filemap.File
	deciding bool

	layouts map[*version]filemap.Layout
	areas   int // of all layouts
}

// groupKey names the frames that must lie in one file: those that carry one
// identifier in one program.
type groupKey struct {
	lineage int
	id      tracefs.Identifier
}

// group is what is known of them.
type group struct {
	key groupKey
	// files are the mapped files that fit all frames so far; any tells that
	// there has been a frame.
	files []*mapped
	any   bool
	// announced are the files that the kernel announced, owned that which a
	// stack of this very program made it announce.
	announced []*filemap.File
	owned     *filemap.File
	// samples are places to which something returned, for a look at the code.
	samples []sample
	// decided is the file, reason why there is none.
	decided *mapped
	reason  filemap.Reason
}

// sample is an offset behind a call, or behind a system call's instruction.
type sample struct {
	offset  uint64
	syscall bool
}

// maxSamples bounds the samples of a group.
const maxSamples = 32

// New returns the evidence of a dump. sysroot is a folder with the ELF files at
// the paths of the dump, "" if there is none.
func New(d *Dump, sysrootDir string) (*Evidence, error) {
	e := &Evidence{dump: d, groups: make(map[groupKey]*group), ids: make(map[*filemap.File]tracefs.Identifier),
		byPath: make(map[string][]*filemap.File)}
	var err error
	if sysrootDir != "" {
		e.root, err = openSysroot(sysrootDir)
	}
	return e, err
}

// LooksAtCode reports whether the first reading must tell which stacks are those
// of system calls, for which events are needed.
func (e *Evidence) LooksAtCode() bool { return e.root != nil }

// Judge implements resolve.Evidence. On the first reading of a trace it
// gathers, on the second it decides.
func (e *Evidence) Judge(s *resolve.Subject) {
	s.Identify()
	tid := s.TID
	if len(e.dump.all(tid)) == 0 {
		tid = s.TGID // a thread that the dump does not list
	}
	versions, covered := e.dump.near(tid, s.Time, s.Timed)
	if len(e.dump.all(tid)) == 0 {
		return
	}
	versions = e.dump.named(versions, s.TID, s.Comm)
	v := fitting(versions, s)
	for k := range s.Frames {
		f, o := &s.Frames[k], &s.Outcomes[k]
		switch {
		case f.Form == tracefs.FormIdentifier && !f.ID.NoFile() && !f.ID.NoVMA():
			switch {
			case v == nil:
			case e.deciding:
				e.decide(v, versions, covered, f.ID, f.Address(s.Text), o)
			default:
				at := sample{f.Address(s.Text), k == 0}
				e.gather(v, versions, f.ID, at, k > 0 || s.Syscall, o)
			}
		case e.deciding && f.Form == tracefs.FormIdentifier && f.ID.NoFile():
			e.unfiled(versions, f.Address(s.Text), o)
		case e.deciding && f.Form == tracefs.FormPlain && o.Reason == filemap.NoAddressSpace:
			e.address(s, tid, versions, covered, f.Address(s.Text), o)
		case e.deciding && f.Form == tracefs.FormObject && o.Reason == filemap.VMAOffset:
			e.object(versions, covered, s.Plain(s.FrameText(f)), o)
		}
	}
}

// fitting is the version whose program the stack is of. Between two programs,
// around an exec, it is the one in which all frames lie; nil if that is none or
// not one only.
func fitting(versions []version, s *resolve.Subject) *version {
	if len(versions) > 0 && versions[0].lineage == versions[len(versions)-1].lineage {
		return &versions[0]
	}
	var found *version
	for i := range versions {
		v := &versions[i]
		switch {
		case found != nil && found.lineage == v.lineage, !v.fits(s):
		case found != nil:
			return nil
		default:
			found = v
		}
	}
	return found
}

// fits reports whether all frames lie in the version's files.
func (v *version) fits(s *resolve.Subject) bool {
	for k := range s.Frames {
		f := &s.Frames[k]
		if f.Form == tracefs.FormIdentifier && !f.ID.NoFile() && !f.ID.NoVMA() && len(v.holding(nil, f.Address(s.Text))) == 0 {
			return false
		}
	}
	return true
}

// holds reports whether an offset of the mapping's file lies in the mapping.
func (m *mapping) holds(offset uint64) bool {
	return m.file != nil && offset >= m.offset && offset-m.offset < m.end-m.start
}

// holding appends the files of a version that have an offset mapped as code.
func (v *version) holding(files []*mapped, offset uint64) []*mapped {
	for i := range v.maps {
		if m := &v.maps[i]; m.exec && m.holds(offset) && !slices.Contains(files, m.file) {
			files = append(files, m.file)
		}
	}
	return files
}

// isData reports whether an offset lies in the data of a file, not in its
// code. Unwinding can end in such addresses; they say nothing about which file
// the code is in.
func (v *version) isData(f *filemap.File, offset uint64) bool {
	data := false
	for i := range v.maps {
		if m := &v.maps[i]; m.holds(offset) && sameMapping(f.Path, m.file.name) {
			if m.exec {
				return false
			}
			data = true
		}
	}
	return data
}

// candidates are the files in which an offset can lie: of the program's
// versions around the time.
func candidates(v *version, versions []version, offset uint64) []*mapped {
	var files []*mapped
	for i := range versions {
		if versions[i].lineage == v.lineage {
			files = versions[i].holding(files, offset)
		}
	}
	return files
}

// gather notes a frame of the identifier. returned tells that something
// returned there.
func (e *Evidence) gather(v *version, versions []version, id tracefs.Identifier, at sample, returned bool, o *resolve.Outcome) {
	key := groupKey{v.lineage, id}
	g := e.groups[key]
	if g == nil {
		g = &group{key: key}
		e.groups[key] = g
	}
	if o.File != nil {
		e.heard(g, id, o)
		if g.owned == o.File && v.isData(o.File, at.offset) {
			return
		}
	}
	files := candidates(v, versions, at.offset)
	if len(files) == 0 {
		return // no code of the program at all: it says nothing about the others
	}
	if g.any {
		files = slices.DeleteFunc(g.files, func(f *mapped) bool { return !slices.Contains(files, f) })
	}
	g.files, g.any = files, true
	if returned && len(g.samples) < maxSamples && !slices.Contains(g.samples, at) {
		g.samples = append(g.samples, at)
	}
}

// heard notes what the kernel announced.
func (e *Evidence) heard(g *group, id tracefs.Identifier, o *resolve.Outcome) {
	if !slices.Contains(g.announced, o.File) {
		g.announced = append(g.announced, o.File)
		e.learn(o.File, id)
	}
	if o.Owned() {
		g.owned = o.File
	}
}

// learn notes a file and its identifier.
func (e *Evidence) learn(f *filemap.File, id tracefs.Identifier) {
	known, seen := e.ids[f]
	if !seen {
		e.ids[f] = id
		e.byPath[f.Path] = append(e.byPath[f.Path], f)
	} else if known != id {
		e.pointers = true
	}
}

// mappingAt is the mapping of an address, nil if there is none.
func (v *version) mappingAt(addr uint64) *mapping {
	for i := range v.maps {
		if m := &v.maps[i]; m.start <= addr && addr < m.end {
			return m
		}
	}
	return nil
}

// kindReason is why an address in memory without a file has none.
func kindReason(k procmap.Kind) filemap.Reason {
	switch k {
	case procmap.VDSO, procmap.Special:
		return filemap.VDSO
	case procmap.Vsyscall:
		return filemap.NoVMA
	}
	return filemap.Anonymous
}
