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

// Debug opens the separate file with debug information of a mapped file that is open. It
// must have the build ID of that, or the checksum that it names.
func (o *Opener) Debug(b *unwind.Binary, f *space.File) (*unwind.Binary, error) {
	if o.Separates == nil || f.Kind != procmap.File || !filepath.IsAbs(f.Name) {
		return nil, errNoDebug
	}
	x, err := image.Open(b, b.Size)
	if err != nil {
		return nil, fmt.Errorf("reading %q: %w", f.Name, err)
	}
	id, err := elfid.Read(b)
	if err != nil {
		return nil, fmt.Errorf("reading the build ID of %q: %w", f.Name, err)
	}
	found, _ := o.Separates.Find(x, id, f.Name)
	if found == nil {
		return nil, errNoDebug
	}
	return &unwind.Binary{ReaderAt: found.ReaderAt, Size: found.Size, Close: func() { _ = found.Close() }}, nil // it was only read from
}
