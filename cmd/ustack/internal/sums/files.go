package sums

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"ustack/filemap"
	"ustack/filemap/byid"
	"ustack/filemap/procmap"
	"ustack/filemap/resolve"
	"ustack/filemap/space"
	"ustack/tracefs"
	"ustack/tracefs/bpffutex"
)

// files finds the files of frames. A build ID is looked for in what the process has mapped, then
// where byid looks; an address is looked up in what the process has mapped. Both are read after
// the wait, so nothing is more than late.
//
// Invariants: processes are no more than maxProcesses, and have about maxKept mappings at most; what
// is known of one is of one program of it. The readers remember names and files of all processes
// that they have read: they, too, are no older than what is known.
type files struct {
	readers
	open      func() (readers, error)
	kept      int       // mappings of all processes
	lately    time.Time // when a process was read last
	page      uint64    // size of one
	finder    *byid.Finder
	files     *filemap.Files
	processes map[int32]*program
	unknown   map[filemap.BuildID]*filemap.Memory // that no file here has
	work      resolve.Stack                       // that stack has returned
	stacks    remembered
	walks     *walks
}

// readers read what processes have mapped.
type readers struct {
	reader *procmap.Reader // with build IDs
	places *procmap.Reader // without
}

// program is what a process has mapped, by build ID.
type program struct {
	memory, born uint64 // as the kernel has them; 0 if they are not known yet
	read         time.Time
	version      uint64 // of paths and code: another one once they have been read again
	paths        map[filemap.BuildID]string
	code         []procmap.Mapping // executable, of files
	other        []procmap.Mapping // executable, of no file
	pages        uint64            // of code, as Wait.Code; 0 if they are not known
	changes      uint64            // while that was read, as Wait.Changes
	from, to     tracefs.Time      // when it was read
	unread       unread            // why it could not be when that was tried last
	walked       walked
}

// unread is why it is not known what a process has mapped.
type unread uint8

const (
	wasRead     unread = iota
	hasEnded           // or it runs another program
	hasChanged         // code was mapped meanwhile
	notReadable        // it may not be read, or has too much mapped
)

// mappings returns how many there are.
func (p *program) mappings() int { return len(p.code) + len(p.other) }

const (
	maxProcesses = 4096
	maxCode      = 4096 // mappings of one
	maxKept      = 1 << 15
	// readAgain is how soon a process is read again for a build ID that it did not have.
	readAgain = time.Second
)

func newFiles(open func() (readers, error), find byid.Options) (*files, error) {
	f := &files{open: open, page: uint64(os.Getpagesize()), finder: byid.New(find), unknown: make(map[filemap.BuildID]*filemap.Memory), stacks: newRemembered()}
	return f, f.renew()
}

// renew forgets all processes, their files and names: in days there are more than memory has room
// for.
func (f *files) renew() error {
	fresh, err := f.open()
	if err == nil {
		f.readers = fresh
	}
	f.processes, f.files, f.kept = make(map[int32]*program), filemap.NewFiles(), 0
	f.stacks.clear()
	f.walks.renew()
	return err
}

// know reads what a process has mapped, before it is needed: it may have ended then.
func (f *files) know(pid int32) {
	f.program(&bpffutex.Futex{TGID: pid}).read = time.Time{} // it may load libraries yet
}

// program returns what is known of a process.
func (f *files) program(of *bpffutex.Futex) *program {
	p := f.processes[of.TGID]
	if p != nil && p.memory == 0 && of.Memory != 0 {
		// It may have executed another program since: what it has is read anew, and if it has
		// ended, build IDs stay true, addresses do not.
		f.kept -= p.mappings()
		*p = program{memory: of.Memory, born: of.Born, paths: p.paths, version: p.version + 1}
		f.read(of.TGID, p)
	}
	if p != nil && p.memory == of.Memory && p.born == of.Born {
		return p
	}
	if len(f.processes) >= maxProcesses || f.kept >= maxKept {
		_ = f.renew() // else the readers stay
	}
	if old := f.processes[of.TGID]; old != nil {
		f.kept -= old.mappings()
	}
	p = &program{memory: of.Memory, born: of.Born, paths: make(map[filemap.BuildID]string)}
	f.processes[of.TGID] = p
	f.read(of.TGID, p)
	return p
}

