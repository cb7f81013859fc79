package output

import (
	"ustack/filemap/resolve"
	"ustack/filemap/symbolize"
	"ustack/render"
)

// Named returns a renderer that names the functions of the stacks, and passes them to
// w then. names may be nil.
func Named(w render.Renderer, names *symbolize.Symbols) render.Renderer {
	if names == nil {
		return w
	}
	return &named{w, symbolize.NewStage(names)}
}

type named struct {
	render.Renderer
	stage *symbolize.Stage
}

// Batch implements render.Renderer.
func (n *named) Batch(h *resolve.Pending) error {
	n.stage.Batch(h)
	return n.Renderer.Batch(h)
}

// Explained returns an explanation whose frame is named at the end.
func Explained(e *render.Explanation, names *symbolize.Symbols) render.Renderer {
	return &explained{e, names}
}

type explained struct {
	*render.Explanation
	names *symbolize.Symbols
}

// Close implements render.Renderer.
func (e *explained) Close(t *resolve.Totals) error {
	if at, ok := e.Place(); ok {
		e.Name(e.names.Name(at.File, at.Offset, at.Ran), e.names.Tries(at.File))
	}
	return e.Explanation.Close(t)
}
