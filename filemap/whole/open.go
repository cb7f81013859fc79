package whole

import (
	"bytes"
	"errors"
	"fmt"

	"ustack/filemap/elfid"
	"ustack/filemap/procmap"
	"ustack/filemap/space"
	"ustack/filemap/unwind"
)

// Opener opens the files that processes have mapped.
type Opener struct {
	// Reader reads all mappings, or those of code.
	Reader *procmap.Reader
	// VDSO is the vDSO of 64-bit processes.
	VDSO []byte
}

// errOther: the file at hand is not the one that was mapped.
var errOther = errors.New("another file is mapped there now")

// Open opens the file of a mapping. It must be there still, or its process.
func (o *Opener) Open(pid int, m *space.Mapping) (*unwind.Binary, error) {
	if m.File.Kind == procmap.VDSO {
		return &unwind.Binary{ReaderAt: bytes.NewReader(o.VDSO), Size: int64(len(o.VDSO))}, nil
	}
	at, err := o.mapping(pid, m)
	if err != nil {
		return nil, err
	}
	f, err := o.Reader.OpenMapped(pid, &at)
	if err != nil {
		return nil, err
	}
	// Where perf reports the build ID, it does not report the inode.
	if !m.File.BuildID.IsZero() {
		if id, err := elfid.Read(f); err != nil || id != m.File.BuildID {
			_ = f.Close() // it was only read from
			return nil, fmt.Errorf("opening %q: %w", m.File.Name, errors.Join(err, errOther))
		}
	}
	return &unwind.Binary{ReaderAt: f, Size: f.Size, Close: func() { _ = f.Close() }}, nil // it was only read from
}

// mapping asks for what is not known of a mapping.
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