// read reads what a process has mapped now.
func (f *files) read(pid int32, p *program) {
	p.read = time.Now()
	f.lately = p.read
	from, before := space.Monotonic(), f.changes(p)
	now, err := f.mappings(pid)
	switch {
	case errors.Is(err, procmap.ErrGone), err == nil && !f.same(pid, p.born):
		p.unread = hasEnded
		return
	case err != nil:
		p.unread = notReadable
		return // a part, or nothing: there are other ways
	}
	now.changes, now.from, now.to = before, from, space.Monotonic()
	switch after := f.changes(p); {
	case now.mappings() == 0:
		now.pages, now.unread = 0, hasEnded // it has no memory any more
	case max(len(now.code), len(now.other)) >= maxCode:
		now.pages, now.unread = 0, notReadable
	case before != after || before == bpffutex.Unsettled:
		now.pages, now.unread = 0, hasChanged
	}
	f.keep(p, &now)
}

// keep has a program have what was read of it.
func (f *files) keep(p, now *program) {
	f.kept += now.mappings() - p.mappings()
	p.code, p.other, p.pages, p.changes, p.from, p.to, p.unread = now.code, now.other, now.pages, now.changes, now.from, now.to, now.unread
	p.walked.tables = nil
	p.version++
	for id, path := range now.paths {
		p.paths[id] = path
	}
}

// mappings returns what a process has mapped as code. Two files with one build ID leave none.
func (f *files) mappings(pid int32) (now program, err error) {
	h, err := f.reader.Open(int(pid))
	if err != nil {
		return now, err
	}
	defer h.Close()
	now.paths = make(map[filemap.BuildID]string)
	err = h.Each(func(m *procmap.Mapping) bool {
		if m.Perms&procmap.Exec == 0 || m.Kind == procmap.Vsyscall {
			return true
		}
		if m.Perms&procmap.Write == 0 {
			now.pages += (m.End - m.Start) / f.page
		}
		if !m.Kind.HasFile() {
			now.other = append(now.other, *m)
			return len(now.other) < maxCode
		}
		now.code = append(now.code, *m)
		if m.Kind != procmap.File || m.BuildID.IsZero() {
			return len(now.code) < maxCode
		}
		id := filemap.BuildID(m.BuildID.Padded())
		if old, ok := now.paths[id]; ok && old != m.Name {
			now.paths[id] = ""
		} else {
			now.paths[id] = m.Name
		}
		return len(now.code) < maxCode
	})
	return now, err
}

// changes returns the number of changes of what a program has mapped, bpffutex.Unsettled if it is
// not known.
func (f *files) changes(p *program) uint64 {
	if f.walks == nil || f.walks.stopped || p.memory == 0 {
		return bpffutex.Unsettled
	}
	n, err := f.walks.kernel.Changes(p.memory)
	if err != nil {
		return bpffutex.Unsettled
	}
	return n
}

// path returns the path of a file that a process has mapped.
func (f *files) path(of *bpffutex.Futex, id filemap.BuildID) (string, filemap.Trust) {
	p := f.program(of)
	path, ok := p.paths[id]
	if !ok && time.Since(p.read) >= readAgain {
		f.read(of.TGID, p)
		if path, ok = p.paths[id]; !ok {
			p.paths[id] = "" // its code was there before: it has gone, or has no path
		}
	}
	if path != "" {
		return path, filemap.Late
	}
	return f.finder.Find(id)
}

// stack returns a wait's stack with its files, nil if it has none. It is valid until the next
// call.
func (f *files) stack(w *bpffutex.Wait) *resolve.Stack {
	if len(w.Stack) == 0 {
		return nil
	}
	p := f.program(&w.Futex)
	if w.Copy != nil || w.Known != 0 {
		if s := f.walks.stack(p, w); s != nil {
			return s
		}
	}
	if s := f.stacks.get(p, w.Raw, w.Cut); s != nil {
		return s
	}
	version := p.version
	s := f.attributed(w)
	if p.version == version && f.lasts(p, w) { // else some frames are of what was known before
		return f.stacks.put(p, w.Raw, w.Cut, s)
	}
	return s
}

// attributed finds the files of a wait's stack.
func (f *files) attributed(w *bpffutex.Wait) *resolve.Stack {
	s := &f.work
	*s = resolve.Stack{Stock: w.Cut, Frames: s.Frames[:0], Attributions: s.Attributions[:0]}
	f.kernel(s, w, w.Stack)
	return s
}

