package sums

import (
	"debug/elf"
	"encoding/binary"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"time"

	"ustack/filemap"
	"ustack/filemap/anoncode"
	"ustack/filemap/openfile"
	"ustack/filemap/procmap"
	"ustack/filemap/procmem"
	"ustack/filemap/resolve"
	"ustack/filemap/space"
	"ustack/filemap/symbolize"
	"ustack/filemap/unwind"
	"ustack/filemap/whole"
	"ustack/tracefs"
	"ustack/tracefs/bpffutex"
)

// walks unwinds the copies of stacks that come with long waits, by the tables of the files that their
// processes have mapped, and through the code that these have made.
//
// What a process has mapped is read before or after the wait, so it counts for a stack only if it was
// the same then: between the two, no call was made or under way in its memory that can put other code
// in its place (bpffutex.Source.Changes), and the kernel has missed none; as many pages of code are
// mapped as when the wait ended; and the first frame is where the kernel found it (program.begins).
// Otherwise the stack stays the kernel's, its addresses have no file, and the reason is counted.
type walks struct {
	files    *files
	opened   *openfile.Opener
	opener   *whole.Opener
	unwinder *unwind.Unwinder
	made     made
	holes    *whole.Holes
	kernel   copier
	frames   []unwind.Frame
	raw      []byte
	rested   time.Time
	missed   missed
	stopped  bool // no changes are counted any more: what is read now proves nothing
	alike    alike
	count    walkCounts
}

// copier copies the stacks of long waits: bpffutex.Source.
type copier interface {
	// Copy sets how many bytes are copied of stacks of a process.
	Copy(pid int32, bytes uint32) error
	// Changes returns a number that is another one once code has been mapped anew in a memory
	// (bpffutex.Futex), bpffutex.Unsettled while that may be.
	Changes(memory uint64) (uint64, error)
	// Missed returns how often the kernel has not noted a change, or a wait.
	Missed() (uint64, error)
	recognizer
}

// walkCounts is what became of the waits with a copy of their stack.
type walkCounts struct {
	Whole uint64 // unwound
	// The others have the kernel's stack: the process has ended before it was looked at, has
	// changed what it has mapped, or cannot be looked at; the kernel found the first frame in
	// another file; nothing could be unwound.
	Ended, Changed, Unreadable, Unlike, Failed uint64
	Unrecognized                               uint64 // these have the first frame: see alike
	Short                                      uint64 // copies that were too short, of those that were unwound
	Unset                                      uint64 // times that more was to be copied and could not be
}

// walked is what unwinding needs of a program.
type walked struct {
	runs   uint64                  // number of what the process runs, 0 before code that it makes is looked for
	tables map[uint64]*unwind.File // by the addresses of their mappings
	again  time.Time               // when the program is read again, if it has changed
	pause  time.Duration           // after that
	copied uint32                  // bytes of stacks, 0 for firstCopy
}

const (
	// firstCopy is how many bytes are copied of the stacks of a process at first.
	firstCopy = 8 << 10
	// A program that has changed what it has mapped is read again after soonAgain, and after
	// twice as long each time up to readAgain if that does not help: compilers of code that runs
	// change it all the time.
	soonAgain = 20 * time.Millisecond
	// Where it helps, that takes one part of readPart of the time at most.
	readPart = 10
	// restEvery is how long a file stays open that no stack leads through, at least.
	restEvery = 3 * time.Second
	// memoryWait is how long the memory of a process is waited for. After that it is not read for a
	// minute.
	memoryWait = time.Second
)

// machines are instruction sets by GOARCH.
var machines = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}

// newWalks returns what unwinds stacks of processes that files knows. names: functions of Java code are
// wanted.
func newWalks(f *files, debugDirs []string, names bool, kernel copier) (*walks, error) {
	w := &walks{files: f, opened: openfile.NewOpener(0), unwinder: unwind.New(0), kernel: kernel, rested: time.Now(), missed: missed{kernel: kernel}}
	w.alike = newAlike(kernel, &w.missed)
	vdso, err := anoncode.VDSOMemory()
	if err != nil {
		vdso = nil // there may be none: stacks end there then
	}
	separates, err := symbolize.NewSeparates(debugDirs, "", w.opened)
	if err != nil {
		w.close()
		return nil, err
	}
	w.opener = &whole.Opener{Reader: f.places, VDSO: vdso, Files: w.opened, Separates: separates}
	memory := procmem.New(memoryWait)
	w.made, w.holes = newMade(memory, w.opener, names), whole.NewHoles(memory)
	return w, nil
}

// close closes the files. Nil has none.
func (w *walks) close() {
	if w == nil {
		return
	}
	w.made.runtimes.Close()
	w.unwinder.Close()
	w.opened.Close()
}

