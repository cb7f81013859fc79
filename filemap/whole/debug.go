package whole

import (
	"cmp"
	"errors"
	"path/filepath"

	"ustack/filemap/procmap"
	"ustack/filemap/space"
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
	found, err := o.Separates.FindFor(b, b.Size, f.Name)
	if err != nil || found == nil {
		return nil, cmp.Or(err, errNoDebug)
	}
	return &unwind.Binary{ReaderAt: found.ReaderAt, Size: found.Size, Close: func() { _ = found.Close() }, Check: found.Check}, nil // it was only read from
}
