package whole

import (
	"debug/elf"
	"errors"
	"fmt"
	"path"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"ustack/filemap/hotspot"
	"ustack/filemap/jitcode"
	"ustack/filemap/procmap"
	"ustack/filemap/procmem"
	"ustack/filemap/space"
	"ustack/filemap/symbol/image"
	"ustack/filemap/unwind"
	"ustack/tracefs"
)

// RuntimeOptions are what Runtimes work with.
type RuntimeOptions struct {
	// Memory reads the memory of processes, nil for none; functions of Java code are kept in
	// Names, nil if these are not needed.
	Memory *procmem.Reader
	Names  *hotspot.Names
	// Open opens what a process has mapped.
	Open func(pid int, m *space.Mapping) (*unwind.Binary, error)
	// Now is the time by the clock of the stacks.
	Now func() tracefs.Time
}

// Runs is a program that a process runs.
type Runs struct {
	PID int
	// Began is a larger number for what the process runs later.
	Began tracefs.Time
	// Library returns the code of libjvm.so, nil if that is not mapped.
	Library func() *space.Mapping
}

// Runtimes know the code that processes whose stacks are unwound have made: by their Java
// virtual machine, else by the code itself. What the methods that count return may be asked for
// by another goroutine than the rest.
//
// Invariant: a process has one virtual machine at most, that of the program that it runs.
type Runtimes struct {
	opt   RuntimeOptions
	count hotspot.Counts
	made  jitcode.Counts // of processes without a virtual machine
	of    map[int]*process
	tick  int
	// unknown is why the last virtual machine that is not known is not.
	unknown atomic.Pointer[unknown]
	looking looking
}

// unknown is why the virtual machine of a process is not known.
type unknown struct {
	pid int
	err error
}

// process is a process that has a virtual machine, or may have one.
type process struct {
	began   tracefs.Time     // the program
	next    tracefs.Time     // when it is looked at again
	wait    tracefs.Time     // after that
	machine *hotspot.Machine // nil if it has none that is known
	java    bool             // it has one
	code    *jitcode.Process // nil before a stack has led through such code, and with java
	tick    int
}

const (
	// maxMachines bounds the processes that are kept.
	maxMachines = 32
	// tryMachine is how long a process is not looked at again that has no virtual machine;
	// each time that one is not known, twice as long, up to mostTry: what it has in its
	// memory instead can take long to read.
	tryMachine, mostTry = tracefs.Time(100e6), tracefs.Time(30e9)
	// library is the file that has the virtual machine.
	library = "libjvm.so"
)

var (
	// errNoMachine: the process has not loaded a virtual machine.
	errNoMachine = errors.New("no virtual machine")
	// errLeftOut: see hotspot.Supported.
	errLeftOut = errors.New("this build does not know OpenJDK")
)

// NewRuntimes returns Runtimes, which know nothing yet.
func NewRuntimes(opt RuntimeOptions) *Runtimes { return &Runtimes{opt: opt} }

// Close ends the looking for new code.
func (ms *Runtimes) Close() { ms.looking.close() }

// Prepare looks at a process that may run Java: code counts from then on.
func (ms *Runtimes) Prepare(r *Runs) { ms.process(r) }

// At returns what knows the code that a process makes, for a stack that was taken between two
// times; nil if nothing does.
func (ms *Runtimes) At(r *Runs, from, to tracefs.Time) unwind.Runtime {
	p := ms.process(r)
	switch {
	case p == nil || p.java && p.machine == nil:
		return nil
	case hotspot.Supported && p.java:
		return p.machine.At(from, to)
	case !jitcode.Supported:
		return nil
	}
	return p.made(ms, r.PID).At(from, to)
}

// made returns what is known of the code that the process has made.
func (p *process) made(ms *Runtimes, pid int) *jitcode.Process {
	if p.code == nil {
		p.code = jitcode.New(&memoryOf{ms.opt.Memory, pid}, &ms.made, ms.opt.Now)
	}
	return p.code
}

// process returns a process that runs a program.
func (ms *Runtimes) process(r *Runs) *process {
	if ms.opt.Memory == nil {
		return nil
	}
	ms.tick++
	p := ms.of[r.PID]
	if p != nil && p.began > r.Began {
		return nil // the program of before is not there any more
	}
	if p == nil || p.began != r.Began {
		p = &process{began: r.Began, wait: tryMachine}
		ms.keep(r.PID, p)
	}
	p.tick = ms.tick
	if p.machine == nil && ms.opt.Now() >= p.next {
		ms.try(r, p)
		p.next = ms.opt.Now() + p.wait
	}
	return p
}

// try looks for the virtual machine of a process.
func (ms *Runtimes) try(r *Runs, p *process) {
	var err error
	if p.machine, err = ms.open(r); hotspot.Supported && err == nil {
		ms.looking.add(p.machine)
	}
	p.java = !errors.Is(err, errNoMachine)
	if err != nil && !errors.Is(err, errNoMachine) {
		p.wait = min(2*p.wait, mostTry)
	}
	why := ms.unknown.Load()
	switch {
	case err == nil && why != nil && why.pid == r.PID:
		ms.unknown.Store(nil)
	case err != nil && !errors.Is(err, errNoMachine) && !errors.Is(err, unix.ESRCH):
		ms.unknown.Store(&unknown{r.PID, err})
	}
}

