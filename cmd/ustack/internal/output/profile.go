package output

import (
	"fmt"
	"io"
	"strings"

	"ustack/cmd/ustack/internal/saved"
	"ustack/filemap/symbolize"
	"ustack/render"
	"ustack/render/perfetto"
	"ustack/render/profile"
)

// ProfileFormats lists the formats of stacks for other people's tools.
func ProfileFormats() string {
	var names []string
	for _, f := range profile.Formats() {
		names = append(names, f.Name)
	}
	return strings.Join(names, ", ")
}

// CheckProfile refuses to write a binary profile to a terminal.
func CheckProfile(w io.Writer, f profile.Format) error {
	if f.Binary && render.IsTerminalWriter(render.Output(w)) {
		return fmt.Errorf("%s is not for a terminal: send it to a file", f.Name)
	}
	return nil
}

// NewEventProfile counts the stacks of a trace, and writes them to w at its
// end. names may be nil.
func NewEventProfile(w io.Writer, f profile.Format, names *symbolize.Symbols) render.Renderer {
	return profile.NewEvents(func(p *profile.Profile) error { return WriteProfile(w, f, p, names) })
}

// WriteProfile writes a profile in a format of them. names may be nil.
func WriteProfile(w io.Writer, f profile.Format, p *profile.Profile, names *symbolize.Symbols) error {
	return f.Write(w, p, SymbolsOf(names))
}

// SymbolsOf are symbols for a renderer; names may be nil.
func SymbolsOf(names *symbolize.Symbols) render.Symbols {
	if names == nil {
		return nil
	}
	return names
}

// NewTimedProfile writes each stack of a trace to w as it comes. names may be nil.
func NewTimedProfile(w io.Writer, trace *saved.Trace, names *symbolize.Symbols) render.Renderer {
	opt := PerfettoOptions(trace.Clock(), names)
	if ev := trace.Dump(); ev != nil {
		opt.Process = ev.Process
	}
	return perfetto.NewEvents(w, opt)
}

// PerfettoOptions returns the options for a trace by a clock, "" if unknown.
// names may be nil.
func PerfettoOptions(clock string, names *symbolize.Symbols) perfetto.Options {
	return perfetto.Options{Clock: clock, Symbols: SymbolsOf(names)}
}
