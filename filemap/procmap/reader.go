package procmap

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"

	"golang.org/x/sys/unix"

	"ustack/filemap"
	"ustack/filemap/bounded"
	"ustack/filemap/elfid"
	"ustack/filemap/procmem"
	"ustack/tracefs/privilege"
)

// Why a process could not be read, beside permissions (fs.ErrPermission) and
// what may go wrong with any file.
var (
	// ErrGone: there is no such process, or not any more.
	ErrGone = errors.New("no such process, or it has ended")
	// ErrNoMemory: there is a process, but no user memory: a kernel thread, a
	// zombie.
	ErrNoMemory = errors.New("no user memory (a kernel thread or a zombie)")
	// errHeld: the kernel gives the memory to no reader, as long as the process
	// executes a program and another party keeps it from the end of that.
	errHeld = errors.New("held up while it executes a program")
)

// processError names the process that could not be read, and why.
type processError struct {
	PID int
	Err error
}

// Error implements error.
func (e *processError) Error() string {
	if errors.Is(e.Err, ErrGone) {
		return fmt.Sprintf("no process %d", e.PID)
	}
	hint := ""
	if errors.Is(e.Err, fs.ErrPermission) && !CanTrace() {
		hint = " (processes of others need CAP_SYS_PTRACE)"
	}
	return fmt.Sprintf("reading the mappings of process %d: %v%s", e.PID, e.Err, hint)
}

// Unwrap returns the reason.
func (e *processError) Unwrap() error { return e.Err }

// errMemoryGone is ESRCH: the memory that was opened is gone, because the
// process has ended or executed another program since.
var errMemoryGone = errors.New("the memory is gone")

// Options configure a Reader.
type Options struct {
	// Proc is where proc is mounted, /proc if empty.
	Proc string
	// Source is the kernel interface to use.
	Source Source
	// Filter selects the mappings.
	Filter Filter
	// IDs remembers build IDs; nil leaves them out.
	IDs *IDs
	// Stat is whether to read what Process.Stat holds.
	Stat bool
	// VDSO is whether to compare the vDSO of each process with the one of this process:
	// another one is Special. Set it where functions in a vDSO get names. It costs a read
	// of the process's memory (procmem, with its time limit).
	VDSO bool
}

// Reader reads the mappings of processes, one after the other. It reuses its
// memory, so it is not for several goroutines: each has its own.
type Reader struct {
	opt   Options
	names filemap.Names
	path  []byte
	buf   *buffers
	text  []byte
	// scratch is the mapping being read.
	scratch Mapping
	gate    Mapping // [vsyscall], if the machine has it
	// entries is a part of a directory, numbers are its numeric names.
	entries []byte
	numbers []entry
	// kernel are the kernel threads that were seen, with the inode numbers of
	// their directories.
	kernel map[int]uint64
	mounts mounts
	ask    bool // for all build IDs, whatever is remembered
	waits  patience
	memory *procmem.Reader
	vdso   vdso
}

// NewReader finds out what the kernel can do and returns a Reader. It fails if
// proc cannot be read, or if the ioctl was asked for and the kernel has none.
func NewReader(opt Options) (*Reader, error) {
	if opt.Proc == "" {
		opt.Proc = "/proc"
	}
	r := &Reader{opt: opt, buf: newBuffers(), waits: patience{proc: opt.Proc, calls: bounded.New(openWait)}, memory: procmem.New(0)}
	if err := r.detect(); err != nil {
		return nil, err
	}
	return r, nil
}

// Source returns what the Reader uses: Ioctl or Text.
func (r *Reader) Source() Source { return r.opt.Source }

// Proc returns where the Reader finds processes.
func (r *Reader) Proc() string { return r.opt.Proc }

// detect asks for a mapping of our own, once, and settles the source. Any
// failure means that there is no such ioctl for us: ENOTTY before 6.11, EPERM
// or ENOSYS under a seccomp filter.
func (r *Reader) detect() error {
	if r.opt.Source == Text {
		return nil
	}
	fd, err := r.open("self/maps")
	if err == nil {
		defer unix.Close(fd)
		if errno := r.buf.ask(fd, 0, coveringOrNext, false); errno != 0 {
			err = errno
		}
	}
	switch {
	case err == nil:
		r.opt.Source = Ioctl
		return r.findGate()
	case r.opt.Source == Ioctl:
		return fmt.Errorf("asking the kernel for a mapping with PROCMAP_QUERY (Linux 6.11 and later): %w", err)
	}
	r.opt.Source = Text
	return nil
}

