package observed

import (
	"debug/elf"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"ustack/filemap"
	"ustack/filemap/callsite"
	"ustack/filemap/elfid"
	"ustack/filemap/openfile"
)

// sysroot is a directory with files at the paths of another machine. Nothing
// outside of it is ever opened, whatever a trace calls a path.
type sysroot struct {
	root  *os.Root
	files *openfile.Opener
}

func openSysroot(dir string) (*sysroot, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("opening the sysroot: %w", err)
	}
	return &sysroot{root, openfile.NewOpener(0)}, nil
}

// elfFile is the code of a mapped file.
type elfFile struct {
	usable  bool
	machine elf.Machine
	file    *openfile.File
}

// open opens the file of a mapping, once. It is usable only if it is the same
// file, by build ID where one is known.
func (r *sysroot) open(m *mapped) *elfFile {
	if m.elf != nil {
		return m.elf
	}
	m.elf = new(elfFile)
	name := strings.TrimPrefix(strings.TrimSuffix(m.name, " (deleted)"), "/")
	if name == "" || name[0] == '[' {
		return m.elf
	}
	f, err := r.files.In(r.root, name)
	if err != nil {
		return m.elf
	}
	if !m.elf.read(f, m) {
		_ = f.Close()
		return m.elf
	}
	m.elf.file, m.elf.usable = f, true
	return m.elf
}

// read looks at the file's headers.
func (x *elfFile) read(f *openfile.File, m *mapped) bool {
	id, err := elfid.Read(f)
	if err != nil {
		return false
	}
	want := m.id
	if l := m.learned.known(); !m.hasID && l != nil {
		want = l.BuildID
	}
	if want.IsZero() || want != buildID(id) {
		return false
	}
	var ident [20]byte // e_ident, e_type, e_machine
	if _, err := f.ReadAt(ident[:], 0); err != nil {
		return false
	}
	order := uint16(ident[18]) | uint16(ident[19])<<8
	x.machine = elf.Machine(order)
	return string(ident[:4]) == elf.ELFMAG && (x.machine == elf.EM_X86_64 || x.machine == elf.EM_AARCH64)
}

// followsCall reports whether the code before an offset is a call: then the
// offset can be a return address.
func (x *elfFile) followsCall(offset uint64) bool {
	var code [callsite.Longest]byte
	if offset < callsite.Longest || offset > 1<<40 {
		return false
	}
	if _, err := x.file.ReadAt(code[:], int64(offset-callsite.Longest)); err != nil && err != io.EOF {
		return false
	}
	return callsite.Ends(x.machine, code[:])
}

// atSyscall reports whether a system call returns to an offset: the code before
// it is the instruction, or that at it, which a signal makes run again.
func (x *elfFile) atSyscall(offset uint64) bool {
	const size = 4
	var code [2 * size]byte
	if offset < size || offset > 1<<40 {
		return false
	}
	if _, err := x.file.ReadAt(code[:], int64(offset-size)); err != nil && err != io.EOF {
		return false
	}
	if x.machine == elf.EM_AARCH64 {
		return isSVC(code[:size]) || isSVC(code[size:])
	}
	return isX86Syscall(code[size-2:]) || isX86Syscall(code[size:])
}

// isSVC reports whether code is svc #0.
func isSVC(code []byte) bool { return string(code[:4]) == "\x01\x00\x00\xd4" }

// isX86Syscall reports whether code is syscall or int $0x80.
func isX86Syscall(code []byte) bool {
	return string(code[:2]) == "\x0f\x05" || string(code[:2]) == "\xcd\x80"
}

// Shares of samples that must follow a call. Some return addresses never do
// (the last one of a Go stack, signal frames, forged ones), and by chance a
// few do in the wrong file.
const (
	enough  = 0.6
	chance  = 0.4
	samples = 3 // that a file must fail at to be out when no other has passed
)

// look drops the runs whose code contradicts the return addresses.
func (e *Mappings) look(runs []*run, list []sample) []*run {
	if e.root == nil || len(runs) == 0 {
		return runs
	}
	list = slices.DeleteFunc(slices.Clone(list), func(s sample) bool { return s.site == interrupted })
	if len(list) == 0 {
		return runs
	}
	var failed []*run
	passed := false
	for _, r := range runs {
		x := e.root.open(r.file)
		if !x.usable || e.disputed(r) {
			continue // nothing is known against it
		}
		switch share := x.share(list); {
		case share >= enough:
			passed = true
		case share <= chance:
			failed = append(failed, r)
		}
	}
	if !passed && len(list) < samples {
		return runs
	}
	return slices.DeleteFunc(slices.Clone(runs), func(r *run) bool { return slices.Contains(failed, r) })
}

// share is which share of samples fits the code.
func (x *elfFile) share(list []sample) float64 {
	n := 0
	for _, s := range list {
		if s.site == afterSyscall && x.atSyscall(s.offset) || s.site == afterCall && x.followsCall(s.offset) {
			n++
		}
	}
	return float64(n) / float64(len(list))
}

// buildID pads an ID as the kernel does.
func buildID(id elfid.ID) filemap.BuildID {
	return id.Padded()
}
