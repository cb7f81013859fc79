package main

import (
	"errors"
	"fmt"

	"ustack/cmd/ustack/internal/pump"
	"ustack/filemap/facts"
	"ustack/tracefs"
	"ustack/tracefs/binary"
	"ustack/tracefs/input"
	"ustack/tracefs/raw"
)

// Values of --source.
const (
	sourceAuto   = "auto"
	sourceText   = "text"
	sourceBinary = "binary"
)

// open opens the trace: the ring buffer itself, if we can, else the text that the
// kernel makes of it.
func (s *session) open() (input.ReadCloser, error) {
	err := s.openRaw()
	switch {
	case err == nil:
		s.settings.reads(s.raw)
		return s.raw, nil
	case s.f.source == sourceBinary:
		return nil, fmt.Errorf("--source=binary: %w", err)
	}
	pipe, err := s.in.Pipe()
	if err != nil {
		return nil, err
	}
	s.settings.reads(pipe)
	file := input.Live(pipe.Name(), pipe)
	return input.NewTrace([]*input.File{file}, input.Options{Events: s.wantEvents(), Escape: true, Pause: pump.HoldPause, NoShapes: true}), nil
}

// wantEvents reports whether each event is needed.
func (s *session) wantEvents() bool { return s.f.stitch || s.records || s.unwind.keeper != nil }

// errNoRaw: --source=text, or there is nothing but text.
var errNoRaw = errors.New("the trace is there as text only")

// openRaw opens the ring buffer.
func (s *session) openRaw() (err error) {
	names := s.follow.names()
	switch {
	case s.f.source == sourceText || s.in.Root().Plain():
		return errNoRaw
	case names == nil:
		return errors.New("names of tasks come from the perf side band only, and it is not in use")
	}
	s.raw, err = raw.Open(s.in, raw.Options{
		LiveOptions: binary.LiveOptions{
			Options: binary.Options{Events: s.wantEvents(), NoShapes: true, Bare: s.bare && s.saved == nil},
			Pause:   pump.HoldPause,
		},
		Events:  append(s.events[:len(s.events):len(s.events)], s.maps...),
		Names:   names,
		Symbols: binary.NewSymbols(func() []byte { return facts.KernelSymbols(s.f.proc) }),
	})
	return err
}

// sourceWord says what is read.
func (s *session) sourceWord() string {
	if s.raw != nil {
		return sourceBinary
	}
	return sourceText
}

// names has the names of tasks, nil if they are unknown.
func (fl *following) names() binary.Names {
	if band, ok := fl.follower.(*bandFollower); ok {
		return taskNames{band}
	}
	return nil
}

// taskNames are the names of tasks that the side band has.
type taskNames struct{ band *bandFollower }

// Comm implements binary.Names.
func (n taskNames) Comm(tid int32, at uint64) (comm string, until uint64, ok bool) {
	comm, end, ok := n.band.comm(int(tid), tracefs.Time(at))
	return comm, uint64(end), ok
}