// stack returns the stack of a wait with a copy, or of one that the kernel has recognized; nil if what
// its process had mapped is not known, or nothing is unwound by that. It is valid until the next call.
func (w *walks) stack(p *program, wait *bpffutex.Wait) *resolve.Stack {
	if wait.Known != 0 {
		s := w.alike.recognized(p, wait)
		if s == nil {
			w.count.Unrecognized++
		} else {
			w.count.Whole++
		}
		return s
	}
	if !w.known(p, wait) {
		w.count.refuse(p)
		return nil
	}
	w.made.prepare(p, int(wait.TGID))
	in := unwind.Input{Machine: machines[runtime.GOARCH], Max: mostFrames, Space: &view{walks: w, program: p, pid: int(wait.TGID), at: wait.To}}
	wait.Copy.Registers(in.Regs.Set)
	in.Stack = unwind.Stack{At: wait.Copy.SP, Bytes: wait.Copy.Stack}
	if s := w.alike.get(p, wait, &in.Regs); s != nil {
		w.count.Whole++
		return s
	}
	var end unwind.End
	w.frames, end = w.unwinder.Unwind(&in, w.frames[:0])
	if len(w.frames) == 0 {
		w.count.Failed++
		return nil
	}
	if !p.begins(wait, w.frames[0].PC) {
		w.count.Unlike++
		return nil
	}
	w.count.Whole++
	if end.Why == unwind.Short {
		w.short(p, wait, end.Want)
	}
	s := w.attributed(p, wait, &end)
	w.alike.put(p, wait, w.unwinder, &in, w.frames, &end, s)
	return s
}

// renew forgets what it knows of processes.
func (w *walks) renew() {
	if w != nil {
		w.alike.clear()
		w.made.clear()
		w.opener.Reader = w.files.places
	}
}

// mostFrames is as many as perf keeps (kernel.perf_event_max_stack).
const mostFrames = 127

// known reports whether what is known of a program is what the process had mapped when a wait ended.
// If it is not, it is read, unless it was a moment ago, or no reading can be of that time.
func (w *walks) known(p *program, wait *bpffutex.Wait) bool {
	if w.is(p, wait) {
		return true
	}
	now := time.Now()
	if w.stopped || wait.Changes == bpffutex.Unsettled || now.Before(p.walked.again) {
		return false
	}
	if now.Sub(p.walked.again) > readAgain {
		p.walked.pause = 0 // it has helped for so long
	}
	pause := min(max(2*p.walked.pause, soonAgain), readAgain)
	w.files.read(wait.TGID, p)
	if w.is(p, wait) {
		p.walked.pause, p.walked.again = 0, now.Add(max(soonAgain, readPart*time.Since(now)))
		return true
	}
	p.walked.pause, p.walked.again = pause, now.Add(pause)
	return false
}

// is reports whether what is known of a program is what was mapped when a wait ended.
func (w *walks) is(p *program, wait *bpffutex.Wait) bool {
	return p.pages > 0 && p.pages == wait.Code && wait.Changes != bpffutex.Unsettled && p.changes == wait.Changes &&
		w.missed.none(min(p.from, wait.To), max(p.to, wait.To))
}

// stop notes that the kernel is about to count no changes any more. Nil has none.
func (w *walks) stop() {
	if w != nil {
		w.stopped = true
	}
}

// refuse counts a wait for which what is known of its program does not count.
func (c *walkCounts) refuse(p *program) {
	switch p.unread {
	case hasEnded:
		c.Ended++
	case notReadable:
		c.Unreadable++
	default:
		c.Changed++
	}
}

// missed is when the kernel did not run the programs that note changes: it says nothing of what was
// between then.
type missed struct {
	kernel interface{ Missed() (uint64, error) }
	n      uint64 // so far
	// No program was missed between these times.
	from, to tracefs.Time
}

// none reports whether no program was missed between two times, which are not to come.
func (m *missed) none(from, to tracefs.Time) bool {
	if to > m.to {
		now := space.Monotonic()
		n, err := m.kernel.Missed()
		if err != nil {
			return false
		}
		if n != m.n {
			m.n, m.from = n, space.Monotonic()
		}
		m.to = now
	}
	return from >= m.from && to <= m.to
}

// short has more copied of the stacks of a process: at least the bytes that one wants, or what comes
// after the page at which its copy ends.
func (w *walks) short(p *program, wait *bpffutex.Wait, want uint64) {
	w.count.Short++
	if c := wait.Copy; uint32(len(c.Stack)) != c.Asked {
		w.holes.Fill(int(wait.TGID), c.SP, len(c.Stack), space.Monotonic())
		return
	}
	need := min(uint64(len(wait.Copy.Stack))+want, bpffutex.MaxCopy)
	size := max(p.walked.copied, firstCopy)
	for uint64(size) < need {
		size *= 2
	}
	size = min(size, bpffutex.MaxCopy)
	if size <= p.walked.copied || size <= wait.Copy.Asked {
		return
	}
	if w.kernel.Copy(wait.TGID, size) == nil {
		p.walked.copied = size
	} else {
		w.count.Unset++
	}
}

