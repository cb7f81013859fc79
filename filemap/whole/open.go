package whole

import (
	"bytes"
	"errors"
	"fmt"

	"ustack/filemap/elfid"
	"ustack/filemap/openfile"
	"ustack/filemap/procmap"
	"ustack/filemap/space"
	"ustack/filemap/symbolize"
	"ustack/filemap/unwind"
)

// Opener opens the files that processes have mapped. It is for one goroutine.
type Opener struct {
	// Reader reads all mappings, or only mappings of code.
	Reader *procmap.Reader
	// VDSO is the vDSO of 64-bit processes.
	VDSO []byte
	// Files opens files, with a time limit: any process can map one of a server that
	// gives no answer.
	Files *openfile.Opener
	// Since is a time before all paths were read, see openfile.Opener.CheckOwner.
	Since *openfile.Begin
	// Separates finds separate files with debug information, nil for none.
	Separates *symbolize.Separates

	// gone are files that were not at their paths: many frames can be in one.
	gone map[*space.File]bool
}

// errOther: the file at hand is not the one that was mapped.
var errOther = errors.New("another file is mapped there now")

// Open opens the file of a mapping. If the process has ended, it is the file at the
// path, which must have the build ID that the kernel reported.
func (o *Opener) Open(pid int, m *space.Mapping) (*unwind.Binary, error) {
	if m.File.Kind == procmap.VDSO {
		if m.End <= 1<<32 {
			return nil, errOther // that of 32-bit programs
		}
		return &unwind.Binary{ReaderAt: bytes.NewReader(o.VDSO), Size: int64(len(o.VDSO)), Identity: "vdso", Close: func() {}}, nil
	}
	b, err := o.mapped(pid, m)
	if err == nil || errors.Is(err, errOther) {
		return b, err
	}
	if b, also := o.atPath(m.File); also == nil {
		return b, nil
	}
	return nil, err
}

// mapped opens the file that a process has mapped.
func (o *Opener) mapped(pid int, m *space.Mapping) (*unwind.Binary, error) {
	at, err := o.mapping(pid, m)
	if err != nil {
		return nil, err
	}
	f, err := o.Reader.OpenMapped(o.Files, pid, &at)
	if err != nil {
		return nil, err
	}
	b, err := binary(f)
	if err != nil {
		return nil, err
	}
	// Where perf reports the build ID, it does not report the inode.
	if !m.File.BuildID.IsZero() {
		return withID(b, m.File)
	}
	return b, nil
}

// atPath opens the file at the path of a file.
func (o *Opener) atPath(f *space.File) (*unwind.Binary, error) {
	if f.Kind != procmap.File || f.BuildID.IsZero() {
		return nil, errOther
	}
	if o.gone[f] {
		return nil, errOther
	}
	b, err := o.named(f)
	if err != nil {
		if o.gone == nil || len(o.gone) >= maxFiles {
			o.gone = make(map[*space.File]bool)
		}
		o.gone[f] = true
	}
	return b, err
}

// named opens the file at the path of a file, if it has the build ID and no other user can have
// put it there.
func (o *Opener) named(f *space.File) (*unwind.Binary, error) {
	at, err := o.Files.Named(f.Name)
	if err != nil {
		return nil, err
	}
	if err := o.Files.CheckOwner(at, f.Name, f.BuildID.Hex(), o.Since); err != nil {
		_ = at.Close() // was not read
		return nil, fmt.Errorf("opening %q: %w", f.Name, err)
	}
	b, err := binary(at)
	if err != nil {
		return nil, err
	}
	return withID(b, f)
}

// binary passes a file on, unless another one may be read in its place, see Unsettled and Check.
func binary(f *openfile.File) (*unwind.Binary, error) {
	if f.Unsettled() {
		_ = f.Close() // was not read
		return nil, errOther
	}
	b := &unwind.Binary{ReaderAt: f, Size: f.Size(), Identity: f.Identity(), Close: func() { _ = f.Close() }, Check: f.Check} // it was only read from
	if err := f.Check(); err != nil {
		b.Close()
		return nil, errors.Join(err, errOther)
	}
	return b, nil
}

// withID passes a file on if it has the build ID of the mapped file.
func withID(b *unwind.Binary, f *space.File) (*unwind.Binary, error) {
	id, err := elfid.Read(b)
	if err != nil || id != f.BuildID {
		b.Close()
		return nil, fmt.Errorf("opening %q: %w", f.Name, errors.Join(err, errOther))
	}
	return b, nil
}

// mapping completes an incomplete mapping.
func (o *Opener) mapping(pid int, m *space.Mapping) (procmap.Mapping, error) {
	f := m.File
	if f.Inode != 0 {
		return procmap.Mapping{Start: m.Start, End: m.End, Offset: m.Offset, Perms: m.Perms, Name: f.Name, Dev: f.Dev, Inode: f.Inode, Kind: f.Kind}, nil
	}
	h, err := o.Reader.Open(pid)
	if err != nil {
		return procmap.Mapping{}, fmt.Errorf("opening %q: %w", f.Name, err)
	}
	defer h.Close()
	at, ok, err := h.At(m.Start)
	if err == nil && (!ok || at.Name != f.Name || f.BuildID.IsZero()) {
		err = errOther
	}
	if err != nil {
		return at, fmt.Errorf("opening %q: %w", f.Name, err)
	}
	return at, nil
}
