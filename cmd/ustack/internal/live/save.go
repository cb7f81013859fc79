package live

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"sync"

	"ustack/render/outfile"
	"ustack/tracefs/text"
)

// saver keeps the input for a replay with the same output: the trace as it was
// read, escaped, and the address spaces.
type saver struct {
	raw    *os.File
	spaces *os.File
	id     string // in both
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
	for name, f := range map[string]**os.File{savedTrace: &s.raw, savedSpaces: &s.spaces} {
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

// close closes the files. A nil saver has none.
func (s *saver) close() error {
	if s == nil {
		return nil
	}
	s.once.Do(func() {
		for _, f := range []*os.File{s.raw, s.spaces} {
			if f != nil {
				s.err = errors.Join(s.err, f.Close())
			}
		}
	})
	return s.err
}
