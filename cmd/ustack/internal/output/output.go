// Package output makes the renderers of what commands write: events as text or JSON, and
// profiles of stacks for other programs.
//
// Symbols may be nil everywhere: functions have no names then.
package output

import (
	"io"

	"ustack/filemap/resolve"
	"ustack/filemap/symbol"
	"ustack/render"
)

// Events is how the events of a trace are written.
type Events struct {
	JSON bool
	Wait int64 // for the dialect in the header of JSON, in bytes of input
	Text render.TextOptions
}

// Renderer writes the trace to w, with names if there are any.
func (out Events) Renderer(w io.Writer, res *resolve.Resolver, names *symbol.Symbols) render.Renderer {
	if out.JSON {
		j := render.NewJSON(w, res, out.Wait)
		if names != nil {
			j.Symbols(names)
		}
		return j
	}
	if names != nil {
		out.Text.Symbols = names
	}
	return render.NewText(w, out.Text)
}