// keep keeps a process, and drops the one that was used before all others if there are too
// many.
func (ms *Runtimes) keep(pid int, p *process) {
	if ms.of == nil {
		ms.of = make(map[int]*process)
	}
	if len(ms.of) >= maxMachines {
		oldest := 0
		for pid, p := range ms.of {
			if first := ms.of[oldest]; first == nil || p.tick < first.tick {
				oldest = pid
			}
		}
		ms.drop(oldest)
	}
	ms.drop(pid)
	ms.of[pid] = p
}

// drop forgets a process.
func (ms *Runtimes) drop(pid int) {
	if p := ms.of[pid]; p != nil && p.machine != nil {
		ms.looking.remove(p.machine)
	}
	delete(ms.of, pid)
}

// open finds the virtual machine of a process.
func (ms *Runtimes) open(r *Runs) (*hotspot.Machine, error) {
	m := r.Library()
	if m == nil {
		return nil, errNoMachine
	}
	if !hotspot.Supported {
		return nil, errLeftOut
	}
	symbols, err := ms.exported(r.PID, m)
	if err != nil {
		return nil, fmt.Errorf("reading %q: %w", m.File.Name, err)
	}
	return hotspot.Open(&memoryOf{ms.opt.Memory, r.PID}, symbols, ms.opt.Names, &ms.count, ms.opt.Now)
}

// libraryOf returns the code of libjvm.so, nil if it is not mapped.
func libraryOf(v *space.Version) *space.Mapping {
	if v == nil {
		return nil
	}
	for m := range v.Mappings.All() {
		if m.Perms&procmap.Exec != 0 && IsMachine(m.File.Kind, m.File.Name) {
			return m
		}
	}
	return nil
}

// IsMachine reports whether a mapped file is libjvm.so, by its name.
func IsMachine(kind procmap.Kind, name string) bool {
	return kind.HasFile() && path.Base(strings.TrimSuffix(name, " (deleted)")) == library
}

// exported returns the addresses of what libjvm.so exports about itself.
func (ms *Runtimes) exported(pid int, m *space.Mapping) (hotspot.Symbols, error) {
	b, err := ms.opt.Open(pid, m)
	if err != nil {
		return nil, err
	}
	if b.Close != nil {
		defer b.Close()
	}
	x, err := image.Open(b, b.Size)
	if err != nil {
		return nil, err
	}
	if x.Machine != elf.EM_X86_64 {
		return nil, hotspot.ErrVersion
	}
	start, ok := x.Address(m.Offset)
	table := x.Table(elf.SHT_DYNSYM)
	if !ok || table == nil {
		return nil, errors.New("it exports nothing")
	}
	names, err := x.Strings(table)
	if err != nil {
		return nil, err
	}
	out := make(hotspot.Symbols)
	const most = 256
	err = x.Symbols(table, func(e image.Symbol) {
		if name, ok := names.String(uint64(e.Name)); ok && strings.HasPrefix(name, hotspot.Exported) && len(out) < most {
			out[name] = m.Start - start + e.Addr
		}
	})
	return out, err
}

// memoryOf is the memory of a process. It implements hotspot.Memory.
type memoryOf struct {
	reader *procmem.Reader
	pid    int
}

// Read implements hotspot.Memory.
func (m *memoryOf) Read(parts ...procmem.Part) error { return m.reader.Read(m.pid, parts...) }

// Prepare looks at a process that may run Java: code counts from then on.
func (s *Stage) Prepare(pid int) {
	now := s.opt.Now()
	if at, sp, ok := s.opt.Space(pid, now); ok {
		s.runtimes.Prepare(runsOf(at, sp, now))
	}
}

// runsOf is what a process runs at a time.
func runsOf(pid int, sp *space.Space, at tracefs.Time) *Runs {
	return &Runs{PID: pid, Began: sp.Began(at), Library: func() *space.Mapping { return libraryOf(sp.At(at)) }}
}

// named keeps the functions of the frames that were found for a stack of the trace.
func (s *Stage) named(tid int32, at tracefs.Time, list []hotspot.Named) {
	s.opt.Names.Put(tid, at, list)
}

// functions returns the functions of the frames that were found, of those that have one.
func (s *Stage) functions() (list []hotspot.Named) {
	if s.opt.Names == nil {
		return nil
	}
	for i := range s.frames {
		if f := &s.frames[i]; f.Code != nil {
			list = append(list, hotspot.Named{Frame: i, Addr: f.PC, Code: f.Code})
		}
	}
	return list
}

// JavaCounts is what became of the frames of Java code.
type JavaCounts struct {
	Frames, Unnamed, Fresh, Changed, Unread uint64
	// Unknown is why the virtual machine of a process is not known, nil if there is none.
	Unknown error
}

// Runtimes returns what knows the code that processes have made.
func (s *Stage) Runtimes() *Runtimes { return s.runtimes }

// Java returns what became of the frames of Java code so far.
func (ms *Runtimes) Java() JavaCounts {
	c := &ms.count
	out := JavaCounts{Frames: c.Frames.Load(), Unnamed: c.Unnamed.Load(), Fresh: c.Fresh.Load(), Changed: c.Changed.Load(), Unread: c.Unread.Load()}
	if why := ms.unknown.Load(); why != nil {
		out.Unknown = fmt.Errorf("process %d: %w", why.pid, why.err)
	}
	return out
}

// MadeCounts is what became of the frames of code without a file that no virtual machine
// knows.
type MadeCounts struct{ Frames, Fresh, Changed, Other, Unread uint64 }

// Made returns what became of the frames of code without a file so far.
func (ms *Runtimes) Made() MadeCounts {
	c := &ms.made
	return MadeCounts{c.Frames.Load(), c.Fresh.Load(), c.Changed.Load(), c.Other.Load(), c.Unread.Load()}
}
