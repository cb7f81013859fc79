package output

import (
	"fmt"
	"io"
	"strings"

	"ustack/filemap/symbolize"
	"ustack/render"
	"ustack/render/perfetto"
	"ustack/render/profile"
	"ustack/render/progress"
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

// NewEventProfile counts the stacks of a trace, and at its end names them and writes
// them to w. names may be nil, and line, which has its steps.
func NewEventProfile(w io.Writer, f profile.Format, names *symbolize.Symbols, line *progress.Line) render.Renderer {
	return profile.NewEvents(func(p *profile.Profile) error {
		if names != nil {
			step := line.Begin("naming the functions", nil)
			p.Name(names)
			step.End()
		}
		defer line.Begin("writing the profile", nil).End()
		return f.Write(w, p)
	})
}

// NewTimedProfile writes each stack of a trace to w as it comes. names may be nil.
func NewTimedProfile(w io.Writer, opt perfetto.Options, names *symbolize.Symbols) render.Renderer {
	return Named(perfetto.NewEvents(w, opt), names)
}
