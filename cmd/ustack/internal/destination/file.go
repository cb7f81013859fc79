package destination

import (
	"errors"
	"fmt"
	"io"
	"os"

	"ustack/render/outfile"
)

// file is a regular file that the user has named. If nothing was written into it, it is
// removed at the end: an empty file would pass for a result.
type file struct {
	to      *os.File
	name    string
	written bool
}

// create opens the output called name. A terminal, a pipe or another device is returned as it
// is (render.Output looks at it).
func create(name string) (io.WriteCloser, error) {
	to, err := outfile.Create(name)
	if err != nil {
		return nil, fmt.Errorf("creating the output: %w", err)
	}
	if info, err := to.Stat(); err != nil || !info.Mode().IsRegular() {
		return to, nil
	}
	return &file{to: to, name: name}, nil
}

// Write implements io.Writer.
func (f *file) Write(p []byte) (int, error) {
	f.written = f.written || len(p) > 0
	return f.to.Write(p)
}

// Close implements io.Closer.
func (f *file) Close() error {
	is, err := f.to.Stat()
	if cerr := f.to.Close(); cerr != nil {
		return errors.Join(err, cerr)
	}
	if f.written || err != nil {
		return err
	}
	if now, err := os.Lstat(f.name); err != nil || !os.SameFile(is, now) {
		return nil // it is gone, or is one of our descriptors, which are not ours to remove
	}
	return os.Remove(f.name)
}
