// Package events is the output of ustack live: the events of the trace with their stacks as
// they come, or at the end what the stacks say as a profile.
package events

import (
	"fmt"
	"io"

	"ustack/cmd/ustack/internal/destination"
	"ustack/cmd/ustack/internal/live"
	"ustack/cmd/ustack/internal/output"
	"ustack/cmd/ustack/internal/pump"
	"ustack/cmd/ustack/internal/symbols"
	"ustack/filemap/resolve"
	"ustack/filemap/symbolize"
	"ustack/render"
	"ustack/render/perfetto"
	"ustack/render/profile"
)

// Options say what is written, and where to.
type Options struct {
	To      destination.Flags
	Stdout  io.Writer
	Format  output.EventFormat
	Profile profile.Format // if New of Format is nil
	Text    render.TextOptions
	Symbols *symbols.Options
}

// Sink is a live.Sink.
type Sink struct {
	Options
	processes *live.Processes
	out       io.WriteCloser // nil before Open and after End
	names     *symbolize.Symbols
}

// Open implements live.Sink.
func (s *Sink) Open(start *live.Start) (needs live.Needs, err error) {
	s.processes = start.Processes
	if s.names, err = s.Symbols.OpenLive(start.Since); err != nil {
		return needs, err
	}
	needs.Symbols = s.names
	needs.Lines = !s.To.ToFile() && render.IsTerminalWriter(render.Output(s.Stdout))
	s.out, err = s.To.Raw(s.Stdout)
	return needs, err
}

// Renderer implements live.Sink.
func (s *Sink) Renderer(res *resolve.Resolver) render.Renderer {
	w := render.Output(s.out)
	switch {
	case s.Profile.Timed:
		return output.NewTimedProfile(w, perfetto.Options{Clock: live.Clock, Process: s.processes.Process}, s.names)
	case s.Profile.Write != nil:
		return output.NewEventProfile(w, s.Profile, s.names, nil)
	}
	return output.Named(s.Format.New(w, output.Events{Wait: pump.HoldBytes, Text: s.Text}, res), s.names)
}

// Step implements live.Sink. It is never done.
func (s *Sink) Step(*resolve.Totals) (done bool, err error) { return false, nil }

// End implements live.Sink.
func (s *Sink) End() error {
	if s.names != nil {
		s.names.Close()
		s.names = nil
	}
	if s.out == nil {
		return nil
	}
	err := s.out.Close()
	s.out = nil
	if err != nil {
		return fmt.Errorf("writing the output: %w", err)
	}
	return nil
}
