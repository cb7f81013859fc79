package sums

import (
	"debug/elf"
	"maps"
	"runtime"
	"time"

	"ustack/filemap/anoncode"
	"ustack/filemap/openfile"
	"ustack/filemap/procmem"
	"ustack/filemap/resolve"
	"ustack/filemap/space"
	"ustack/filemap/symbolize"
	"ustack/filemap/unwind"
	"ustack/filemap/whole"
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
	memory := procmem.New(memoryWait)
	w.opener = &whole.Opener{Reader: f.places, VDSO: vdso, Files: w.opened, Since: openfile.BeginAt(time.Now())}
	w.made, w.holes = newMade(memory, w.opener, names), whole.NewHoles(memory)
	if w.opener.Separates, err = symbolize.NewSeparates(debugDirs, "", w.opened); err != nil {
		w.close()
		return nil, err
	}
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
	in := unwind.Input{Machine: machines[runtime.GOARCH], Max: mostFrames, Space: &view{walks: w, made: &w.made, program: p, pid: int(wait.TGID), at: wait.To}}
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

// short has more copied of the stacks of a process: at least the bytes that one wants, or what comes
// after the page at which its copy ends.
func (w *walks) short(p *program, wait *bpffutex.Wait, want uint64) {
	w.count.Short++
	if c := wait.Copy; uint32(len(c.Stack)) != c.Asked {
		w.holes.Fill(int(wait.TGID), c.SP, len(c.Stack), space.Monotonic())
		return
	}
	if need := uint64(len(wait.Copy.Stack)) + want; copyFor(p, need) > wait.Copy.Asked {
		w.copyMore(p, wait.TGID, need)
	}
}

// copyFor returns how many bytes are to be copied of the stacks of a process where one takes so many.
func copyFor(p *program, need uint64) uint32 {
	size := max(p.walked.copied, firstCopy)
	for uint64(size) < min(need, bpffutex.MaxCopy) {
		size *= 2
	}
	return min(size, bpffutex.MaxCopy)
}

// copyMore has as much copied of the stacks of a process as one takes.
func (w *walks) copyMore(p *program, pid int32, need uint64) {
	size := copyFor(p, need)
	if size <= p.walked.copied {
		return
	}
	if w.kernel.Copy(pid, size) == nil {
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
