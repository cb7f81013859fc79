// Package output makes the renderers of what commands write: events as text or JSON, and
// profiles of stacks for other programs.
//
// Symbols may be nil everywhere: functions have no names then. Stacks get their names
// before a renderer gets the stacks (Named).
package output

import (
	"errors"
	"io"
	"strings"

	"ustack/filemap/resolve"
	"ustack/render"
	"ustack/render/profile"
)

// EventFormat is a way to write the events of a trace.
type EventFormat struct {
	// Name is the value of --format, Note is what the list of formats adds to it.
	Name, Note string
	// Stitched is set if each stack goes to its event, whether that is asked for or not.
	Stitched bool
	// New writes the trace to w, with functions if its stacks have them: see Named.
	New func(w io.Writer, o Events, res *resolve.Resolver) render.Renderer
}

// EventFormats returns all of them. A new one is a row here, and a file in
// render.
func EventFormats() []EventFormat {
	return []EventFormat{
		{Name: "text", New: newText},
		{Name: "json", Note: " (lines)", Stitched: true, New: newJSON},
	}
}

// EventFormatWords lists the formats, with a separator.
func EventFormatWords(sep string) string {
	var words []string
	for _, f := range EventFormats() {
		words = append(words, f.Name+f.Note)
	}
	return strings.Join(words, sep)
}

// AllFormatWords lists the formats of events and of profiles.
func AllFormatWords() string {
	return EventFormatWords(", ") + ", or of all stacks, for other programs: " + ProfileFormats()
}

// eventFormatNames returns the values of --format.
func eventFormatNames() (names []string) {
	for _, f := range EventFormats() {
		names = append(names, f.Name)
	}
	return names
}

// ParseFormat finds a format of events or, if New of that is nil, of a profile.
func ParseFormat(name string) (EventFormat, profile.Format, error) {
	for _, f := range EventFormats() {
		if f.Name == name {
			return f, profile.Format{}, nil
		}
	}
	if name == "markdown" {
		return EventFormat{}, profile.Format{}, errors.New("--format=markdown is a report of waits: ustack futex and ustack wait have it, of saved traces and of what they trace")
	}
	p, err := profile.ParseFormat(name, eventFormatNames()...)
	return EventFormat{}, p, err
}

// Events are the options of event formats.
type Events struct {
	Wait int64 // for the dialect in the header of JSON, in bytes of input
	Text render.TextOptions
}

func newText(w io.Writer, o Events, _ *resolve.Resolver) render.Renderer {
	return render.NewText(w, o.Text)
}

func newJSON(w io.Writer, o Events, res *resolve.Resolver) render.Renderer {
	return render.NewJSON(w, res, o.Wait)
}
