// Package perfstack unwinds the stacks that perf record has copied (--call-graph dwarf), by the
// mappings in the same perf.data and the files of this machine.
package perfstack

import (
	"bytes"
	"cmp"
	"debug/elf"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"ustack/filemap/elfid"
	"ustack/filemap/openfile"
	"ustack/filemap/procmap"
	"ustack/filemap/space"
	"ustack/filemap/symbolize"
	"ustack/filemap/unwind"
	"ustack/tracefs"
	"ustack/tracefs/perfdata"
)

// Options configure an Unwinder.
type Options struct {
	// Space returns what a process had mapped over time, nil if that is not known.
	Space func(pid int) *space.Space
	// BuildID returns the build ID of a file of these, the zero ID if it is not known.
	BuildID func(*space.File) elfid.ID
	// Generation returns the generation of the inode of a file of these, 0 if it was not
	// recorded. ok is false if there were several.
	Generation func(*space.File) (number uint32, ok bool)
	// Arch is the machine's, as uname has it.
	Arch string
	// VDSO is the vDSO of the machine's processes, nil if it is not known.
	VDSO []byte
	// Written is when perf had written its file: a file that has no build ID there must not
	// have changed since. Zero if that is not known.
	Written time.Time
}

// Unwinder unwinds copies. It may be used by several goroutines.
type Unwinder struct {
	opt     Options
	machine elf.Machine

	mu        sync.Mutex
	unwinder  *unwind.Unwinder
	files     *openfile.Opener
	separates *symbolize.Separates
	known     map[*space.File]*unwind.File
	frames    []unwind.Frame
}

// machines are the machines that can be unwound, by uname's names.
var machines = map[string]elf.Machine{"x86_64": elf.EM_X86_64, "aarch64": elf.EM_AARCH64}

// New returns an Unwinder.
func New(opt Options) *Unwinder {
	u := &Unwinder{opt: opt, machine: machines[opt.Arch], unwinder: unwind.New(0), files: openfile.NewOpener(0), known: make(map[*space.File]*unwind.File)}
	u.separates, _ = symbolize.NewSeparates(nil, "", u.files) // it fails for directories only
	return u
}

// Close closes the files.
func (u *Unwinder) Close() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.unwinder.Close()
	u.files.Close()
}

// maxFrames is how many frames perf script shows by default.
const maxFrames = 127

// Unwind returns the frames of a copy, none if not even the first one is in known code.
func (u *Unwinder) Unwind(c *perfdata.Copy) []tracefs.Frame {
	u.mu.Lock()
	defer u.mu.Unlock()
	sp := u.opt.Space(int(c.PID))
	if sp == nil || !c.Wide || u.machine == elf.EM_NONE {
		return nil
	}
	in := unwind.Input{Machine: u.machine, Regs: registers(u.machine, c), Max: maxFrames}
	in.Stack.At, _ = in.Regs.Get(stackPointer(u.machine))
	in.Stack.Bytes = c.Stack
	in.Space = &view{u, sp, tracefs.Time(c.Time)}
	var end unwind.End
	u.frames, end = u.unwinder.Unwind(&in, u.frames[:0])
	list := make([]tracefs.Frame, 0, len(u.frames))
	for i := range u.frames {
		f := &u.frames[i]
		out := tracefs.Frame{Addr: f.PC, HasAddr: true, Form: tracefs.FormPlain}
		stop := tracefs.NoStop
		if i == len(u.frames)-1 {
			stop = unwind.StopOf(end.Why)
		}
		out.SetUnwound(unwind.HowOf(f.How), stop)
		list = append(list, out)
	}
	return list
}

func stackPointer(m elf.Machine) uint8 {
	if m == elf.EM_AARCH64 {
		return unwind.ARM64SP
	}
	return unwind.AMD64SP
}

// registers returns the registers of a copy. Before Linux 5.11 the ones that a system call had
// not saved were all ones on x86-64 (perf_get_regs_user in arch/x86/kernel/perf_regs.c).
func registers(m elf.Machine, c *perfdata.Copy) unwind.Registers {
	const unsaved = 1<<1 | 1<<20 | 1<<21 | 1<<22 | 1<<23 // bx, r12 to r15 by the kernel's numbers
	mask, values := c.Mask, c.Values
	if m != elf.EM_X86_64 || mask&unsaved == 0 {
		return unwind.FromPerf(m, mask, values)
	}
	kept, rest, all := uint64(0), []uint64(nil), true
	i := 0
	for n := range 64 {
		bit := uint64(1) << n
		if mask&bit == 0 || i == len(values) {
			continue
		}
		if bit&unsaved != 0 {
			all = all && values[i] == ^uint64(0)
		} else {
			kept, rest = kept|bit, append(rest, values[i])
		}
		i++
	}
	if all {
		mask, values = kept, rest
	}
	return unwind.FromPerf(m, mask, values)
}

