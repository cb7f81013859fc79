package timeline

import (
	"time"

	"ustack/filemap/procmap"
	"ustack/filemap/space"
	"ustack/tracefs"
)

// Prober reads what running processes have mapped at an address. It is the Querier of
// live tracing.
type Prober struct {
	opt ProberOptions
	// asked are the pages of programs that were looked up already, and whether
	// there was something.
	asked map[question]bool
	// second is the current second, left is how many queries it still has.
	second time.Duration
	left   int
	counts ProberCounts
}

// ProberOptions configure a Prober.
type ProberOptions struct {
	// Reader reads all mappings, whatever their permissions.
	Reader *procmap.Reader
	Spaces *space.Spaces
	// Clock is the clock of the trace.
	Clock func() tracefs.Time
	// Elapsed is how long the trace has run. It is called for each address outside
	// of all mappings, so it should be no system call, which Clock is.
	Elapsed func() time.Duration
	// Settle brings the spaces up to date.
	Settle func() error
	// Reread reads all code that a process has mapped. Found notes what it has at
	// an address at t: memory that is not code. The history before after must not
	// change: stacks have been resolved by it.
	Reread func(pid int, after tracefs.Time) error
	Found  func(pid int, m *procmap.Mapping, t, after tracefs.Time)
}

// ProberCounts counts the queries by result.
type ProberCounts struct {
	Asked int64 // of processes
	Found int64 // with an answer
	// Refused are queries that were not made: there were too many.
	Refused int64
}

type question struct {
	pid  int
	from tracefs.Time // of the version
	page uint64
}

const (
	pageSize = 4096
	// maxQuestions bounds the remembered queries, perSecond the rate of queries: a
	// program whose stacks are garbage must not keep us busy.
	maxQuestions = 1 << 13
	perSecond    = 1000
)

// NewProber returns a Prober.
func NewProber(opt ProberOptions) *Prober {
	return &Prober{opt: opt, asked: make(map[question]bool), left: perSecond}
}

// Counts counts the queries so far by result.
func (p *Prober) Counts() ProberCounts { return p.counts }

// Ask implements Querier.
func (p *Prober) Ask(pid int, addr uint64, t tracefs.Time) bool {
	v := p.opt.Spaces.Space(pid).At(t)
	if v == nil || v.To != space.Forever {
		return false // it has become another program since, or ended
	}
	q := question{pid, v.From, addr / pageSize}
	if p.repeated(q) || !p.mayAsk() {
		return false
	}
	now := p.opt.Clock()
	m, ok := p.mapping(pid, addr)
	if !ok || !p.unchanged(pid, t, now) {
		return false
	}
	if p.known(pid, addr, now, &m) {
		return false
	}
	p.counts.Found++
	if m.Perms&procmap.Exec == 0 {
		p.opt.Found(pid, &m, now, t)
		return true
	}
	return p.opt.Reread(pid, t) == nil // moved by mremap: perhaps more of it was
}

// Meet implements Querier.
func (p *Prober) Meet(tid int, t tracefs.Time) bool {
	if p.repeated(question{pid: tid}) || !p.mayAsk() {
		return false
	}
	if err := p.opt.Reread(tid, t); err != nil {
		return false
	}
	p.counts.Found++
	return true
}

// known reports whether an answer adds nothing: memory without a name.
func (p *Prober) known(pid int, addr uint64, now tracefs.Time, m *procmap.Mapping) bool {
	at, ok := p.opt.Spaces.Lookup(pid, addr, now)
	return ok && m.Kind == procmap.Anonymous && at.Mapping.File.Kind == procmap.Anonymous
}

// repeated reports whether a query was made before, in this second: what was not
// there may be by now.
func (p *Prober) repeated(q question) bool {
	if second := p.opt.Elapsed() / time.Second; second != p.second {
		p.second, p.left = second, perSecond
		clear(p.asked)
	}
	if p.asked[q] {
		return true
	}
	if len(p.asked) >= maxQuestions {
		clear(p.asked)
	}
	p.asked[q] = true
	return false
}

// mayAsk counts a query, and refuses it if there were too many lately.
func (p *Prober) mayAsk() bool {
	if p.left == 0 {
		p.counts.Refused++
		return false
	}
	p.left--
	p.counts.Asked++
	return true
}

// mapping is what a process has at an address now.
func (p *Prober) mapping(pid int, addr uint64) (procmap.Mapping, bool) {
	h, err := p.opt.Reader.Open(pid)
	if err != nil {
		return procmap.Mapping{}, false
	}
	defer h.Close()
	m, ok, err := h.At(addr)
	return m, ok && err == nil
}

// unchanged reports whether the process is the program that it was at t, and
// has been all the time until now, so that the answer is of the right one.
func (p *Prober) unchanged(pid int, t, now tracefs.Time) bool {
	if p.opt.Settle != nil {
		if err := p.opt.Settle(); err != nil {
			return false
		}
	}
	sp := p.opt.Spaces.Space(pid)
	return sp.At(now) != nil && sp.Began(t) == sp.Began(now)
}
