package top

import (
	"time"

	"ustack/filemap/resolve"
	"ustack/render"
	"ustack/render/futex"
	"ustack/tracefs"
)

// windows are the analyses of the last part of the trace, beside the one of all of it: since
// a mark, and of the last keep to 2*keep.
//
// Invariants:
//   - Each gets every batch since it began, and nothing before.
//   - late began after early, and no later than keep after it.
type windows struct {
	start func() *futex.Analysis
	keep  time.Duration // 0 for a mark only

	marked      window
	early, late window
}

// window is an analysis and when it began.
type window struct {
	a     *futex.Analysis // nil for none
	since tracefs.Time
}

// mark begins to keep waits, from a time on.
func (w *windows) mark(now tracefs.Time) {
	drop(w.marked.a)
	w.marked = window{w.start(), now}
}

// last keeps waits of the last part of the trace, instead of a mark: of a time that is kept
// already, what is there.
func (w *windows) last(keep time.Duration, now tracefs.Time) {
	drop(w.marked.a)
	w.marked = window{}
	if keep == w.keep {
		return
	}
	drop(w.early.a)
	drop(w.late.a)
	w.keep, w.early, w.late = keep, window{}, window{}
	w.turn(now)
}

// turn begins a new analysis of the last part of the trace if it is time to.
func (w *windows) turn(now tracefs.Time) {
	if w.keep == 0 {
		return
	}
	keep := tracefs.Time(w.keep)
	switch {
	case w.early.a == nil:
		w.early = window{w.start(), now}
	case w.late.a == nil && now-w.early.since >= keep:
		w.late = window{w.start(), now}
	case w.late.a != nil && now-w.late.since >= keep:
		drop(w.early.a)
		w.early, w.late = w.late, window{w.start(), now}
	}
}

// saved returns the analysis that is to be saved, the one since the mark if there is one.
func (w *windows) saved() window {
	if w.marked.a != nil {
		return w.marked
	}
	return w.early
}

// take takes it away: nothing is added to it any more.
func (w *windows) take() window {
	if taken := w.marked; taken.a != nil {
		w.marked = window{}
		return taken
	}
	taken := w.early
	w.early, w.late = w.late, window{}
	return taken
}

// all returns the analyses that there are.
func (w *windows) all() (list []*futex.Analysis) {
	for _, a := range []*futex.Analysis{w.marked.a, w.early.a, w.late.a} {
		if a != nil {
			list = append(list, a)
		}
	}
	return list
}

// close frees all.
func (w *windows) close() {
	for _, a := range w.all() {
		drop(a)
	}
	w.marked, w.early, w.late = window{}, window{}, window{}
}

func drop(a *futex.Analysis) {
	if a != nil {
		a.DropCalls()
	}
}

// feed passes batches to the analysis of all of the trace, and to the windows.
type feed struct {
	render.Renderer
	windows *windows
}

// Batch implements render.Renderer.
func (f feed) Batch(h *resolve.Pending) error {
	for _, a := range f.windows.all() {
		if err := a.Batch(h); err != nil {
			return err
		}
	}
	return f.Renderer.Batch(h)
}
