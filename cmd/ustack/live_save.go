package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"ustack/tracefs/text"
)

// saver keeps what replay needs to write the same again: the trace as it was
// read, escaped, and the address spaces.
type saver struct {
	raw    *os.File
	spaces *os.File
	once   sync.Once
	err    error
}

// Names of the files of --save.
const (
	savedTraceFile  = "trace.txt"
	savedSpacesFile = "spaces.txt"
)

// newSaver makes the folder and the files. What is in a trace is nobody else's
// business.
func newSaver(dir string) (*saver, error) {
	const private = 0o700
	if err := os.MkdirAll(dir, private); err != nil {
		return nil, fmt.Errorf("saving the trace: %w", err)
	}
	s := new(saver)
	var err error
	for name, f := range map[string]**os.File{savedTraceFile: &s.raw, savedSpacesFile: &s.spaces} {
		if *f, err = os.OpenFile(filepath.Join(dir, name), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600); err != nil {
			return nil, errors.Join(fmt.Errorf("saving the trace: %w", err), s.close())
		}
	}
	return s, s.text([]byte(text.Head))
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
