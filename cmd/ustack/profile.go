package main

import (
	"fmt"
	"io"
	"strings"

	"ustack/filemap/symbol"
	"ustack/render"
	"ustack/render/perfetto"
	"ustack/render/profile"
)

// profileFormats lists the formats of stacks for other people's tools.
func profileFormats() string {
	var names []string
	for _, f := range profile.Formats() {
		names = append(names, f.Name)
	}
	return strings.Join(names, ", ")
}

// checkProfile refuses to write a binary profile to a terminal.
func checkProfile(w io.Writer, f profile.Format) error {
	if f.Binary && render.IsTerminalWriter(render.Output(w)) {
		return fmt.Errorf("%s is not for a terminal: send it to a file", f.Name)
	}
	return nil
}

// newEventProfile counts the stacks of a trace, and writes them to w at its
// end. names may be nil.
func newEventProfile(w io.Writer, f profile.Format, names *symbol.Symbols) render.Renderer {
	return profile.NewEvents(func(p *profile.Profile) error { return writeProfile(w, f, p, names) })
}

func writeProfile(w io.Writer, f profile.Format, p *profile.Profile, names *symbol.Symbols) error {
	return f.Write(w, p, symbolsOf(names))
}

// symbolsOf are symbols for a renderer; names may be nil.
func symbolsOf(names *symbol.Symbols) render.Symbols {
	if names == nil {
		return nil
	}
	return names
}

// newTimedProfile writes each stack of a trace to w as it comes. names may be nil.
func newTimedProfile(w io.Writer, trace *savedTrace, names *symbol.Symbols) render.Renderer {
	opt := perfettoOptions(trace.Clock(), names)
	if ev := trace.evidence.judge; ev != nil {
		opt.Process = ev.Process
	}
	return perfetto.NewEvents(w, opt)
}

// perfettoOptions are those of a trace by a clock, "" if unknown. names
// may be nil.
func perfettoOptions(clock string, names *symbol.Symbols) perfetto.Options {
	return perfetto.Options{Clock: clock, Symbols: symbolsOf(names)}
}