// rest closes the files that no stack leads through, now and then. Nil has none.
func (w *walks) rest() {
	now := time.Now()
	if w == nil || now.Sub(w.rested) < restEvery {
		return
	}
	w.rested = now
	if !w.unwinder.Rest() {
		return
	}
	for _, p := range w.files.processes {
		maps.DeleteFunc(p.walked.tables, func(_ uint64, f *unwind.File) bool { return !w.unwinder.Known(f.Key) })
	}
}

// attributed returns what was unwound, with the files of its frames.
func (w *walks) attributed(p *program, wait *bpffutex.Wait, end *unwind.End) *resolve.Stack {
	stop := unwind.StopOf(end.Why)
	more := wait.Stack[w.beyond(p, wait, stop, end.Addr):]
	if len(more) > 0 {
		stop = tracefs.NoStop
	}
	key := w.key(stop)
	if s := w.files.stacks.get(p, key, false); s != nil && len(more) == 0 {
		return s
	}
	s := &w.files.work
	*s = resolve.Stack{Stock: wait.Cut && len(more) > 0, Frames: s.Frames[:0], Attributions: s.Attributions[:0]}
	for i := range w.frames {
		f := &w.frames[i]
		frame := tracefs.Frame{Addr: f.PC, HasAddr: true, Form: tracefs.FormPlain}
		frame.SetUnwound(unwind.HowOf(f.How), tracefs.NoStop)
		if i == len(w.frames)-1 {
			frame.SetUnwound(unwind.HowOf(f.How), stop)
		}
		o := w.attribution(p, f.PC)
		if f.Code != nil && o.Reason == filemap.Anonymous {
			o.Memory = w.made.function(f.Code).memory
		}
		s.Frames, s.Attributions = append(s.Frames, frame), append(s.Attributions, o)
	}
	if len(more) > 0 {
		w.files.kernel(s, wait, more)
		return s
	}
	return w.files.stacks.put(p, key, false, s)
}

// key is what was unwound, in a form that the kernel's stacks do not have: their bytes are a multiple
// of 8. Code that the process has made can be another function later.
func (w *walks) key(stop tracefs.Stop) []byte {
	w.raw = append(w.raw[:0], byte(stop), byte(len(w.frames)))
	for i := range w.frames {
		w.raw = binary.NativeEndian.AppendUint64(w.raw, w.frames[i].PC)
	}
	for i := range w.frames {
		w.raw = append(w.raw, byte(w.frames[i].How))
	}
	for i := range w.frames {
		if c := w.frames[i].Code; c != nil {
			w.raw = binary.NativeEndian.AppendUint64(append(w.raw, byte(i)), w.made.function(c).number)
		}
	}
	for len(w.raw)%8 != 1 {
		w.raw = append(w.raw, 0)
	}
	return w.raw
}

// address returns the attribution of an address that the kernel found for a wait. Nil knows none.
func (w *walks) address(p *program, wait *bpffutex.Wait, addr uint64) resolve.Attribution {
	if w == nil || !w.known(p, wait) {
		return resolve.Unnamed(filemap.NoAddressSpace)
	}
	return w.attribution(p, addr)
}

// attribution returns the attribution of a frame. Code that can be written has no file: it need not
// be that of the file, and is not among the pages of code whose number is compared.
func (w *walks) attribution(p *program, pc uint64) resolve.Attribution {
	switch m := p.at(pc); {
	case m == nil, m.Kind.HasFile() && m.Perms&procmap.Write != 0:
		return resolve.Unnamed(filemap.NoAddressSpace)
	case m.Kind.HasFile():
		return w.files.mapped(m, pc)
	case m.Kind == procmap.VDSO || m.Kind == procmap.Special:
		return resolve.Unnamed(filemap.VDSO)
	}
	return resolve.Unnamed(filemap.Anonymous)
}

// beyond returns where the kernel's frames begin that it found by frame pointers where the tables
// end, the number of all if there are none: see whole.Stage. Both must agree so far.
func (w *walks) beyond(p *program, wait *bpffutex.Wait, stop tracefs.Stop, addr uint64) int {
	kernel, none := wait.Stack, len(wait.Stack)
	switch stop {
	case tracefs.AtCopy, tracefs.AtFile:
		for i := range w.frames {
			if i >= len(kernel) || !p.same(&kernel[i], w.frames[i].PC) {
				return none
			}
		}
		return len(w.frames)
	case tracefs.AtNoMap, tracefs.AtContradiction:
		next := 0 // of the unwound frames
		for k := range kernel {
			if k > 0 && p.same(&kernel[k], addr) {
				return k
			}
			for next < len(w.frames) && !p.same(&kernel[k], w.frames[next].PC) {
				next++
			}
			if next == len(w.frames) {
				return none
			}
			next++
		}
	}
	return none
}

