package sideband

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"

	"ustack/filemap"
	"ustack/filemap/elfid"
	"ustack/filemap/procmap"
	"ustack/filemap/rawstack"
	"ustack/filemap/space"
	"ustack/tracefs"
)

// errLog: the text is no log of a side band. errVersion: it is one of another version
// of ustack.
var (
	errLog     = errors.New("not a log of address spaces")
	errVersion = errors.New("a log of address spaces of an unknown version (known are 1 and 2)")
)

// Player rebuilds the history from a log.
type Player struct {
	History *History
	// Clock is the trace clock of the times.
	Clock string

	in      *bufio.Scanner
	line    int
	version int
	// until is the time of the log up to which it was played.
	until   tracefs.Time
	err     error // of the last line; io.EOF after the end
	process procmap.Process
	names   filemap.Names
}

// maxLogLine bounds a line: a name with each byte escaped.
const maxLogLine = 1 << 22

// maxSavedStacks bounds the raw stacks of a log, all of which are in memory at once. A
// packed log of some megabytes can have billions.
const maxSavedStacks = 1 << 24

// NewPlayer reads the head of a log. The history goes into the spaces.
func NewPlayer(spaces *space.Spaces, log io.Reader) (*Player, error) {
	return newPlayer(spaces, log, maxSavedStacks)
}

func newPlayer(spaces *space.Spaces, log io.Reader, stacks int) (*Player, error) {
	p := &Player{History: newHistory(spaces), in: bufio.NewScanner(log)}
	p.History.Stacks = rawstack.New(stacks)
	p.in.Buffer(nil, maxLogLine)
	line, err := p.next()
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, fmt.Errorf("reading a log of address spaces: %w", err)
	}
	if err := p.head(line); err != nil {
		return nil, fmt.Errorf("reading a log of address spaces, line 1: %w", err)
	}
	return p, nil
}

// head reads the first line. In a log of version 1, mappings can have gone or moved
// unseen.
func (p *Player) head(line []byte) error {
	rest, ok := bytes.CutPrefix(line, []byte(LogMark))
	version, clock, cut := bytes.Cut(rest, []byte(" clock="))
	if !ok || !cut {
		return fmt.Errorf("%w: it begins with %q", errLog, short(line))
	}
	switch string(version) {
	case "1":
		p.version = 1
		p.History.Unsure.begin(0, 0)
	case "2":
		p.version = 2
	default:
		return fmt.Errorf("%w: %q", errVersion, short(line))
	}
	p.Clock = string(clock)
	p.History.Clock = p.Clock
	_, err := clockID(p.Clock)
	return err
}

// Load reads a log to its end. After an error the history has all that was read
// before it.
//
// Nothing is forgotten, as a Band does after a while, and everything is known at
// once: what a live lookup missed, because the process was read only later, this
// history finds, as late.
func Load(spaces *space.Spaces, log io.Reader) (*History, error) {
	p, err := NewPlayer(spaces, log)
	if err != nil {
		return nil, err
	}
	return p.History, p.To(space.Forever)
}

// To plays the changes up to the first Drain after t, when all that had happened up
// to t was known. A player need not come to the end: the contents of a long log
// need not be in memory all at once (see History.Expire).
func (p *Player) To(t tracefs.Time) error {
	for p.err == nil && (p.until < t || t == space.Forever) {
		p.err = p.step()
	}
	if p.err == nil || p.err == io.EOF {
		return nil
	}
	return fmt.Errorf("reading a log of address spaces, line %d: %w", p.line, p.err)
}

// next returns the next line, io.EOF after the last one.
func (p *Player) next() ([]byte, error) {
	p.line++
	if !p.in.Scan() {
		return nil, cmp.Or(p.in.Err(), io.EOF)
	}
	return p.in.Bytes(), nil
}

