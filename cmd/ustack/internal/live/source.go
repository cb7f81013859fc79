package live

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

// Source delivers the records of an instance, in batches. Next and Close are called by
// one goroutine; Interrupt may be called by any, and has Next return.
type Source interface {
	input.ReadCloser
	// Name is the word for the source, a value of Options.Source.
	Name() string
	// Size returns how many bytes have been read.
	Size() int64
	// Notes returns what the user should know of the trace, at its end.
	Notes() []string
	Interrupt() error
}

// sources open the ways to read an instance, the best one first. One that is not
// wanted, or cannot be had, returns an error that wraps errOther.
func sources() []func(*session) (Source, error) {
	return []func(*session) (Source, error){openRing, openText}
}

// errOther: the next source may do.
var errOther = errors.New("another source may do")

// open opens the trace.
func (s *session) open() (Source, error) {
	var err error
	for _, open := range sources() {
		if s.source, err = open(s); err == nil {
			s.settings.reads(s.source)
			return s.source, nil
		}
		if !errors.Is(err, errOther) {
			break
		}
	}
	return nil, err
}

// wantEvents reports whether each event is needed.
func (s *session) wantEvents() bool {
	return s.opt.Stitch || s.opt.EachEvent || s.unwind.keeper != nil || s.tracesWaits()
}

// textSource is the text that the kernel makes of the ring buffer.
type textSource struct {
	*input.Trace
	pipe interface{ Close() error }
	size int64
}

func openText(s *session) (Source, error) {
	pipe, err := s.in.Pipe()
	if err != nil {
		return nil, err
	}
	file := input.Live(pipe.Name(), pipe)
	opt := input.Options{Events: s.wantEvents(), Escape: true, Pause: pump.HoldPause, NoShapes: true}
	return &textSource{Trace: input.NewTrace([]*input.File{file}, opt), pipe: pipe}, nil
}

// Name implements Source.
func (t *textSource) Name() string { return SourceText }

// Next implements input.Reader.
func (t *textSource) Next(b *tracefs.Batch) error {
	err := t.Trace.Next(b)
	t.size += int64(len(b.Text))
	return err
}

// Size implements Source.
func (t *textSource) Size() int64 { return t.size }

// Notes implements Source: text has none.
func (t *textSource) Notes() []string { return nil }

// Interrupt implements Source.
func (t *textSource) Interrupt() error { return t.pipe.Close() }

// ringSource is the ring buffer itself.
type ringSource struct{ *binary.Live }

// errNoRaw: --source=text, or there is nothing but text.
var errNoRaw = errors.New("the trace is there as text only")

func openRing(s *session) (Source, error) {
	ring, err := s.openRing()
	switch {
	case err == nil:
		return &ringSource{ring}, nil
	case s.opt.Source == SourceBinary:
		return nil, fmt.Errorf("--source=binary: %w", err)
	}
	return nil, errors.Join(errOther, err)
}

func (s *session) openRing() (*binary.Live, error) {
	names := s.follow.names()
	switch {
	case s.opt.Source == SourceText || s.in.Root().Plain():
		return nil, errNoRaw
	case names == nil:
		return nil, errors.New("names of tasks come from the perf side band only, and it is not in use")
	}
	return raw.Open(s.in, raw.Options{
		LiveOptions: binary.LiveOptions{
			Options: binary.Options{Events: s.wantEvents(), NoShapes: true, Bare: s.opt.Bare && s.saved == nil},
			Pause:   pump.HoldPause,
		},
		Events:  append(s.events[:len(s.events):len(s.events)], s.maps...),
		Names:   names,
		Symbols: binary.NewSymbols(func() []byte { return facts.KernelSymbols(s.opt.Proc) }),
	})
}

// Name implements Source.
func (r *ringSource) Name() string { return SourceBinary }

// Size implements Source.
func (r *ringSource) Size() int64 { return r.Bytes() }

// Interrupt implements Source.
func (r *ringSource) Interrupt() error { return r.Close() }

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