// same reports whether a frame of the kernel's is at an address.
func (p *program) same(f *bpffutex.Frame, addr uint64) bool {
	if f.IsAddress {
		return f.Number == addr
	}
	m := p.at(addr)
	return m != nil && !m.BuildID.IsZero() && filemap.BuildID(m.BuildID.Padded()) == f.BuildID && m.FileOffset(addr) == f.Number
}

// begins reports whether the kernel found the first frame of a wait at an address. It finds no build
// ID, and leaves all frames addresses, while the process changes what it has mapped; where it has found
// others, it has looked in the file of the first frame, too.
func (p *program) begins(wait *bpffutex.Wait, addr uint64) bool {
	if len(wait.Stack) == 0 || !p.same(&wait.Stack[0], addr) {
		return false
	}
	m := p.at(addr)
	if !wait.Stack[0].IsAddress || m == nil || m.BuildID.IsZero() {
		return true
	}
	return !slices.ContainsFunc(wait.Stack, func(f bpffutex.Frame) bool { return !f.IsAddress })
}

// at returns the mapping of code with an address, nil if there is none.
func (p *program) at(addr uint64) *procmap.Mapping {
	for _, list := range [...][]procmap.Mapping{p.code, p.other} {
		i, found := slices.BinarySearchFunc(list, addr, func(m procmap.Mapping, addr uint64) int {
			switch {
			case addr >= m.End:
				return -1
			case addr < m.Start:
				return 1
			}
			return 0
		})
		if found {
			return &list[i]
		}
	}
	return nil
}

// view is what a program has mapped as code. It implements unwind.Space.
type view struct {
	walks   *walks
	program *program
	pid     int
	at      tracefs.Time // of the stack
}

// Find implements unwind.Space.
func (v *view) Find(addr uint64) (out unwind.Mapping, ok bool) {
	m := v.program.at(addr)
	if m == nil {
		return out, false
	}
	out = unwind.Mapping{Start: m.Start, End: m.End, Offset: m.Offset, Exec: true}
	switch {
	case m.Kind == procmap.VDSO, m.Kind.HasFile() && m.Perms&procmap.Write == 0:
		out.File = v.walks.file(v.program, v.pid, m)
	case m.Kind == procmap.Anonymous:
		out.Runtime = v.walks.made.at(v.program, v.pid, v.at)
	}
	return out, true
}

// file returns the file of a mapping, nil if it cannot be opened: the next stack tries again.
func (w *walks) file(p *program, pid int, m *procmap.Mapping) *unwind.File {
	if f := p.walked.tables[m.Start]; f != nil {
		return f
	}
	f := w.opener.File(w.unwinder, pid, mappingOf(m))
	if f == nil {
		return nil
	}
	if p.walked.tables == nil {
		p.walked.tables = make(map[uint64]*unwind.File)
	}
	p.walked.tables[m.Start] = f
	return f
}

// mappingOf returns a mapping as openers take it.
func mappingOf(m *procmap.Mapping) *space.Mapping {
	return &space.Mapping{Start: m.Start, End: m.End, Offset: m.Offset, Perms: m.Perms,
		File: &space.File{Name: m.Name, BuildID: m.BuildID, Inode: m.Inode, Dev: m.Dev, Generation: m.Generation, Kind: m.Kind}}
}

// text says what became of the waits with copies of their stacks, "" if there were none.
func (c *walkCounts) text(l *bpffutex.Loss) string {
	if c.Whole+c.Ended+c.Changed+c.Unreadable+c.Unlike+c.Failed+c.Unrecognized+l.Copies+l.Pages == 0 {
		return ""
	}
	text := fmt.Sprintf("%d long waits unwound by tables", c.Whole)
	for _, part := range [...]struct {
		n    uint64
		what string
	}{
		{c.Short, "copies of stacks too short"}, {c.Ended, "with the kernel's stack, as the process had ended"},
		{c.Changed, "with the kernel's stack, as code was mapped meanwhile"}, {c.Unreadable, "with the kernel's stack, as what the process has mapped cannot be read"},
		{c.Unlike, "with the kernel's stack, whose first frame is in another file"},
		{c.Failed, "with the kernel's stack, as nothing was unwound"},
		{c.Unrecognized, "with the first frame only, as the kernel recognized a stack that was no longer sure"}, {l.Copies, "with the kernel's stack, as there was no room for a copy"},
		{l.Pages, "with the kernel's stack, as theirs was not in memory"}, {c.Unset, "times more could not be copied"},
	} {
		if part.n > 0 {
			text += fmt.Sprintf("; %d %s", part.n, part.what)
		}
	}
	return text
}
