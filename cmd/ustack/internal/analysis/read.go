// Package analysis has what commands share that report at the end of a trace: how an
// analysis gets the records of a saved trace, and how one of a trace that is made now
// is shown meanwhile.
package analysis

import (
	"io"
	"time"

	"ustack/cmd/ustack/internal/pump"
	"ustack/cmd/ustack/internal/saved"
	"ustack/filemap/resolve"
	"ustack/render"
	"ustack/render/lost"
	"ustack/tracefs"
	"ustack/tracefs/input"
)

// Analysis takes the records of a trace and makes a report of them.
type Analysis interface {
	render.Renderer
	// Seen reports whether there was a record.
	Seen() bool
	// Gaps returns the gaps of the trace so far, NeedsGaps reports whether one was found
	// too late: an analysis that knows all of them beforehand has a better answer.
	Gaps() *lost.Gaps
	NeedsGaps() bool
	// Until notes that the trace is whole up to a time.
	Until(tracefs.Time)
	// Refused notes how many records the kernel has refused so far.
	Refused(uint64)
}

// Limits for holding records back. Few are needed: a wait's stack, if it is deferred, is
// found at its end, too.
const (
	holdBytes = 1 << 20
	holdTime  = 2 * time.Second
)

// Saved makes the analysis of a saved trace.
type Saved[A Analysis] struct {
	From *saved.Options
	// New returns an analysis, with the gaps of the trace if they are known.
	New func(*saved.Trace, *lost.Gaps) A
	// Text has the text of all records made, of binary sources too.
	Text bool
	// Drop frees what an analysis keeps beside memory; nil if it keeps nothing.
	Drop func(A)
}

// Read reads the trace, and once more if records are lost in places that could not be
// foreseen. With an error it returns the analysis of what was read before it, or the
// zero value.
func (s *Saved[A]) Read(stdin io.Reader, stderr io.Writer) (a A, err error) {
	hold := resolve.Limits{Lines: pump.HoldLines, Bytes: holdBytes, Time: tracefs.Time(holdTime)}
	s.From.Own, s.From.Beside, s.From.Messages = true, true, stderr
	trace, err := s.From.Open(stdin, input.Options{Events: true, NoText: !s.Text}, resolve.Options{Hold: hold, Stitch: true})
	if err != nil {
		return a, err
	}
	defer trace.Close()
	a = s.New(trace, nil)
	_, err = trace.Read(func(*resolve.Resolver) render.Renderer { return a }, stderr)
	if err != nil || !a.NeedsGaps() {
		return a, err
	}
	second := s.New(trace, a.Gaps())
	if ok, err := trace.ReadAgain(second); !ok || err != nil {
		s.drop(second)
		return a, err
	}
	s.drop(a)
	return second, nil
}

func (s *Saved[A]) drop(a A) {
	if s.Drop != nil {
		s.Drop(a)
	}
}