// findGate looks for [vsyscall] in our own mappings. It is the same page in
// each 64-bit process, and the text lists it, but the ioctl does not know it:
// it is no VMA of the process (get_gate_vma in
// arch/x86/entry/vsyscall/vsyscall_64.c).
func (r *Reader) findGate() error {
	fd, err := r.open("self/maps")
	if err != nil {
		return fmt.Errorf("reading our own mappings: %w", err)
	}
	defer unix.Close(fd)
	err = r.readText(fd, func(m *Mapping) bool {
		if m.Kind == Vsyscall {
			r.gate = *m
		}
		return true
	})
	if err != nil {
		return fmt.Errorf("reading our own mappings: %w", err)
	}
	return nil
}

// raise puts our rights to the files of processes into effect.
func (r *Reader) raise() privilege.Raised { return privilege.RaiseIn(r.opt.Proc) }

// open opens a file in proc.
func (r *Reader) open(name string) (int, error) {
	defer r.raise().Lower()
	r.path = append(append(append(r.path[:0], r.opt.Proc...), '/'), name...)
	return openPath(&r.path)
}

// openOf opens a file in the directory of a process.
func (r *Reader) openOf(pid int, name string) (int, error) {
	defer r.raise().Lower()
	r.setPath(pid, name)
	return openPath(&r.path)
}

// setPath sets path to a file in the directory of a process.
func (r *Reader) setPath(pid int, name string) {
	r.path = appendPath(r.path[:0], r.opt.Proc, pid, name)
}

// appendPath appends the path of a file in the directory of a process.
func appendPath(b []byte, proc string, pid int, name string) []byte {
	b = append(append(b, proc...), '/')
	return append(append(strconv.AppendInt(b, int64(pid), 10), '/'), name...)
}

// Process is a process and its mappings.
type Process struct {
	PID int
	// Stat is set if asked for (Options.Stat). It is of the same process as
	// the mappings, and not of another that got the PID.
	Stat Stat
	// Mappings are those that the filter selects, in order of address. The
	// kernel gives one after the other, so that a process that changes its
	// memory meanwhile may show a mapping at its old and new place, or at
	// neither.
	Mappings []Mapping
}

// Process reads a process's mappings into p, whose memory it uses again.
func (r *Reader) Process(pid int, p *Process) error {
	r.nextRound()
	defer r.opt.IDs.endRound()
	if err := r.process(pid, p); err != nil {
		return &processError{pid, err}
	}
	return nil
}

// nextRound begins a round: answers about build IDs hold until the next one.
func (r *Reader) nextRound() {
	clear(r.mounts)
	if r.opt.IDs != nil {
		r.opt.IDs.nextRound()
		r.opt.IDs.drain()
	}
}

// process reads the mappings of a process. If it executes another program
// meanwhile, its old memory is gone, and the new one is read: once, so that
// no process can keep us busy.
func (r *Reader) process(pid int, p *Process) error {
	as := pid
	for try := 0; ; try++ {
		err := r.sure(func() error { return r.once(pid, as, p) })
		if err != errMemoryGone {
			return err
		}
		if as == pid {
			if tid, ok := r.heir(pid); ok {
				as = tid
				continue
			}
		}
		switch {
		case r.opt.Stat && !p.Stat.hadMemory(), !r.hasProgram(pid):
			return ErrNoMemory
		case try > 0:
			// It has ended, or is a kernel thread whose program we may not ask
			// for.
			if s, err := r.stat(pid); err == nil && !s.hadMemory() {
				return ErrNoMemory
			}
			return ErrGone
		}
	}
}

// sure reads something that may take build IDs from memory. Should a file have
// been forgotten until the end, it may be one of which this has seen a mapping
// already: then all is read again, and nothing taken from memory.
func (r *Reader) sure(read func() error) error {
	before := r.opt.IDs.forgotten()
	err := read()
	r.opt.IDs.drain()
	if r.opt.IDs.forgotten() == before {
		return err
	}
	r.ask = true
	err = read()
	r.ask = false
	return err
}

// once opens and reads the mappings of a process by one of its threads.
func (r *Reader) once(pid, as int, p *Process) error {
	p.PID, p.Mappings = pid, p.Mappings[:0]
	h, err := r.openAs(pid, as)
	if err != nil {
		return err
	}
	defer h.Close()
	if r.opt.Stat {
		// After opening: if the memory still answers below, it belongs to the
		// process whose start time this is.
		if p.Stat, err = r.stat(pid); err != nil {
			return err
		}
	}
	p.Mappings, err = h.appendAll(p.Mappings)
	return err
}

// hasProgram reports whether a process has user memory, which is when it has
// a program. Kernel threads and zombies have none. A process we may not look
// at has one.
func (r *Reader) hasProgram(pid int) bool {
	_, err := r.waits.look(pid, "exe", true)
	return err != unix.ENOENT && err != unix.ESRCH
}

// cached sets the ID and generation of a mapping's file if they are known, or
// if it can have none.
func (r *Reader) cached(m *Mapping) bool {
	m.BuildID, m.Generation = elfid.ID{}, 0
	return r.opt.IDs == nil || !mayHaveID(m) || !r.ask && r.opt.IDs.lookup(m)
}
