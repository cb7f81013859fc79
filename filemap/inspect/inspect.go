// Package inspect looks at the programs and libraries that the user names, or that a
// process has mapped, to say how far stacks through them can be followed (packages
// health and examine), and finds their separate debug files.
package inspect

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"ustack/filemap/elfid"
	"ustack/filemap/openfile"
	"ustack/filemap/procmap"
	"ustack/filemap/symbol/image"
	"ustack/filemap/symbolize"
	"ustack/filemap/unwind/examine"
	"ustack/filemap/unwind/health"
)

// Options are where to look.
type Options struct {
	// DebugDirs and Home are as in symbol.Options.
	DebugDirs []string
	Home      string
	// Proc is where proc is mounted, "" for /proc.
	Proc string
	// VDSO reads the vDSO of 64-bit processes.
	VDSO func() ([]byte, error)
}

// Inspector looks at files. It is for one goroutine.
type Inspector struct {
	opt       Options
	files     *openfile.Opener
	separates *symbolize.Separates
	reader    *procmap.Reader         // nil before the first process
	seen      map[procmap.FileID]bool // files of processes
	vdso      bool                    // the vDSO of 64-bit processes was seen
}

// New returns an Inspector.
func New(opt Options) (*Inspector, error) {
	i := &Inspector{opt: opt, files: openfile.NewOpener(0), seen: make(map[procmap.FileID]bool)}
	var err error
	if i.separates, err = symbolize.NewSeparates(opt.DebugDirs, opt.Home, i.files); err != nil {
		i.Close()
		return nil, err
	}
	return i, nil
}

// Close ends it.
func (i *Inspector) Close() { i.files.Close() }

// errDirectory is the error of a directory.
var errDirectory = errors.New("a directory: name the files in it")

// File looks at a file that the user has named.
func (i *Inspector) File(name string) *health.Target {
	s := &health.Target{Path: name}
	f, err := i.files.Path(name)
	if err != nil {
		s.Err = err
		if errors.Is(err, openfile.ErrIrregular) && isDirectory(name) {
			s.Err = &fs.PathError{Op: "open", Path: name, Err: errDirectory}
		}
		return s
	}
	defer f.Close() // it was only read from
	where, err := filepath.Abs(name)
	if err == nil {
		if to, err := filepath.EvalSymlinks(where); err == nil {
			where = to
		}
	}
	i.look(s, f, f.Size(), where)
	return s
}

func isDirectory(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}

// look looks at a file that is open.
func (i *Inspector) look(s *health.Target, r io.ReaderAt, size int64, where string) {
	if s.Err = i.report(s, r, size, where); s.Err != nil {
		s.NotELF = errors.Is(s.Err, image.ErrNotELF)
		s.Err = fmt.Errorf("%s: %w", s.Path, s.Err)
	}
}

func (i *Inspector) report(s *health.Target, r io.ReaderAt, size int64, where string) error {
	x, err := image.Open(r, size)
	if err != nil {
		return err
	}
	id, err := elfid.Read(r)
	if err != nil {
		return err
	}
	var debug *image.Image
	if filepath.IsAbs(where) {
		var found *symbolize.Separate
		if found, s.Tries = i.separates.Find(x, id, where); found != nil {
			defer found.Close() // it was only read from
			if found.Path != where {
				s.Debug, debug = found.Path, found.Image
			}
		}
	}
	s.Report = examine.Look(x, id, debug)
	return nil
}

// Process looks at the files that a process can run code of, without files that it
// has seen in an earlier process, and calls f with each.
func (i *Inspector) Process(pid int, f func(*health.Target) error) (p health.Process, err error) {
	if i.reader == nil {
		i.reader, err = procmap.NewReader(procmap.Options{Proc: i.opt.Proc, Filter: procmap.Filter{Perms: procmap.Exec}, Stat: true, VDSO: true})
		if err != nil {
			return p, err
		}
	}
	p.PID = pid
	_, err = i.reader.Walk([]int{pid}, func(has *procmap.Process, err error) error {
		if err != nil {
			return err
		}
		p.Name = has.Stat.Comm
		for k := range has.Mappings {
			if err := i.mapping(&p, &has.Mappings[k], f); err != nil {
				return err
			}
		}
		return nil
	})
	return p, err
}

// mapping looks at a mapping.
func (i *Inspector) mapping(p *health.Process, m *procmap.Mapping, f func(*health.Target) error) error {
	s := &health.Target{Path: m.Name, PID: p.PID}
	switch {
	case m.Kind == procmap.VDSO:
		if i.vdso || i.opt.VDSO == nil || !i.isWide(p.PID) {
			return nil
		}
		i.vdso = true
		i.ownVDSO(s)
	case m.Kind == procmap.Vsyscall || m.Kind == procmap.Special:
		return nil // no frames of theirs wait
	case m.Kind == procmap.Stack || m.Kind == procmap.Heap:
		return nil // executable, as gcc -z execstack links programs: no compiler's code
	case !m.Kind.HasFile():
		p.Bare++
		p.BareBytes += m.End - m.Start
		return nil
	default:
		id := procmap.FileID{Dev: m.Dev, Inode: m.Inode}
		if i.seen[id] {
			return nil
		}
		i.seen[id] = true
		i.mapped(s, m)
	}
	return f(s)
}

// mapped looks at the very file of a mapping.
func (i *Inspector) mapped(s *health.Target, m *procmap.Mapping) {
	f, err := i.reader.OpenMapped(i.files, s.PID, m)
	if err != nil {
		s.Err = err
		return
	}
	defer f.Close() // it was only read from
	i.look(s, f, f.Size(), strings.TrimSuffix(m.Name, " (deleted)"))
}

// isWide reports whether a process runs a program of 64 bits. It is false if the program
// cannot be read: then the vDSO can be another one than ours.
func (i *Inspector) isWide(pid int) bool {
	f, err := i.reader.OpenExe(i.files, pid)
	if err != nil {
		return false
	}
	defer f.Close() // it was only read from
	var ident [elf.EI_NIDENT]byte
	if _, err := f.ReadAt(ident[:], 0); err != nil {
		return false
	}
	return string(ident[:len(elf.ELFMAG)]) == elf.ELFMAG && elf.Class(ident[elf.EI_CLASS]) == elf.ELFCLASS64
}

// ownVDSO looks at the vDSO, which all 64-bit processes share.
func (i *Inspector) ownVDSO(s *health.Target) {
	b, err := i.opt.VDSO()
	if err != nil {
		s.Err = fmt.Errorf("%s: %w", s.Path, err)
		return
	}
	i.look(s, bytes.NewReader(b), int64(len(b)), "")
	if s.Report != nil {
		s.Report.Kernels = true
	}
}
