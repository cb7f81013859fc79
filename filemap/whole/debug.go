package whole

import (
	"errors"
	"fmt"
	"path/filepath"

	"ustack/filemap/elfid"
	"ustack/filemap/procmap"
	"ustack/filemap/space"
	"ustack/filemap/symbol/image"
	"ustack/filemap/unwind"
)

// errNoDebug: there is no separate file with debug information.
var errNoDebug = errors.New("no separate debug file")

// Debug opens the separate file with debug information of a mapping's file, which must
// have the build ID of that, or the checksum that it names.
func (o *Opener) Debug(pid int, m *space.Mapping) (*unwind.Binary, error) {
	if o.Separates == nil || m.File.Kind != procmap.File || !filepath.IsAbs(m.File.Name) {
		return nil, errNoDebug
	}
	b, err := o.Open(pid, m)
	if err != nil {
		return nil, err
	}
	defer b.Close()
	x, err := image.Open(b, b.Size)
	if err != nil {
		return nil, fmt.Errorf("reading %q: %w", m.File.Name, err)
	}
	id, err := elfid.Read(b)
	if err != nil {
		return nil, fmt.Errorf("reading the build ID of %q: %w", m.File.Name, err)
	}
	found, _ := o.Separates.Find(x, id, m.File.Name)
	if found == nil {
		return nil, errNoDebug
	}
	return &unwind.Binary{ReaderAt: found.ReaderAt, Size: found.Size, Close: func() { _ = found.Close() }}, nil // it was only read from
}
