package live

import (
	"ustack/filemap"
	"ustack/filemap/procmap"
	"ustack/filemap/proof"
	"ustack/filemap/space"
	"ustack/tracefs"
)

// Processes has the processes of a trace while they are there. It is for the goroutine
// of the sink. It implements futex.Mappings, futex.Layouts and futex.Programs of package render/futex.
type Processes struct {
	follow *following
}

// Reader returns the reader of executable mappings for the goroutine of the sink.
func (p *Processes) Reader() *procmap.Reader { return p.follow.own }

// AllReader returns the reader of all mappings for that goroutine.
func (p *Processes) AllReader() *procmap.Reader { return p.follow.all }

// Process returns the process of a thread.
func (p *Processes) Process(tid int32) (int32, bool) {
	pid, ok := p.follow.process(int(tid))
	return int32(pid), ok
}

// Program returns when the program that a thread runs at a time began. ok is false if
// it is not known exactly.
func (p *Processes) Program(tid int32, at tracefs.Time) (began tracefs.Time, ok bool) {
	_, began, exact, ok := p.follow.attributor.Program(int(tid), at)
	return began, ok && exact
}

// ProcessAt returns the process of a thread at a time.
func (p *Processes) ProcessAt(tid int32, at tracefs.Time) (pid int32, ok bool) {
	n, _, _, ok := p.follow.attributor.Program(int(tid), at)
	return int32(n), ok
}

// Name returns the name of the program that a thread runs at a time, "" if unknown.
func (p *Processes) Name(tid int32, at tracefs.Time) string {
	return p.follow.attributor.Name(int(tid), at)
}

// Layout returns what a process had mapped around an address at a time.
func (p *Processes) Layout(tid, _ int32, _ []byte, at tracefs.Time, timed bool, addr uint64) (filemap.Layout, filemap.Trust) {
	if !timed {
		return nil, filemap.NoTrust
	}
	return p.follow.layouts.Layout(int(tid), at, addr)
}

// Stays reports whether a layout that Layout has returned for a thread holds at another
// time.
func (p *Processes) Stays(tid, _ int32, _ []byte, at tracefs.Time, timed bool, _ uint64, l filemap.Layout) proof.Stay {
	if !timed {
		return proof.Assumed
	}
	return p.follow.layouts.Stays(int(tid), at, l)
}

// process returns the process of a thread.
func (fl *following) process(tid int) (int, bool) {
	pid, _, ok := fl.threads.PID(tid, space.Monotonic())
	if !ok {
		// A thread that has ended may be known from before.
		pid, _, ok = fl.threads.PID(tid, space.Monotonic()-recently)
	}
	if !ok {
		pid, ok = fl.early.process(tid)
	}
	return pid, ok
}

// recently is how far back to look for a thread that has ended.
const recently = 5e9

// at reads what a process has mapped at an address. there is false if it has ended, and was
// read before.
func (fl *following) at(pid int, addr uint64) (m procmap.Mapping, there, ok bool) {
	h, err := fl.all.Open(pid)
	if err == nil {
		defer h.Close()
		m, ok, err = h.At(addr)
	}
	if err != nil {
		m, ok = fl.early.at(pid, addr)
		return m, false, ok
	}
	return m, true, ok
}
