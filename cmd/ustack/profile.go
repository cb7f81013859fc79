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

// checkProfile refuses to write what is no text to a terminal.
func checkProfile(w io.Writer, f profile.Format) error {
	if f.Binary && render.IsTerminalWriter(render.Output(w)) {
		return fmt.Errorf("%s is not for a terminal: send it to a file", f.Name)
	}
	return nil
}

// newEventProfile counts the stacks of a trace, and writes them to w at its
// end, or each as it comes if that is the format. names may be nil.
func newEventProfile(w io.Writer, f profile.Format, names *symbol.Symbols) render.Renderer {
	if f.Timed {
		return perfetto.NewEvents(w, perfettoOptions(names, ""))
	}
	return profile.NewEvents(func(p *profile.Profile) error { return writeProfile(w, f, p, names) })
}

func writeProfile(w io.Writer, f profile.Format, p *profile.Profile, names *symbol.Symbols) error {
	if names == nil {
		return f.Write(w, p, nil)
	}
	return f.Write(w, p, names)
}

// perfettoOptions are those of a trace. names may be nil; clock is that of the
// trace, "" if nobody knows it.
func perfettoOptions(names *symbol.Symbols, clock string) perfetto.Options {
	opt := perfetto.Options{Clock: clock}
	if names != nil {
		opt.Symbols = names
	}
	return opt
}
