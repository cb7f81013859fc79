package futex

import (
	"bytes"
	"slices"

	"ustack/filemap"
	"ustack/filemap/resolve"
	"ustack/tracefs"
	"ustack/tracefs/text"
)

// placings are the places that the lines of a report have.
//
// Invariants: layouts are those that came last of processes that are known by lines. They have
// no more than most, and no more areas than maxPlacedAreas.
type placings struct {
	off     bool           // other evidence says more, or a line could not be read
	files   *filemap.Files // nil before the first line
	layouts map[placing]noted
	areas   int
	most    int
	bad     int64 // lines that could not be read
}

// placing is a futex of a process.
type placing struct {
	proc *process
	addr uint64
}

// noted is a layout that a line had.
type noted struct {
	layout filemap.Layout
	trust  filemap.Trust
}

// Bounds of what a hostile report can have kept.
const (
	maxPlacedAreas = 1 << 17
	maxPlacedFiles = 8 << 20 // bytes
)

// run is one program that a process ran, by lines of a report. The zero value is unknown.
type run struct {
	known bool
	began tracefs.Time
	exact bool
}

// note takes a line that is no record: it may be one with a place. Only in text that ustack has
// written no other string can pass for one.
func (a *Analysis) note(h *resolve.Pending, rec *tracefs.Record) {
	line := h.Text[rec.Off:rec.End]
	s := &a.placings
	if s.off || !h.Escaped || !text.IsPlace(line) || rec.Flags&tracefs.Continued != 0 {
		return
	}
	s.room()
	p, ok := parsePlace(bytes.TrimSuffix(line[len(text.PlaceMark):], []byte{'\n'}), s.files)
	if !ok { // what it takes back is unknown
		s.off, s.bad, s.layouts = true, s.bad+1, nil
		a.tasks.distrust(a.losses.End)
		return
	}
	a.locks.byLines = true
	known := a.tasks.placed(&p, a.losses.End)
	if known == nil || p.Addr == 0 {
		return
	}
	a.locks.noted(known, &p)
	s.keep(known, &p)
}

// room forgets all places if they are too many: locks that come later have none.
func (s *placings) room() {
	if s.files == nil || len(s.layouts) >= s.most || s.areas > maxPlacedAreas || s.files.Bytes() > maxPlacedFiles {
		s.files, s.layouts, s.areas = filemap.NewFiles(), make(map[placing]noted), 0
	}
}

// keep keeps the layout for the lock that comes next there.
func (s *placings) keep(proc *process, p *Place) {
	at := placing{proc, p.Addr}
	s.areas += len(p.Layout) - len(s.layouts[at].layout)
	if p.Layout == nil {
		delete(s.layouts, at)
		return
	}
	s.layouts[at] = noted{p.Layout, p.Trust}
}

// placed returns the process that a line gives a thread, nil if that is unknown. If the thread
// was of another one, its number is another thread's now.
func (ts *tasks) placed(p *Place, t tracefs.Time) *process {
	var known *process
	if p.TGID != 0 {
		known = ts.running(p, t)
	}
	th := ts.thread(p.TID)
	own := th.proc.find()
	if own == known {
		return known
	}
	if own.tgid != tracefs.NoTID || own.called {
		ts.ended(th, t)
		th = ts.thread(p.TID)
	}
	if known == nil {
		return nil
	}
	known = ts.unite(known, th.proc.find())
	known.how = max(known.how, ByMappings)
	return known
}

// running returns the process of a line while it runs the line's program: its memory is not that
// of another one with the number.
func (ts *tasks) running(p *Place, t tracefs.Time) *process {
	now := run{true, p.Began, p.Exact}
	known := ts.byLines[p.TGID]
	if known != nil && known.run == now { // though the thread with its number may have ended
		known.over, ts.byTGID[p.TGID] = false, known
		return known
	}
	if known != nil {
		ts.replaced(known, t)
	}
	if known = ts.process(p.TGID, ByMappings); known.run.known || known.called && (!p.Exact || p.Began > known.first) {
		ts.replaced(known, t)
		known = ts.process(p.TGID, ByMappings)
	}
	if len(ts.byLines) >= ts.most {
		ts.distrust(t)
		known = ts.process(p.TGID, ByMappings)
	}
	if ts.byLines == nil {
		ts.byLines = make(map[int32]*process)
	}
	known.run, known.program, ts.byLines[p.TGID] = now, p.Program, known
	return known
}

// distrust notes that the processes that lines of a report have named are unknown from now on.
func (ts *tasks) distrust(t tracefs.Time) {
	ts.byLines = nil
	for th := range ts.threads.all() {
		if p := th.proc.find(); p.run.known && !th.dead {
			ts.ended(th, t)
			p.over = true
		}
	}
	for _, p := range ts.byTGID {
		p.find().over = true
	}
}

// noted compares a lock that is known with a line of its place: another layout there makes it
// another lock.
func (lk *locks) noted(proc *process, p *Place) {
	for _, shared := range [...]bool{false, true} {
		key := lockKey{p.Addr, shared}
		l := proc.locks.get(key)
		if l == nil {
			continue
		}
		switch l = l.find(); {
		case lk.folded(l):
		case l.key != key || !slices.Equal(l.layout, p.Layout):
			proc.locks.drop(key)
			l.gone = l.gone || l.key == key
		case p.Trust == filemap.Late:
			l.trust = p.Trust
		}
	}
}

// agree gives a lock that is made of two the place that both have: lines have each of its own
// time.
func (l *lock) agree(m *lock) {
	switch {
	case !slices.Equal(l.layout, m.layout):
		l.layout, l.variable = nil, nil
	case m.trust == filemap.Late:
		l.trust = m.trust
	}
}

// report adds to a report what is wrong with the lines.
func (s *placings) report(r *Report) *Report {
	if s.bad > 0 {
		r.note("a line with where a futex is cannot be read: from there on locks have no names, and processes none")
	}
	return r
}