// step plays a change.
func (p *Player) step() error {
	line, err := p.next()
	if err != nil {
		return err
	}
	f := fields{rest: line}
	verb, t := f.word(), f.time()
	play, ok := verbs[string(verb)]
	if !ok || p.version == 1 && since2[string(verb)] {
		return fmt.Errorf("unknown change %q in version %d", short(line), p.version)
	}
	if f.bad != nil {
		return f.bad
	}
	return play(p, t, &f)
}

// verbs has a function for each change. Each function checks all of its line
// before it changes anything.
var verbs = map[string]func(p *Player, t tracefs.Time, f *fields) error{
	"fork":    numbers(func(h *History, t tracefs.Time, a, b int) { h.fork(a, b, t) }),
	"thread":  numbers(func(h *History, t tracefs.Time, a, b int) { h.thread(a, b, t) }),
	"exit":    numbers(func(h *History, t tracefs.Time, a, b int) { _ = h.exit(a, b, t) }),
	"seen":    numbers(func(h *History, t tracefs.Time, a, b int) { h.seen(a, b, t) }),
	"exec":    named((*History).exec),
	"loading": number((*History).loading),
	"loaded":  number((*History).loaded),
	"comm":    named((*History).comm),
	"gone":    number((*History).gone),
	"map":     (*Player).mapped,
	"unmap":   between((*space.Spaces).Unmap),
	"unknown": between((*space.Spaces).Unknown),
	"share":   numbers(func(h *History, t tracefs.Time, a, b int) { h.shared(a, b, t) }),
	"inherit": numbers(func(h *History, t tracefs.Time, a, b int) { h.inherits(a, b, t) }),
	"unshare": number((*History).unshared),
	"compat":  number((*History).compat),
	"written": (*Player).written,
	"found":   (*Player).found,
	"read":    (*Player).read,
	"layout":  (*Player).layout,
	"lost":    missing((*History).lost),
	"unseen":  missing((*History).unseen),
	"whole":   moment((*History).whole),
	"sure":    moment((*History).sure),
	"until":   (*Player).reach,
	"trace":   (*Player).trace,
	"vdso":    (*Player).vdso,
	"stack":   (*Player).stack,
	"nostack": (*Player).loseStacks,
}

// since2 are the changes that version 1 does not have.
var since2 = map[string]bool{
	"unmap": true, "unknown": true, "share": true, "compat": true, "written": true, "unseen": true, "whole": true, "stack": true, "nostack": true, "trace": true,
	"layout": true, "inherit": true,
}

// number plays a change that is a process.
func number(do func(h *History, pid int, t tracefs.Time)) func(*Player, tracefs.Time, *fields) error {
	return func(p *Player, t tracefs.Time, f *fields) error {
		pid := f.pid()
		if err := f.end(); err != nil {
			return err
		}
		do(p.History, pid, t)
		return nil
	}
}

// numbers plays a change that is two numbers.
func numbers(do func(h *History, t tracefs.Time, a, b int)) func(*Player, tracefs.Time, *fields) error {
	return func(p *Player, t tracefs.Time, f *fields) error {
		a, b := f.pid(), f.pid()
		if err := f.end(); err != nil {
			return err
		}
		do(p.History, t, a, b)
		return nil
	}
}

// named plays a change that is a process and a name.
func named(do func(h *History, pid int, name string, t tracefs.Time)) func(*Player, tracefs.Time, *fields) error {
	return func(p *Player, t tracefs.Time, f *fields) error {
		pid, name := f.pid(), f.name(&p.names)
		if f.bad != nil {
			return f.bad
		}
		do(p.History, pid, name, t)
		return nil
	}
}

func (p *Player) mapped(t tracefs.Time, f *fields) error {
	pid, m := f.pid(), f.mapping(&p.names)
	if f.bad != nil {
		return f.bad
	}
	p.History.mapped(pid, &m, t)
	return nil
}