// kernel adds frames that the kernel found for a wait.
func (f *files) kernel(s *resolve.Stack, w *bpffutex.Wait, frames []bpffutex.Frame) {
	for i := range frames {
		frame := tracefs.Frame{Addr: frames[i].Number, HasAddr: true, Form: tracefs.FormBuildID}
		var o resolve.Attribution
		if frames[i].IsAddress {
			frame.Form = tracefs.FormPlain
			o = f.walks.address(f.program(&w.Futex), w, frames[i].Number)
		} else {
			o = f.byID(w, &frames[i])
		}
		s.Frames, s.Attributions = append(s.Frames, frame), append(s.Attributions, o)
	}
}

// byID returns the attribution of a frame with a build ID.
func (f *files) byID(w *bpffutex.Wait, frame *bpffutex.Frame) resolve.Attribution {
	id := filemap.BuildID(frame.BuildID)
	if frame.Number >= filemap.NoFileOffset {
		return resolve.Unnamed(filemap.NoVMA)
	}
	if id.IsZero() { // files can have such an ID, and all of them the same
		return resolve.Unnamed(filemap.NoPath)
	}
	path, trust := f.path(&w.Futex, id)
	if trust == filemap.NoTrust {
		return f.nameless(id, frame.Number)
	}
	if !f.runs(&w.Futex, id, frame.Number) {
		return resolve.Unnamed(filemap.NotCode)
	}
	o := resolve.Named(f.files.InternID([]byte(path), id), trust)
	if o.File == nil {
		return resolve.Unnamed(filemap.NoPath)
	}
	o.Offset, o.HasOffset = frame.Number, true
	return o
}

// runs reports whether a process can run code at an offset in the file with a build ID, as far as
// its mappings of that file are known: the kernel takes an address in the hole before one for an
// offset before its own (see filemap.NoFileOffset), which can be in the file.
func (f *files) runs(of *bpffutex.Futex, id filemap.BuildID, offset uint64) bool {
	p := f.program(of)
	maps, runs := p.maps(id, offset)
	if maps && !runs && time.Since(p.read) >= readAgain {
		f.read(of.TGID, p)
		maps, runs = p.maps(id, offset)
	}
	return runs || !maps
}

// maps reports whether a process has mapped a file with a build ID as code, and such an offset.
func (p *program) maps(id filemap.BuildID, offset uint64) (file, at bool) {
	for i := range p.code {
		if m := &p.code[i]; !m.BuildID.IsZero() && filemap.BuildID(m.BuildID.Padded()) == id {
			file = true
			at = at || offset >= m.Offset && offset-m.Offset < m.End-m.Start
		}
	}
	return file, at
}

// nameless returns the attribution of an offset in a file of which only the build ID is known.
func (f *files) nameless(id filemap.BuildID, offset uint64) resolve.Attribution {
	m := f.unknown[id]
	if m == nil {
		if len(f.unknown) >= maxProcesses {
			clear(f.unknown)
		}
		m = &filemap.Memory{Name: "[build_id=" + id.Hex() + "]", Exec: true}
		f.unknown[id] = m
	}
	o := resolve.Unnamed(filemap.NoPath)
	o.Memory, o.Offset, o.HasOffset = m, offset, true
	return o
}

// mapped returns the attribution of an address in a mapping of a file.
func (f *files) mapped(m *procmap.Mapping, addr uint64) resolve.Attribution {
	o := resolve.Named(f.files.InternID([]byte(m.Name), filemap.BuildID(m.BuildID.Padded())), filemap.Late)
	if o.File != nil {
		o.Offset, o.HasOffset = m.FileOffset(addr), true
	}
	return o
}

// same reports whether the process with a number is the one that began at a time, which the
// kernel has in nanoseconds without time of suspension; /proc has it in ticks, with that.
func (f *files) same(pid int32, born uint64) bool {
	if born == 0 {
		return true // not known yet
	}
	stat, err := f.reader.Stat(int(pid))
	if err != nil {
		return false
	}
	const tick, rounding = 1e9 / 100, 2e9 / 100
	began := stat.StartTime * tick
	return began+rounding >= born && began <= born+suspended()+rounding
}

// suspended is how long the machine was suspended since it was booted, in nanoseconds.
func suspended() uint64 {
	var boot, mono unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &mono) != nil || unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot) != nil {
		return 0
	}
	return uint64(max(boot.Nano()-mono.Nano(), 0))
}

func (f *files) close() {
	f.finder.Close()
	f.walks.close()
}