// view is what a process had mapped at a time. It implements unwind.Space.
type view struct {
	u     *Unwinder
	space *space.Space
	at    tracefs.Time
}

// Find implements unwind.Space.
func (v *view) Find(addr uint64) (m unwind.Mapping, ok bool) {
	p, ok := v.space.Lookup(addr, v.at)
	if !ok || p.Mapping.Since > v.at {
		return m, false
	}
	at := p.Mapping
	m = unwind.Mapping{Start: at.Start, End: at.End, Offset: at.Offset, Exec: at.Perms&procmap.Exec != 0}
	if m.Exec && (at.File.Kind == procmap.File || at.File.Kind == procmap.VDSO) {
		m.File = v.u.file(at.File)
	}
	return m, true
}

// maxFiles bounds the files that are remembered.
const maxFiles = 1 << 14

// errOther: the file at hand is not the one that was mapped.
var errOther = errors.New("another file is there now")

// file returns a mapped file for unwinding, nil if it is not here.
func (u *Unwinder) file(f *space.File) *unwind.File {
	if known, ok := u.known[f]; ok {
		return known
	}
	if len(u.known) >= maxFiles {
		clear(u.known)
	}
	var out *unwind.File
	if b, err := u.open(f); err == nil {
		identity := b.Identity
		b.Close()
		out = u.unwinder.File(unwind.Source{
			Key: identity, Name: f.Name,
			Open: func() (*unwind.Binary, error) {
				b, err := u.open(f)
				if err == nil && b.Identity != identity {
					b.Close()
					return nil, errOther
				}
				return b, err
			},
			Debug: func() (*unwind.Binary, error) { return u.debug(f) },
		})
	}
	u.known[f] = out
	return out
}

// open opens a mapped file at its path, if no other user can have put it there. It must have the
// build ID that was recorded; without one, the device and inode, and no change since perf had
// written its file (same).
func (u *Unwinder) open(f *space.File) (*unwind.Binary, error) {
	if f.Kind == procmap.VDSO {
		if u.opt.VDSO == nil {
			return nil, errOther
		}
		return &unwind.Binary{ReaderAt: bytes.NewReader(u.opt.VDSO), Size: int64(len(u.opt.VDSO)), Identity: "vdso", Close: func() {}}, nil
	}
	at, err := u.files.Named(f.Name)
	if err != nil {
		return nil, err
	}
	b := &unwind.Binary{ReaderAt: at, Size: at.Size(), Identity: at.Identity(), Close: func() { _ = at.Close() }, Check: at.Check} // it was only read from
	id, err := at.ID()
	if err == nil {
		err = u.files.CheckOwner(at, f.Name, "", nil)
	}
	recorded := u.opt.BuildID(f)
	switch {
	case err != nil:
	case at.Unsettled(), !recorded.IsZero() && id != recorded:
		err = errOther
	case recorded.IsZero():
		err = u.same(f, at)
	}
	if err != nil {
		b.Close()
		return nil, fmt.Errorf("opening %q: %w", f.Name, err)
	}
	return b, nil
}

// same checks an open file without a build ID. Where the number of its inode may have been another
// file's before, the generation of the inode shows it.
func (u *Unwinder) same(f *space.File, at *openfile.File) error {
	st, ok := at.Info().Sys().(*syscall.Stat_t)
	is, numbered := at.Generation()
	if !ok || !numbered {
		return errOther
	}
	if is != nil {
		if was, known := u.opt.Generation(f); !known || was != 0 && was != *is {
			return errOther
		}
	}
	changed := time.Unix(st.Ctim.Unix())
	if f.Inode == 0 || st.Ino != f.Inode || unix.Major(st.Dev) != f.Dev.Major || unix.Minor(st.Dev) != f.Dev.Minor ||
		u.opt.Written.IsZero() || !openfile.ChangedBefore(changed, u.opt.Written) {
		return errOther
	}
	return nil
}

// debug opens the separate file with debug information of a mapped file.
func (u *Unwinder) debug(f *space.File) (*unwind.Binary, error) {
	b, err := u.open(f)
	if err != nil {
		return nil, err
	}
	defer b.Close()
	found, err := u.separates.FindFor(b, b.Size, f.Name)
	if err != nil || found == nil {
		return nil, cmp.Or(err, errOther)
	}
	return &unwind.Binary{ReaderAt: found.ReaderAt, Size: found.Size, Close: func() { _ = found.Close() }, Check: found.Check}, nil // it was only read from
}