// between plays a change of a process between two addresses.
func between(do func(s *space.Spaces, pid int, start, end uint64, t tracefs.Time) bool) func(*Player, tracefs.Time, *fields) error {
	return func(p *Player, t tracefs.Time, f *fields) error {
		const hex = 16
		pid, start, end := f.pid(), f.number(f.word(), hex, 64, "address"), f.number(f.word(), hex, 64, "address")
		if start >= end {
			f.fail("range of addresses")
		}
		if err := f.end(); err != nil {
			return err
		}
		do(p.History.Spaces, pid, start, end, t)
		return nil
	}
}

func (p *Player) written(t tracefs.Time, f *fields) error {
	id, ok := elfid.Parse(f.word())
	if !ok {
		f.fail("build ID")
	}
	name := f.name(&p.names)
	if f.bad != nil {
		return f.bad
	}
	p.History.written([]mappedFile{{name, id}}, t)
	return nil
}

func (p *Player) found(t tracefs.Time, f *fields) error {
	after, pid, m := f.time(), f.pid(), f.mapping(&p.names)
	if f.bad != nil {
		return f.bad
	}
	p.History.found(pid, &m, t, after)
	return nil
}

// missing plays a loss of records.
func missing(do func(h *History, cpu int, n uint64, from, t tracefs.Time)) func(*Player, tracefs.Time, *fields) error {
	return func(p *Player, t tracefs.Time, f *fields) error {
		from, cpu, n := f.time(), f.pid(), f.decimal(64)
		if err := f.end(); err != nil {
			return err
		}
		do(p.History, cpu, n, from, t)
		return nil
	}
}

func (p *Player) stack(t tracefs.Time, f *fields) error {
	tid := f.pid()
	var addrs [rawstack.Depth]uint64
	n := 0
	for ; len(f.rest) > 0 && n < len(addrs); n++ {
		addrs[n] = f.number(f.word(), 16, 64, "address")
	}
	if n == 0 {
		f.fail("address")
	}
	if err := f.end(); err != nil {
		return err
	}
	p.History.Stack(tid, t, addrs[:n])
	return nil
}

func (p *Player) loseStacks(t tracefs.Time, f *fields) error {
	from, n := f.time(), f.decimal(64)
	if err := f.end(); err != nil {
		return err
	}
	p.History.LoseStacks(n, from, t)
	return nil
}

// moment plays a change that is a time.
func moment(do func(h *History, t tracefs.Time)) func(*Player, tracefs.Time, *fields) error {
	return func(p *Player, t tracefs.Time, f *fields) error {
		if err := f.end(); err != nil {
			return err
		}
		do(p.History, t)
		return nil
	}
}

func (p *Player) reach(t tracefs.Time, f *fields) error {
	if err := f.end(); err != nil {
		return err
	}
	p.until, p.History.Until = t, t
	return nil
}

func (p *Player) trace(_ tracefs.Time, f *fields) error {
	id := string(f.word())
	if err := f.end(); err != nil {
		return err
	}
	p.History.Trace = id
	return nil
}

func (p *Player) vdso(_ tracefs.Time, f *fields) error {
	id, ok := elfid.Parse(f.word())
	if !ok {
		f.fail("build ID")
	}
	if err := f.end(); err != nil {
		return err
	}
	p.History.VDSO = id
	return nil
}

// read plays a reading of a process, with the lines that follow.
func (p *Player) read(t tracefs.Time, f *fields) error {
	q, after := &p.process, f.time()
	*q = procmap.Process{PID: f.pid(), Mappings: q.Mappings[:0]}
	q.Stat.StartTime = f.decimal(64)
	n, part, ok := readLines(f.word())
	if !ok {
		f.fail("number of mappings")
	}
	q.Stat.Comm = f.name(&p.names)
	if f.bad != nil {
		return f.bad
	}
	if err := p.mappings(n, func(m *procmap.Mapping) { q.Mappings = append(q.Mappings, *m) }); err != nil {
		return err
	}
	p.History.read(q, nil, part, t, after)
	return nil
}

// short returns the beginning of a line, for an error.
func short(line []byte) []byte {
	const shown = 100
	return line[:min(len(line), shown)]
}
