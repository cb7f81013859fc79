package observed

import (
	"slices"

	"ustack/filemap"
	"ustack/filemap/proof"
	"ustack/filemap/resolve"
	"ustack/tracefs"
)

// Mappings is a dump, and what the frames of a trace show about identifiers.
type Mappings struct {
	dump *Dump
	root *sysroot
	// seen are the observations, in the order in which they were made.
	seen map[observed]*observation
	list []*observation
	byID map[tracefs.Identifier][]*observation
	// pins are the runs that are proven to carry identifiers.
	pins *proof.Pins[*run]
	// lived is when a process with the mappings of its last version was last
	// seen.
	lived    map[int32]tracefs.Time
	given    given
	queue    []*observation
	clocks   *calibration // while the clocks are compared
	deciding bool
	watched  bool // the names of threads are known

	at frame // the frame at hand

	layouts map[*version]filemap.Layout
	areas   int // of all layouts
	whose   map[heldKey]held
}

// observed is the key of one observation: the frames with one identifier at one
// moment of a process. While nothing is seen to change, it means one open file.
type observed struct {
	key momentKey
	id  tracefs.Identifier
}

// observation is what is known of the frames of one observed.
type observation struct {
	observed
	moment moment
	// from and to are the times of the first and the last of the frames.
	from, to tracefs.Time
	samples  []sample
	owned    []ownedFrame
	// candidates are the runs in which all frames can lie, if open is set: then
	// there is no other one.
	candidates []*run
	open       bool
	queued     bool
	// pin is what is proven.
	pin    proof.Pin[*run]
	proven bool
}

// ownedFrame is a frame whose mapping the kernel looked up, and the file that it
// announced.
type ownedFrame struct {
	offset uint64
	at     tracefs.Time
	file   *filemap.File
}

// sample is the offset of a frame in its file, and what the code there is.
type sample struct {
	offset uint64
	site   site
}

// site is what stands before the address of a frame.
type site uint8

const (
	afterCall    site = iota // a call of the function of the frame before
	afterSyscall             // the instruction of a system call
	interrupted              // any instruction, or it is not known which
)

// siteAt is the site of frame k of a stack.
func siteAt(s *resolve.Query, k int) site {
	switch {
	case k > 0:
		return afterCall
	case s.Syscall:
		return afterSyscall
	}
	return interrupted
}

const (
	// maxSamples bounds the samples of an observation, maxOwned the frames of
	// which the kernel looked at the mapping.
	maxSamples = 32
	maxOwned   = 16
	// maxSeen bounds the observations: what comes later stays claimed.
	maxSeen = 1 << 19
)

// New returns the Mappings of a dump. sysroot is a directory with the ELF files
// at the paths of the dump, "" if there is none.
func New(d *Dump, sysrootDir string) (*Mappings, error) {
	e := &Mappings{dump: d, seen: make(map[observed]*observation), byID: make(map[tracefs.Identifier][]*observation),
		lived: make(map[int32]tracefs.Time), given: newGiven()}
	e.pins = proof.NewPins(runs{})
	if d.changes() {
		e.clocks = newCalibration()
	}
	var err error
	if sysrootDir != "" {
		e.root, err = openSysroot(sysrootDir)
	}
	return e, err
}

// runs are the mappings of a dump.
type runs struct{}

// Stays implements proof.Mappings.
func (runs) Stays(r *run, from, to tracefs.Time) proof.Stay {
	if r.is(from) && r.is(to) {
		return proof.Stayed
	}
	return proof.Gone
}

// There implements proof.Mappings.
func (runs) There(r *run, t tracefs.Time) bool { return r.is(t) }

// Same implements proof.Mappings.
func (runs) Same(a, b *run) bool { return a.file.isSame(b.file) }

// Called implements proof.Mappings.
func (runs) Called(r *run, f *filemap.File) bool {
	return slices.Contains(r.file.names(), bareName(f.Path))
}

// LooksAtCode reports whether the first reading must find the stacks of system
// calls, for which events are needed.
func (e *Mappings) LooksAtCode() bool { return e.root != nil }

// Clock says what the clock of the trace is, "" if it is unknown: on a first
// reading it is compared with the dump's then.
func (e *Mappings) Clock(name string) {
	if name == "mono" {
		e.clocks = nil
		e.dump.skew = skew{-unsure, unsure}
	}
}

// Attribute implements resolve.Attributor. Before the last reading of a trace, in which
// it decides, it compares the clocks and collects the frames.
func (e *Mappings) Attribute(s *resolve.Query) {
	s.Identify()
	if !e.deciding && e.clocks == nil {
		e.noteIDs(s)
	}
	tid := e.dump.ofProcess(s.TID, s.TGID)
	if len(e.dump.all(tid)) == 0 {
		if e.deciding && s.Timed {
			e.unread(s)
		}
		return
	}
	comm := s.Comm
	if tid != s.TID {
		comm = nil
	}
	if e.clocks != nil {
		e.clocks.see(e.dump, tid, s)
		return
	}
	m := e.dump.at(tid, s.Time, s.Timed, comm)
	if !e.deciding && m.covered && int(m.key.hi) == len(e.dump.spaces[m.key.pid]) {
		e.lived[m.key.pid] = max(e.lived[m.key.pid], s.Time)
	}
	for k := range s.Frames {
		f, o := &s.Frames[k], &s.Attributions[k]
		switch {
		case f.Form == tracefs.FormIdentifier && !f.ID.NoFile() && !f.ID.NoVMA():
			if e.deciding {
				e.decide(&m, e.frame(s, k), o)
			} else {
				e.gather(&m, f.ID, sample{f.Address(s.Text), siteAt(s, k)}, s.Time, o)
			}
		case e.deciding && f.Form == tracefs.FormIdentifier && f.ID.NoFile():
			e.anonCode(m.versions, f.Address(s.Text), o)
		case e.deciding && f.Form == tracefs.FormPlain && o.Reason == filemap.NoAddressSpace && k > 0 && m.narrow(s):
			*o = resolve.Unnamed(filemap.Unreadable)
		case e.deciding && f.Form == tracefs.FormPlain && o.Reason == filemap.NoAddressSpace:
			e.address(&m, tid, &frame{offset: f.Address(s.Text), why: s.Why(k)}, o)
		case e.deciding && f.Form == tracefs.FormObject && o.Reason == filemap.VMAOffset:
			e.object(&m, s.Plain(s.FrameText(f)), o)
		}
	}
}

// gather notes a frame with an identifier.
func (e *Mappings) gather(m *moment, id tracefs.Identifier, at sample, t tracefs.Time, o *resolve.Attribution) {
	if !m.covered || m.crowded {
		return // it proves nothing
	}
	key := observed{m.key, id}
	x := e.seen[key]
	if x == nil {
		if len(e.list) >= maxSeen {
			return
		}
		x = &observation{observed: key, moment: *m, from: t, to: t}
		e.seen[key] = x
		e.list = append(e.list, x)
		e.byID[id] = append(e.byID[id], x)
	}
	x.from, x.to = min(x.from, t), max(x.to, t)
	if o.Owned() && o.File != nil && len(x.owned) < maxOwned {
		x.owned = append(x.owned, ownedFrame{at.offset, t, o.File})
	}
	if len(x.samples) < maxSamples && !slices.Contains(x.samples, at) {
		x.samples = append(x.samples, at)
	}
}
