package live

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"sync"

	"ustack/filemap/anoncode"
	"ustack/render/outfile"
	"ustack/tracefs/text"
)

// saver keeps the input for a replay with the same output: the trace as it was
// read, escaped, the address spaces, and the names of code that is in no file.
type saver struct {
	raw    *os.File
	spaces *os.File
	names  *os.File
	id     string // in all
	once   sync.Once
	err    error
}

// Names of the files of --save.
const (
	savedTrace  = "trace.txt"
	savedSpaces = "spaces.txt"
)

// newSaver creates the directory, if it does not exist, and the files. They are
// for their user alone.
func newSaver(name string) (*saver, error) {
	dir, err := outfile.OpenDir(name)
	if err != nil {
		return nil, fmt.Errorf("saving the trace: %w", err)
	}
	defer dir.Close()
	var random [8]byte
	_, _ = rand.Read(random[:]) // it does not fail
	s := &saver{id: hex.EncodeToString(random[:])}
	files := map[string]**os.File{savedTrace: &s.raw, savedSpaces: &s.spaces}
	if anoncode.KeepsNames {
		files[anoncode.SavedName] = &s.names
	}
	for name, f := range files {
		if *f, err = dir.New(name); err != nil {
			return nil, errors.Join(fmt.Errorf("saving the trace: %w", err), s.close())
		}
	}
	return s, s.text([]byte(text.SavedHead(s.id)))
}

// text saves text of the trace. A nil saver saves nothing.
func (s *saver) text(b []byte) error {
	if s == nil {
		return nil
	}
	if _, err := s.raw.Write(b); err != nil {
		return fmt.Errorf("saving the trace: %w", err)
	}
	return nil
}

// keeper returns what keeps the names of code. A nil saver keeps none.
func (s *saver) keeper() *anoncode.Keeper {
	if s == nil {
		return nil
	}
	return anoncode.NewKeeper(s.names, s.id)
}

// close closes the files. A nil saver has none.
func (s *saver) close() error {
	if s == nil {
		return nil
	}
	s.once.Do(func() {
		for _, f := range []*os.File{s.raw, s.spaces, s.names} {
			if f != nil {
				s.err = errors.Join(s.err, f.Close())
			}
		}
	})
	return s.err
}
